"""The file cubin.lock: its format, how a project is compared with it, and builds that use it."""
