"""Remove finished wheels that are larger than `max-size` in pyproject.toml.

The code that measures the parts of a wheel is imported only if a wheel is too large.
"""

from __future__ import annotations

import os

from ..config.config import Config


def enforce(config: Config, wheel: str) -> None:
    """If a finished wheel is too large, remove the wheel and raise a BundleError that suggests changes."""
    if config.max_size is not None and os.path.getsize(wheel) > config.max_size:
        from ..wheels.checking.size_advice import remove_large_wheel

        remove_large_wheel(wheel, config.max_size, config.place.of("max-size"))
