# A part of hatch-cubin's loader (Apache-2.0): see __init__.py.
"""Error messages, and functions for tests: `check_arguments`, `use`."""

import os
import sys

from . import (
    _HERE,
    _NAME,
    _UNSET,
    CubinDamagedError,
    CubinError,
    CubinNotFoundError,
    Entry,
    _damaged,
    _entries_with,
    _file_data,
    _import,
    _is_here,
    _Layer,
    _layer,
    _layers,
    _macro_texts,
    _message,
    _modules_named,
    _new_part,
    _own,
    _parse_arch,
    _parts,
    _plain_size,
    _read,
    _reject,
    _resolve,
    _sha256,
    _typed,
    _Value,
    select,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import difflib
    import re
    from collections.abc import Iterable, Mapping, Sequence
    from os import PathLike
    from typing import Any, NoReturn, TypeAlias

    from . import _AnyName, _Manifest, _Module, _ModuleName, _Pair

    _Code: TypeAlias = Any


def no_such_name(name: str, manifest: "_Manifest") -> str:
    if manifest.header.get("skipped"):
        return _message(f"no kernel {name!r}: the package was built with HATCH_CUBIN_SKIP")
    known = sorted({*manifest.kernel_names(), *(each.name for each in manifest.everything())})
    if name in known:
        _damaged("manifest.json", "the lines are not sorted")
    more = ", …" * (len(known) > 20)
    guess = _guess(name, known) or f"the bundle has {', '.join(map(repr, known[:20])) or 'nothing'}{more}"
    if name.partition("<")[0] not in [*manifest.kernel_names(), name]:
        guess = f"add it to 'instantiate' of a source without 'as'; {guess}"
    guess += "; if its source is new, install the package again" * _layer().is_editable
    return _message(f"no kernel or module {name!r}; {guess}")


def _guess(name: str, known: "Iterable[str]") -> str:
    lower = {each.lower(): repr(each) for each in known}
    close = _import("difflib").get_close_matches(name.lower(), lower, n=3)
    start = os.path.basename(name.lower()).partition(".")[0]
    close = close or [each for each in lower if start and each.startswith(start)][:3]
    return f"did you mean {' or '.join(map(lower.__getitem__, close))}?" if close else ""


def refuse_choice(
    name: str,
    module: "str | None",
    macros: "dict[str, str]",
    fitting: "Sequence[_Module]",
    candidates: "Sequence[_Module]",
) -> "NoReturn":
    details = f" in module {module!r}" * bool(module) + f" with {macros}" * bool(macros)
    what = f"no kernel or module {name!r}{details}"
    known = {key for each in candidates for key in each.variant}
    if wrong := sorted(set(macros) - known):
        guess = _guess(wrong[0], known) or "arguments of a kernel have no names"
        if wrong[0] in ("cc", "driver", "arch", "gpu", "sm"):
            guess = "only find() and read() take cc=(9, 0) and driver"
        what = f"{wrong[0]!r} is not a macro of {name!r}, nor the argument module, variant or device; {guess}"
    if fitting:
        what = f"{name!r}{details} is ambiguous: add module= or the variant's macros, or name a module"
    listed = ", ".join(repr(each.name) for each in (fitting or candidates)[:20])
    raise CubinNotFoundError(_message(f"{what}; modules: {listed}"))


def one_kernel(found: "_Module") -> str:
    if len(found.kernels) != 1:
        listed = ", ".join(map(repr, found.kernels))
        which = f"several kernels, name one: {listed}" if listed else "no kernel"
        raise CubinNotFoundError(_message(f"module {found.name!r} has {which}"))
    return next(iter(found.kernels))


def nothing_fits(found: "_Module", kernel_name: "str | None", cc: "_Pair", driver: "int | None") -> str:
    entries = _entries_with(found, kernel_name)
    shipped = ", ".join(f"{each.arch} (driver {_version(each.min_driver)})" for each in entries) or "nothing"
    device = f"compute capability {cc[0]}.{cc[1]}"
    if driver is not None:
        device += f" with driver {_version(driver)}"
    what = f"no shipped code of {_shown_name(found, kernel_name)} runs on {device}: shipped {shipped}"
    return _message(f"{what}; {_advice(found, entries, found.entries, cc)}")


def would_be_translated(found: "_Module", kernel_name: "str | None", entry: "Entry", cc: "_Pair") -> str:
    what = f"{_shown_name(found, kernel_name)} for compute capability {cc[0]}.{cc[1]}"
    which = f" ({entry.arch})" * bool(entry.arch)
    cubins = [each for each in found.entries if each.kind == "cubin"]
    having = [each for each in _entries_with(found, kernel_name) if each.kind == "cubin"]
    fix = _advice(found, having, cubins, cc) if entry.arch else "give use() machine code"
    return _message(f"{what} is PTX{which}, which strict loading refuses; {fix}")


def _shown_name(found: "_Module", kernel_name: "str | None") -> str:
    having = _modules_named(found.manifest, kernel_name, kernel_name)[0] if kernel_name else []
    of_module = f" of module {found.base!r}" if len({each.base for each in having}) > 1 else ""
    return f"{kernel_name or found.name!r}{of_module}"


def _advice(found: "_Module", entries: "Sequence[Entry]", shipped: "Sequence[Entry]", cc: "_Pair") -> str:
    number = cc[0] * 10 + cc[1]
    if select(number, None, [(each.arch, 0) for each in entries]):
        return "install a newer driver, or build with an older toolkit"
    archs = [each.arch for each in entries]
    absent = [each.arch for each in shipped if each.arch not in archs]
    if fitting := select(number, None, [(arch, 0) for arch in absent]):
        return f"{found.source} does not define this kernel for the shipped arch {fitting[0]}"
    if cc < (5, 0):
        return "CUDA 12 does not support this GPU"
    older = ', and set toolkit = "12.9"' * (cc < (7, 5))
    lower = {each for _, each, _ in map(_parse_arch, archs) if each < number}
    has_ptx = shipped is found.entries and "a" not in "".join(archs)
    ptx = f' or "compute_{max(lower)}"' if lower and has_ptx else ""
    fix = f'add "sm_{number}"{ptx} to the archs of {found.base!r} ({found.source}){older}'
    if absent:
        fix += f", and check that {found.source} defines this kernel for sm_{number}"
    return f"{fix}; build again without HATCH_CUBIN_ARCHS"


def _version(driver: int) -> str:
    return f"{driver // 1000}.{driver % 1000 // 10}"


# --- arguments
class Parameter(_Value):
    """One parameter of a kernel: its offset, its size, and its type if it is known."""

    __module__ = _NAME

    def __init__(self, offset: int, size: int, spelled: "str | None" = None) -> None:
        self.offset = offset
        self.size = size
        self.type = spelled

    def __str__(self) -> str:
        return self.type or _count(self.size, "byte")


_REAL = {"float": "float32", "double": "float64", "half": "float16", "__half": "float16"}
_WHOLE = "(bool|char|short|int|long|signed|unsigned|size_t)( .*)?|u?int(8|16|32|64|ptr)_t"


def parameters_of(entry: "Entry") -> "dict[str, tuple[Parameter, ...]]":
    known = entry._parameters
    return {name: _parameters(known[name]) for name in entry.kernels if name in known}


def source_path_of(entry: "Entry") -> "str | None":
    built_in = entry._manifest.header.get("folder")
    if built_in is None:
        return None
    # Both paths are in the project: any root gives the same result.
    inside = os.path.relpath(f"/{entry.source}", f"/{_typed(built_in, str)}")
    path = os.path.normpath(os.path.join(entry._manifest.folder, inside))
    return path if os.path.isfile(path) else None


def _parameters(listed: "Any") -> "tuple[Parameter, ...]":
    found = []
    for each in _typed(listed, list):
        if [type(part) for part in _typed(each, list)] not in ([int, int], [int, int, str]):
            _damaged("manifest.json", f"it has an invalid parameter: {each!r:.80}")
        found.append(Parameter(*each))
    return tuple(found)


def check_arguments(
    name: "_AnyName",
    *arguments: "Any",
    module: "_ModuleName | None" = None,
    variant: "Mapping[str, Any] | None" = None,
    **macros: "Any",
) -> None:
    """For tests: raise a TypeError if *arguments* do not fit the kernel's code for each arch.

    The kernel is not launched, and CUDA is not imported.
    """
    found, kernel_name = _resolve(name, module, _macro_texts(variant, macros))
    _check(found, kernel_name or one_kernel(found), arguments)


def _check(found: "_Module", kernel_name: str, arguments: "tuple[Any, ...]") -> None:
    if found.name in _layer().replaced:
        raise CubinError(_message(f"the parameters of {kernel_name!r} are unknown in code given to use()"))
    takes = [each.parameters.get(kernel_name) for each in _entries_with(found, kernel_name)]
    known = {repr(each): each for each in takes if each is not None}
    if not known:
        what = f"the manifest does not have the parameters of {kernel_name!r}"
        raise CubinError(_message(f"{what}: a build with a newer hatch-cubin may find them"))
    wrong = [
        f"{kernel_name}({', '.join(map(str, parameters))}): {'; '.join(misfits)}"
        for parameters in known.values()
        if (misfits := _misfits(arguments, parameters))
    ]
    if wrong:
        raise TypeError(_message("; ".join(wrong)))


def _misfits(arguments: "tuple[Any, ...]", parameters: "tuple[Parameter, ...]") -> "list[str]":
    if len(arguments) != len(parameters):
        packed = ", packed into one: unpack it" * isinstance((*arguments, 0)[0], (tuple, list))
        return [f"needs {_count(len(parameters), 'argument')}, not {len(arguments)}{packed}"]
    wrong = []
    for number, (argument, parameter) in enumerate(zip(arguments, parameters, strict=True), 1):
        size, kind = _passed(argument)
        spelled = parameter.type or ""
        kind_of = f"{type(argument).__module__}.{type(argument).__qualname__}".removeprefix("builtins.")
        which = f"argument {number} ({kind_of})"
        if not size:
            wrong.append(f"{which} {kind}")
        elif size != parameter.size:
            wrong.append(
                f"{which} is passed as {_count(size, 'byte')}, "
                f"but {spelled or 'the parameter'} has {parameter.size}{_fitting(parameter)}"
            )
        elif not _is_meant(kind, spelled):
            wrong.append(f"{which} is not of type {spelled}{_fitting(parameter)}")
    return wrong


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _passed(argument: "Any") -> "tuple[int, str]":
    """Return an argument's size and its kind as in numpy, or 0 and why a kernel cannot take it."""
    numpy, ctypes = sys.modules.get("numpy"), sys.modules.get("ctypes")
    if numpy is not None and isinstance(argument, numpy.generic):
        return argument.dtype.itemsize, argument.dtype.kind
    for python, size, kind in (bool, 1, "b"), (int, 8, "i"), (float, 8, "f"), (complex, 16, "c"):
        if isinstance(argument, python):
            return size, kind
    of_core = {each.__name__ for each in type(argument).__mro__ if each.__module__.startswith("cuda.core.")}
    if "TensorMapDescriptor" in of_core:
        return 128, "V"
    if "Buffer" in of_core or _has(argument, "__cuda_array_interface__"):
        return 8, "P"
    if _has(argument, "__array_interface__"):
        return 0, "is in the host's memory"
    try:
        size = ctypes.sizeof(argument) if ctypes is not None else 0
    except TypeError:
        size = 0
    code = getattr(argument, "_type_", None)
    kinds = dict(zip("fdg?PzZ", "fffbPPP", strict=True))
    kind = kinds.get(code, "i") if isinstance(code, str) else "V"
    return (size, kind) if size else (0, "cannot be passed to a kernel")


def _has(argument: "Any", name: str) -> bool:
    try:
        return hasattr(argument, name)
    except Exception:  # tensors with gradients raise
        return False


def _is_meant(kind: str, spelled: str) -> bool:
    if spelled.endswith("*"):
        return kind in "Piu"
    plain = _plain_type(spelled)
    if plain in _REAL:
        return kind == "f"
    return not _is_whole(plain) or kind in "biuP"


def _fitting(parameter: Parameter) -> str:
    plain = _plain_type(parameter.type or "")
    fitting = _REAL.get(plain)
    if plain == "bool":
        fitting = "bool_"
    elif _is_whole(plain):
        unsigned = plain.startswith("u") or plain == "size_t"
        fitting = f"{'u' * unsigned}int{parameter.size * 8}"
    return f" (numpy.{fitting} fits)" if fitting else ""


def _plain_type(spelled: str) -> str:
    return spelled.rpartition("::")[2]


def _is_whole(plain: str) -> bool:
    return _import("re").fullmatch(_WHOLE, plain) is not None


# --- other bundles and code
# Only some bundles have these parts. A part of another bundle is run only if its digest is here.
_DIGESTS = {
    "_packs": "a3c2dc4a66d1d9f449bfc8b38e7a71b56c91c6ab23cb005be9a2afd1d2abb1bf",
    "_split": "1128cf9ac5431a07654d314b8817c13b1d1e514426c024f02175c1221e3e93b0",
}


class _Used(_Layer):
    def close(self) -> None:
        """Undo this call of `use`."""
        if self in _layers:
            _layers.remove(self)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_raised: object) -> None:
        self.close()


