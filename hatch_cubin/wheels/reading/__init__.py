"""Read bundles, and show what is in them."""
