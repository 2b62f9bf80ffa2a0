"""The address under which editable installs of setuptools' projects have their kernels built again.

It is written into them, so it stays what it is, wherever the function moves.
"""

from .doors.commands import rebuild

__all__ = ["rebuild"]
