"""Compile on other machines: leases of several units, which the workers of a cluster compile."""
