"""What makes the result of a unit, and the keys that it is stored under."""
