"""Split a finished wheel: into companions for one arch each, or into wheel variants."""
