"""The inputs of each unit, and the keys that its result is stored under."""
