"""Compile on the workers of a cluster.

A build sends several compiles to a worker at a time.
"""
