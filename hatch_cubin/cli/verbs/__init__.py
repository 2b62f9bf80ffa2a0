"""A module for each verb of the command line: its arguments and its answer."""
