"""The answers of `hatch-cubin explain`: why a unit is a cache miss, why an arch is built, what a GPU gets."""