def use(
    what: "str | PathLike[str] | Mapping[str, bytes | bytearray | memoryview | _Code] | None" = _UNSET,
    *,
    strict: "bool | None" = None,
) -> _Used:
    """Use the bundle in another folder, in this whole process. For tests and debugging.

    A mapping from names of modules or kernels to bytes or cuda.core's `ObjectCode` replaces code for all
    devices. `use(None)` selects the package's own bundle. With *strict*, kernels that the driver would have
    to translate are not found; `strict=None` keeps the setting. To undo this call, use the result in a `with`
    block, or call its `close()`.
    """
    layer = _new_layer(what, strict)
    _layers.append(layer)
    return layer


def _new_layer(what: "Any", strict: "bool | None") -> _Used:
    if strict not in (None, False, True):
        _reject(TypeError, "strict is a bool or None", strict)
    below = _layer()
    strict = below.strict if strict is None else strict
    if what is _UNSET:
        return _Used(below.folder, below.manifests, below.replaced, strict=strict)
    if what is None:
        return _Used(_HERE, _own[0].manifests, {}, strict=strict)
    if isinstance(what, (str, os.PathLike)):
        return _layer_of(os.path.abspath(os.fsdecode(what)), strict=strict)
    if not hasattr(what, "items"):
        _reject(TypeError, "use() takes a bundle's folder, a mapping of names to code, or None", what)
    given = [_replacement(*_resolve(name, None, {}), _code(name, code)) for name, code in what.items()]
    replaced = {entry.module: entry for entry in given}
    return _Used(below.folder, below.manifests, {**below.replaced, **replaced}, strict=strict)


