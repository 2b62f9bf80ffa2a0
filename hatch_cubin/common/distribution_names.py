"""Convert the name of a distribution to the form for comparisons, or to the form in file names."""

from __future__ import annotations

import re


def comparable_name(name: str) -> str:
    """Return a distribution's name as installers compare it (`nvidia-runtime` for `NVIDIA_runtime`)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def underscored_name(name: str) -> str:
    """Return a distribution's name as file names contain it (`nvidia_runtime` for `nvidia-runtime`)."""
    return comparable_name(name).replace("-", "_")
