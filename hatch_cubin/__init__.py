"""Compile CUDA kernels when a wheel is built, load them with no compiler."""

__version__ = "0.1.0"

TYPE_CHECKING = False  # as typing has it, which takes longer to import than all of this
if TYPE_CHECKING:
    from .program_cache.sqlite_cache import SQLiteProgramCache

__all__ = ["SQLiteProgramCache"]


def __getattr__(name: str) -> object:
    """Import what is seldom asked for when it is."""
    if name != "SQLiteProgramCache":
        how = "a package's own kernels are loaded with 'from mypkg import _cubins'"
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: {how}")
    from .program_cache.sqlite_cache import SQLiteProgramCache

    return SQLiteProgramCache
