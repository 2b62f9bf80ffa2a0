"""The answers of `hatch-cubin explain`: the reasons for cache misses and archs, and what a GPU would load."""
