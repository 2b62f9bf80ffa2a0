# A part of hatch-cubin's loader (Apache-2.0): see __init__.py.
"""Look in another bundle, or use other code for some modules: `use`."""

import os

from . import (
    _HERE,
    _UNSET,
    CubinDamagedError,
    CubinError,
    Entry,
    _file_data,
    _find_spec,
    _Layer,
    _layer,
    _layers,
    _message,
    _new_part,
    _own,
    _parts,
    _plain_size,
    _read,
    _resolve,
    _sha256,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike
    from typing import Any, TypeAlias

    from . import _Module

    _Code: TypeAlias = Any

_CODE = os.path.dirname(os.path.abspath(__file__))
# Parts that only some bundles have. If another bundle needs one that is missing here, its copy is run, but
# only if it is the very file of this version.
_DIGESTS = {
    "_packs": "1aa787864cda900467a2bf613bf1aa99be58617cfe2447d39038f4304aaf3a41",
    "_split": "262f78ba97dc55fa4f82060b5be20739692d81e658779bb0dc456e04588fa63b",
    "_editable": "5aa5ed45a8ce1edc722731bd30f4851bd5ad4da543a6cf9cd46d0a5a7ca0034e",
}


class _Used(_Layer):
    def close(self) -> None:
        """Look again in what was looked in before."""
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
    """Look in another bundle's folder, in this whole process; for tests and debugging.

    A mapping gives names of modules or kernels their modules' code instead: bytes, or cuda.core's
    `ObjectCode`, whatever the device. None stands for the package's own bundle.
    With *strict*, what the driver would have to translate is not found. If *strict* is not given, that
    stays as it was. The result undoes this one call with `close()`, or at the end of a `with` block.
    """
    layer = _new_layer(what, strict)
    _layers.append(layer)
    return layer


def _new_layer(what: "Any", strict: "bool | None") -> _Used:
    below = _layer()
    strict = below.strict if strict is None else bool(strict)
    if what is _UNSET:
        return _Used(below.folder, below.manifests, below.fresh, strict=strict)
    if what is None:
        return _Used(_HERE, _own[0].manifests, {}, strict=strict)
    if isinstance(what, (str, os.PathLike)):
        return _layer_of(os.path.abspath(os.fsdecode(what)), strict=strict)
    if hasattr(what, "items"):
        given = {_resolve(name, None, {})[0]: _code(name, code) for name, code in what.items()}
        fresh = {found.name: _fresh(found, data) for found, data in given.items()}
        return _Used(below.folder, below.manifests, {**below.fresh, **fresh}, strict=strict)
    what = f"use() takes a bundle's folder, a mapping of names to code, or None, not {what!r:.80}"
    raise TypeError(_message(what))


def _layer_of(folder: str, *, strict: bool) -> "_Used":
    """Return a layer that looks in a folder; CubinError if there is no bundle."""
    layer = _Used(folder, [], {}, strict=strict)
    try:
        header = layer._manifest().header
    except CubinDamagedError:
        if os.path.lexists(os.path.join(folder, "manifest.json")):
            raise
        why = "is a file: hatch-cubin unpack WHEEL --into DIR writes such a folder"
        if os.path.isdir(folder):
            why = "has no manifest.json; a package has its bundle in _cubins"
        elif not os.path.exists(folder):
            why = "does not exist"
        raise CubinError(_message(f"use() takes the folder of a bundle, and {folder} {why}")) from None
    if "blocks" in header:
        _borrow(folder, "_packs")
    if "companions" in header or "wheel_variant" in header:
        _borrow(folder, "_split")
    if os.path.isfile(os.path.join(folder, "_editable.py")):
        _borrow(folder, "_editable", is_needed=False)
    return layer


def _borrow(folder: str, name: str, *, is_needed: bool = True) -> None:
    """Import a file of the loader from another bundle, unless this package's own bundle has it."""
    if name in _parts or _find_spec(f"{__package__}.{name}", [_CODE]) is not None:
        return
    path = os.path.join(folder, f"{name}.py")
    try:
        data = _file_data(path)
    except CubinDamagedError:
        data = b""
    if _sha256(data) == _DIGESTS[name]:
        _parts.setdefault(name, _new_part(name, compile(data, path, "exec")))
    elif is_needed:
        what = f"{path} is not the file that this package's hatch-cubin has"
        how = "hatch-cubin unpack WHEEL --into DIR writes a folder that needs no such file"
        raise CubinError(_message(f"{what}: {how}"))


def _code(name: str, given: "Any") -> bytes:
    data = getattr(given, "code", given)
    if data is not given and isinstance(data, str):  # an ObjectCode made of a file
        try:
            return _read(data, _plain_size(data))
        except (OSError, ValueError) as exc:
            why = getattr(exc, "strerror", None) or exc
            raise ValueError(_message(f"the code that stands in for {name!r} is in {data}: {why}")) from exc
    try:
        return bytes(memoryview(data))
    except TypeError:
        what = f"the code that stands in for {name!r} is bytes or a cuda.core ObjectCode, not {given!r:.80}"
        raise TypeError(_message(what)) from None


def _fresh(found: "_Module", data: bytes) -> Entry:
    kind = "cubin" if data.startswith(b"\x7fELF") else "ptx"
    fields = {"arch": "", "kind": kind, "file": "given", "size": len(data), "sha256": _sha256(data)}
    entry = Entry(found, {**fields, "min_driver": 0}, "given to use()", data)
    entry.file = entry.path = ""
    return entry


__build__ = "e800c55481f485b6"
