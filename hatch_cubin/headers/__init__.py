"""Which headers a source can read: the search path, the includes, and what earlier builds found."""
