"""What `hatch-cubin explain` finds out: why a unit is a miss, why an arch is built, what a GPU would load."""
