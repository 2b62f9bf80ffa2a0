"""A module for each verb of the command line: the arguments that it takes, and what it answers."""
