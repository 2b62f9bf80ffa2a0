"""Helpers for every room: archs and GPUs, digests, files, locks, streams, the console, temporary folders."""
