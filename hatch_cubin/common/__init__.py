"""What every room may use: archs and GPUs, digests, files, locks, streams, the console, temporary folders."""
