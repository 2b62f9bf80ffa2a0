"""Run the whole build, report its results, and divide the compiles between several CI jobs."""
