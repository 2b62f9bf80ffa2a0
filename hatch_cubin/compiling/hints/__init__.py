"""Hints for a failed compile: each module knows one kind of cause."""
