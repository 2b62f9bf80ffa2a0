"""Leave no wheel behind that is larger than the table's `max-size` allows. Most builds have none."""

from __future__ import annotations

import os

from ..config.config import Config


def keep(config: Config, wheel: str) -> None:
    """Remove a finished wheel that is too large, and raise BundleError that says what would help."""
    if config.max_size is not None and os.path.getsize(wheel) > config.max_size:
        from ..wheels.checking.size_advice import remove_large_wheel

        remove_large_wheel(wheel, config.max_size, config.place.of("max-size"))
