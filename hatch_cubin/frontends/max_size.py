"""Remove finished wheels that are larger than the table's `max-size`.

The code that measures a wheel's parts is imported only for a wheel that is too large.
"""

from __future__ import annotations

import os

from ..config.config import Config


def enforce(config: Config, wheel: str) -> None:
    """If a finished wheel is too large, remove it and raise a BundleError that lists remedies."""
    if config.max_size is not None and os.path.getsize(wheel) > config.max_size:
        from ..wheels.checking.size_advice import remove_large_wheel

        remove_large_wheel(wheel, config.max_size, config.place.of("max-size"))
