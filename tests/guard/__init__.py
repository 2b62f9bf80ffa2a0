"""The guard of the tests' folders. Its file is alone here: this folder is on the path of what tests start."""
