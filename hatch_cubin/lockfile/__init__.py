"""The lock file cubin.lock: its format, its comparison with a project, and builds that use it."""
