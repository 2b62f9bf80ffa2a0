"""The guard of the tests' folders: `sitecustomize.py`, alone in a folder that is on the PYTHONPATH of what tests start."""
