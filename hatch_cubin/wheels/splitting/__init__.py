"""Split a finished wheel by arch: into a main wheel and companions, or into wheel variants."""