def _layer_of(folder: str, *, strict: bool) -> "_Used":
    layer = _Used(folder, [], {}, strict=strict)
    try:
        header = layer._manifest().header
    except CubinDamagedError:
        if os.path.lexists(os.path.join(folder, "manifest.json")):
            raise
        why = "has no manifest.json; a package has its bundle in _cubins"
        if not os.path.isdir(folder):
            why = (
                "is not a folder (hatch-cubin unpack WHEEL --into DIR writes one); pass code as {name: code}"
            )
        raise CubinError(_message(f"use() takes the folder of a bundle, but {folder:.200} {why}")) from None
    if "blocks" in header:
        _borrow(folder, "_packs")
    if "companions" in header or "wheel_variant" in header:
        _borrow(folder, "_split")
    return layer


def _borrow(folder: str, name: str) -> None:
    if _is_here(name):
        return
    path = os.path.join(folder, f"{name}.py")
    try:
        data = _file_data(path)
    except CubinDamagedError:
        data = b""
    if _sha256(data) != _DIGESTS[name]:
        what = (
            f"{path} is not of the version of this package's loader: "
            f"hatch-cubin unpack WHEEL --into DIR writes a folder that needs no {name}.py"
        )
        raise CubinError(_message(what))
    _parts.setdefault(name, _new_part(name, compile(data, path, "exec")))


