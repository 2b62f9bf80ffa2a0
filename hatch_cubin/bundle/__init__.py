"""What enters a wheel: the bundle's layout and its indexes, and the files that ship as they are."""
