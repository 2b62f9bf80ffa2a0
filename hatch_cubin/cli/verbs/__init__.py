"""A module for each verb of the command line, with the verb's arguments and results."""
