"""Which headers a unit can read, and the keys that its result is stored under."""
