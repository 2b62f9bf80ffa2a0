"""Decide what is compiled and what each result is called. Pure."""
