"""What to do about a compile that failed, by cause: each module knows one kind."""
