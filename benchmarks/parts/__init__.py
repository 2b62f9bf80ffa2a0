"""The parts of the table: each has `rows`, which measures and yields one row after the other."""
