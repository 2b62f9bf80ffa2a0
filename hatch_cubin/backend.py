"""The build backend `hatch_cubin.backend`: it builds the kernels, and calls another backend for the rest.

The key `backend` in pyproject.toml names the backend that builds everything except the kernels.
`hatch_cubin.backend` has exactly the build hooks of the backend that the key `backend` names. This module
must not be renamed, because projects and their editable installs contain its name.
"""

from __future__ import annotations

from typing import Any

from .frontends import wrapper
from .frontends.wrapper import rebuild

__all__ = ["rebuild"]


def __getattr__(name: str) -> Any:
    return wrapper.hook(name)
