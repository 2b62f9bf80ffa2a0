"""What enters a wheel: how it is laid out, and the files that ship as they are."""
