"""Stores of results that many machines share, behind the local cache folder."""
