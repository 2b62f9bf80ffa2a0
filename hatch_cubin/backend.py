"""The build backend `hatch_cubin.backend`: it builds the kernels, and leaves the rest to another backend.

The table names the other backend. If it does not have a hook, this backend does not have it either. The name
of this module is written in projects and in their editable installs, so it must not change.
"""

from __future__ import annotations

from typing import Any

from .frontends import wrapper
from .frontends.wrapper import rebuild

__all__ = ["rebuild"]


def __getattr__(name: str) -> Any:
    return wrapper.hook(name)
