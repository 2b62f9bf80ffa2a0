"""The bundle that a wheel contains: its layout, its indexes, and the files that are copied unchanged."""
