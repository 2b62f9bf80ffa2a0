"""The function with which editable installs made by setuptools build their kernels again.

Editable installs contain the import path of this module, so the module must not be renamed.
"""

from .setuptools_commands import rebuild

__all__ = ["rebuild"]
