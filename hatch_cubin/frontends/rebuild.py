"""The function that editable installs made with setuptools call to build their kernels again.

Its import path is written into those installs, so this module must keep its name even if the function moves.
"""

from .setuptools_commands import rebuild

__all__ = ["rebuild"]
