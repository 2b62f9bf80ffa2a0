"""hatch-cubin compiles CUDA kernels when a wheel is built.

At run time, the package in the wheel loads the compiled kernels without a compiler.
"""

__version__ = "0.1.0"

# type checkers treat TYPE_CHECKING as True; importing typing would take longer than importing this module
TYPE_CHECKING = False
if TYPE_CHECKING:
    from .program_cache.sqlite_cache import SQLiteProgramCache

__all__ = ["SQLiteProgramCache"]


def __getattr__(name: str) -> object:
    """Import `SQLiteProgramCache` when it is first used, because few projects need it."""
    if name != "SQLiteProgramCache":
        how = "a package's own kernels are loaded with 'from mypkg import _cubins'"
        if name.startswith("build_"):  # a build front end imports this module as a build backend
            how = 'in pyproject.toml, write build-backend = "hatch_cubin.backend"'
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: {how}")
    from .program_cache.sqlite_cache import SQLiteProgramCache

    return SQLiteProgramCache
