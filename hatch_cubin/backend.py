"""The build backend `hatch_cubin.backend`: it builds the kernels, and leaves the rest to another backend.

Which one that is, the table names. A hook that it does not have is not offered here either. The name of this
module stands in projects, and in their editable installs: it stays.
"""

from __future__ import annotations

from typing import Any

from .frontends import wrapper
from .frontends.wrapper import rebuild

__all__ = ["rebuild"]


def __getattr__(name: str) -> Any:
    return wrapper.hook(name)
