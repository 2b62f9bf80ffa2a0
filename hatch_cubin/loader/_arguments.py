# A part of hatch-cubin's loader (Apache-2.0): see __init__.py.
"""What is known of kernels beside their code: `Entry.parameters`, `Entry.source_path`, `check_arguments`."""

import os
import sys

from . import (
    _NAME,
    CubinError,
    _damaged,
    _having_kernel,
    _layer,
    _macro_texts,
    _message,
    _part,
    _resolve,
    _typed,
    _Value,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from . import Entry, _AnyName, _Module, _ModuleName


class Parameter(_Value):
    """One parameter of a kernel: its offset among the others, its size, and its type if that is known."""

    __module__ = _NAME
    __slots__ = ("offset", "size", "type")

    def __init__(self, offset: int, size: int, spelled: "str | None" = None) -> None:
        self.offset = offset
        self.size = size
        self.type = spelled

    def __repr__(self) -> str:
        return f"Parameter(offset={self.offset}, size={self.size}, type={self.type!r})"

    def __str__(self) -> str:
        return self.type or f"{self.size} bytes"


_REAL = {"float": "float32", "double": "float64", "half": "float16", "__half": "float16"}
_SIZED = ("int8_t", "int16_t", "int32_t", "int64_t")
_WHOLE = frozenset(
    {"bool", "char", "short", "int", "long", "signed", "unsigned", "size_t", "intptr_t", "uintptr_t"}
)


def parameters_of(entry: "Entry") -> "dict[str, tuple[Parameter, ...]]":
    """Return what each kernel of an entry takes. Kernels whose parameters are not known are left out."""
    known = entry._parameters
    return {name: _parameters(known[name]) for name in entry.kernels if name in known}


def source_path_of(entry: "Entry") -> "str | None":
    """Return where the source lies, if the package has it."""
    built_in = entry._manifest.header.get("folder")
    if built_in is None:
        return None
    # Both lie in the project. Any root will do for the comparison, as it needs no working directory.
    inside = os.path.relpath(f"/{entry.source}", f"/{_typed(built_in, str)}")
    path = os.path.normpath(os.path.join(entry._manifest.folder, inside))
    return path if os.path.isfile(path) else None


def _parameters(listed: "Any") -> "tuple[Parameter, ...]":
    found = []
    for each in _typed(listed, list):
        if [type(part) for part in _typed(each, list)] not in ([int, int], [int, int, str]):
            _damaged("manifest.json", f"it has no parameter where one belongs: {each!r:.80}")
        found.append(Parameter(*each))
    return tuple(found)


def check_arguments(
    name: "_AnyName",
    *arguments: "Any",
    module: "_ModuleName | None" = None,
    variant: "Mapping[str, Any] | None" = None,
    **macros: "Any",
) -> None:
    """Raise a TypeError unless a kernel takes these arguments wherever it runs; for tests.

    They are what `launch` is given: numpy's scalars, those of ctypes, Python's numbers, and what lies in a
    GPU's memory. Nothing is launched, and nothing of CUDA is imported.
    """
    found, kernel_name = _resolve(name, module, _macro_texts(variant, macros))
    _check(found, kernel_name or _part("_errors").one_kernel(found), arguments)


def _check(found: "_Module", kernel_name: str, arguments: "tuple[Any, ...]") -> None:
    if found.name in _layer().fresh:
        raise CubinError(
            _message(f"nothing says what {kernel_name!r} takes in the code that use() was given")
        )
    takes = [each.parameters.get(kernel_name) for each in _having_kernel(found, kernel_name)]
    known = {repr(each): each for each in takes if each is not None}  # mostly the same for each arch
    if not known:
        what = f"the manifest does not say what {kernel_name!r} takes"
        raise CubinError(_message(f"{what}: a build with a newer hatch-cubin may find it out"))
    wrong = [
        f"{kernel_name}({', '.join(map(str, parameters))}): {'; '.join(misfits)}"
        for parameters in known.values()
        if (misfits := _misfits(arguments, parameters))
    ]
    if wrong:
        raise TypeError(_message("; ".join(wrong)))


def _misfits(arguments: "tuple[Any, ...]", parameters: "tuple[Parameter, ...]") -> "list[str]":
    """Return which arguments a kernel with these parameters would read as something else."""
    if len(arguments) != len(parameters):
        return [f"needs {len(parameters)} argument{'s' * (len(parameters) != 1)}, not {len(arguments)}"]
    wrong = []
    for number, (argument, parameter) in enumerate(zip(arguments, parameters, strict=True), 1):
        size, kind = _passed(argument)
        spelled = parameter.type or ""
        which = f"argument {number} ({_type_name(argument)})"
        if not size:
            wrong.append(f"{which} {kind}")
        elif size != parameter.size:
            where = f"where {spelled or 'the parameter'} has {parameter.size}"
            wrong.append(f"{which} is passed as {size} bytes, {where}{_fitting(parameter)}")
        elif not _is_meant(kind, spelled):
            wrong.append(f"{which} is no {spelled}{_fitting(parameter)}")
    return wrong


def _passed(argument: "Any") -> "tuple[int, str]":
    """Return an argument's bytes as it is passed, and its kind as numpy names it; or 0 and a reason.

    This is ctypes' answer if cuda.core refuses something that ctypes passes.
    """
    numpy, ctypes = sys.modules.get("numpy"), sys.modules.get("ctypes")
    if numpy is not None and isinstance(argument, numpy.generic):
        return argument.dtype.itemsize, argument.dtype.kind
    for python, size, kind in ((bool, 1, "b"), (int, 8, "i"), (float, 8, "f"), (complex, 16, "c")):
        if isinstance(argument, python):
            return size, kind
    of_core = {each.__name__ for each in type(argument).__mro__ if each.__module__.startswith("cuda.core.")}
    if "TensorMapDescriptor" in of_core:
        return 128, "V"
    if "Buffer" in of_core or _has(argument, "__cuda_array_interface__"):
        return 8, "P"
    if _has(argument, "__array_interface__"):
        return 0, "lies in the host's memory"
    try:
        size = ctypes.sizeof(argument) if ctypes is not None else 0
    except TypeError:
        size = 0
    code = getattr(argument, "_type_", None)
    if not isinstance(code, str):  # for an array or a pointer it is a class
        code = "V"
    kinds = ("f", "fdg"), ("b", "?"), ("P", "PzZ"), ("V", "V")
    kind = next((kind for kind, codes in kinds if code in codes), "i")
    return (size, kind) if size else (0, "cannot be passed to a kernel")


def _has(argument: "Any", name: str) -> bool:
    try:
        return hasattr(argument, name)
    except Exception:  # a tensor that needs gradients raises one
        return False


def _type_name(argument: "Any") -> str:
    kind = type(argument)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _is_meant(kind: str, spelled: str) -> bool:
    """Say whether a parameter of that type reads an argument of its size and of that kind as what it is."""
    if spelled.endswith("*"):
        return kind in "Piu"
    plain = _plain_type(spelled)
    if plain in _REAL:
        return kind == "f"
    return kind in "biuP" if _is_whole(plain) else True


def _fitting(parameter: Parameter) -> str:
    """Name the numpy scalar that fits a parameter, if that is a number."""
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
    return plain.partition(" ")[0] in _WHOLE or plain.lstrip("u") in _SIZED


__build__ = "e800c55481f485b6"
