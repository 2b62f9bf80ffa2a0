# A part of hatch-cubin's loader (Apache-2.0): see __init__.py.
"""The wording of errors that say what the caller asked for, what there is, and what would help."""

from . import CubinNotFoundError, _damaged, _having_kernel, _import, _message, _named, select

TYPE_CHECKING = False
if TYPE_CHECKING:
    import difflib
    from collections.abc import Mapping, Sequence
    from typing import Any, NoReturn

    from . import Entry, _Manifest, _Module


def no_such_name(name: str, manifest: "_Manifest") -> str:
    """Word that a name means nothing, with the names that it may stand for."""
    if manifest.header.get("skipped"):
        return _message(
            f"no kernel {name!r}: the package was built with HATCH_CUBIN_SKIP, without any kernels"
        )
    known = sorted({*manifest.kernel_names(), *(each.name for each in manifest.everything())})
    if name in known:  # it is there, but not at its place in the order
        _damaged("manifest.json", "its lines are not in order")
    guess = f"there are: {', '.join(map(repr, known[:20]))}"
    if close := _import("difflib").get_close_matches(name, known, n=3):
        guess = f"did you mean {' or '.join(map(repr, close))}?"
    if "<" in name:
        guess = f"of a template, only what 'instantiate' names is built; {guess}"
    return _message(f"no kernel or module {name!r}; {guess}")


def refuse_choice(
    name: str,
    module: "str | None",
    macros: "Mapping[str, str]",
    fitting: "Sequence[_Module]",
    candidates: "Sequence[_Module]",
) -> "NoReturn":
    """Raise the error of a name that means none of the candidates, or several that fit."""
    asked = "".join([f" in module {module!r}" if module else "", f" with {dict(macros)}" if macros else ""])
    what = f"no kernel or module {name!r}{asked}"
    if fitting:
        what = f"{name!r}{asked} is ambiguous: say module= or the variant's macros"
    listed = ", ".join(repr(each.name) for each in (fitting or candidates)[:20])
    raise CubinNotFoundError(_message(f"{what}; there are {listed}"))


def one_kernel(found: "_Module") -> str:
    """Return the kernel that a module's name stands for; CubinNotFoundError if it has none, or several."""
    if len(found.kernels) != 1:
        listed = ", ".join(map(repr, found.kernels))
        which = f"several kernels, name one: {listed}" if listed else "no kernel"
        raise CubinNotFoundError(_message(f"module {found.name!r} has {which}"))
    return next(iter(found.kernels))


def refuse_name(given: object) -> TypeError:
    return TypeError(_message(f"a kernel or a module is asked for by its name, not by {given!r:.80}"))


def refuse_variant(variant: "Any", macros: "Mapping[str, Any]", *, is_mapping: bool) -> "NoReturn":
    """Raise the error of a variant that is not a mapping, or that repeats a macro."""
    if not is_mapping:
        raise TypeError(_message(f"variant is a mapping such as {{'BLOCK': 256}}, not {variant!r:.80}"))
    twice = min(variant.keys() & macros.keys())
    raise TypeError(_message(f"the macro {twice!r} is given twice, in variant= and by itself"))


def refuse_gpu(cc: "Any", driver: "Any", device: "Any") -> "NoReturn":
    """Raise the error of a capability or a driver that cannot be."""
    if cc is not None:
        if not isinstance(cc, tuple) or [type(part) for part in cc] != [int, int]:
            raise TypeError(_message(f"cc is a pair of numbers such as (9, 0), not {cc!r:.80}"))
        if cc[0] < 1 or not 0 <= cc[1] <= 9:
            raise ValueError(_message(f"there is no compute capability {cc[0]}.{cc[1]}"))
        if device is not None:
            raise TypeError(_message("cc and device both say which GPU: give one of them"))
    if type(driver) is not int:
        what = f"driver is a version as cuDriverGetVersion counts (13.0 is 13000) or None, not {driver!r:.80}"
        raise TypeError(_message(what))
    raise ValueError(
        _message(f"there is no driver version {driver}: cuDriverGetVersion counts 13.0 as 13000")
    )


def nothing_fits(
    found: "_Module", kernel_name: "str | None", cc: "tuple[int, int]", driver: "int | None"
) -> str:
    entries = _having_kernel(found, kernel_name)
    shipped = ", ".join(f"{each.arch} (driver {_version(each.min_driver)})" for each in entries) or "nothing"
    device = f"compute capability {cc[0]}.{cc[1]}"
    if driver is not None:
        device += f" with driver {_version(driver)}"
    what = f"nothing shipped for {_called(found, kernel_name)} runs on {device}: shipped {shipped}"
    return _message(f"{what}; {_what_would_fit(found, entries, found.entries, cc)}")


def would_be_translated(
    found: "_Module", kernel_name: "str | None", entry: "Entry", cc: "tuple[int, int]"
) -> str:
    what = f"{_called(found, kernel_name)} for compute capability {cc[0]}.{cc[1]}"
    which = f" ({entry.arch})" if entry.arch else ""
    cubins = [each for each in found.entries if each.kind == "cubin"]
    having = [each for each in _having_kernel(found, kernel_name) if each.kind == "cubin"]
    fix = _what_would_fit(found, having, cubins, cc) if entry.arch else "give use() machine code"
    return _message(f"{what} is PTX{which}, and strict loading lets the driver translate none; {fix}")


def _called(found: "_Module", kernel_name: "str | None") -> str:
    """Return a kernel's name for a message, with its module's if other sources have one of that name."""
    having = _named(found.manifest, kernel_name, kernel_name)[0] if kernel_name else []
    of_module = f" of module {found.base!r}" if len({each.base for each in having}) > 1 else ""
    return f"{kernel_name or found.name!r}{of_module}"


def _what_would_fit(
    found: "_Module", entries: "Sequence[Entry]", shipped: "Sequence[Entry]", cc: "tuple[int, int]"
) -> str:
    """Say what would serve a device that none of these *entries* serves, of all that are *shipped*."""
    number = cc[0] * 10 + cc[1]
    if select(number, None, [(each.arch, 0) for each in entries]):
        return "a newer driver would serve it, or a build with an older toolkit"
    archs = [each.arch for each in entries]
    without = [each.arch for each in shipped if each.arch not in archs]
    if fitting := select(number, None, [(arch, 0) for arch in without]):
        return f"{fitting[0]} is shipped as well, and {found.source} has no such kernel for it"
    older = ' and toolkit = "12.9"' if (5, 0) <= cc < (7, 5) else ""  # CUDA 13 has nothing for these
    doubt = f", if {found.source} has such a kernel for it, as it has not for {', '.join(without)}"
    fix = f'archs = ["sm_{number}"]{older} in the build configuration would serve it'
    return fix + (doubt if without else "")


def _version(driver: int) -> str:
    return f"{driver // 1000}.{driver % 1000 // 10}"


__build__ = "e800c55481f485b6"
