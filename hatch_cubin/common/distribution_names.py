"""Names of distributions, in the forms in which installers compare them and name files."""

from __future__ import annotations

import re


def comparable_name(name: str) -> str:
    """Return the form in which installers compare names: `NVIDIA_cuda.runtime` is `nvidia-cuda-runtime`."""
    return re.sub(r"[-_.]+", "-", name).lower()


def underscored_name(name: str) -> str:
    """Return the form that names of files and of import packages begin with: `nvidia_cuda_runtime`."""
    return comparable_name(name).replace("-", "_")