def _code(name: str, given: "Any") -> bytes:
    data = getattr(given, "code", given)
    if data is not given and isinstance(data, str):  # an ObjectCode from a file
        try:
            return _read(data, _plain_size(data))
        except (OSError, ValueError) as exc:
            why = getattr(exc, "strerror", None) or exc
            raise ValueError(_message(f"the code for {name!r} cannot be read from {data}: {why}")) from exc
    try:
        return bytes(memoryview(data))
    except TypeError:
        _reject(TypeError, f"the code for {name!r} must be bytes or a cuda.core ObjectCode", given)


def _replacement(found: "_Module", kernel_name: "str | None", data: bytes) -> Entry:
    names = [kernel_name] if kernel_name else [*found.kernels]
    if data.startswith(b"\x7fELF"):
        kind, start, words = "cubin", ".text.", data.split(b"\0")
        table = [int.from_bytes(data[at:end], "little") for at, end in ((32, 40), (54, 56), (56, 58))]
        is_whole = table[0] + table[1] * table[2] <= len(data)  # the program headers are the last part
    else:
        kind, start, words = "ptx", "", data.translate(bytes.maketrans(b"({", b"  ")).split()
        is_whole = b".version" in words
    if not is_whole or not any((start + found.kernels[name]).encode() in words for name in names):
        what = f"the code for {found.name!r} must be a whole cubin or PTX that defines {' or '.join(names)}"
        raise ValueError(_message(what))
    fields = {"arch": "", "kind": kind, "size": len(data), "sha256": _sha256(data), "min_driver": 0}
    return Entry(found, fields, "given to use()", data)


__build__ = "c8f3d0de63390474"
