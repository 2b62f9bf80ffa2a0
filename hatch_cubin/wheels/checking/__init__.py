"""Check that a wheel is complete and undamaged, and that it contains what the project builds."""
