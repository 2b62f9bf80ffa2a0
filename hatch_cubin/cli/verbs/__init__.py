"""A module for each verb: what it takes, and what it answers."""
