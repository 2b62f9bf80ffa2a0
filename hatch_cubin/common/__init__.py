"""Helpers that all other packages use: archs and GPUs, digests, files, locks, streams, temporary folders."""
