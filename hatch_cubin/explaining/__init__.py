"""The answers of `hatch-cubin explain`: why a unit is a miss, why an arch is built, what a GPU would load."""
