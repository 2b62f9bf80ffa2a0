"""The import path under which editable installs made with setuptools build their kernels again.

The path is written into those installs. So this module keeps its name, wherever the function moves.
"""

from .setuptools_commands import rebuild

__all__ = ["rebuild"]
