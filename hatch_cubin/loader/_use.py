# Copied byte for byte into wheels by hatch-cubin (Apache-2.0). It needs the standard library alone.
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
    from typing import Any

    from . import _Module

_CODE = os.path.dirname(os.path.abspath(__file__))
# Files that only some bundles have. Another bundle may need one that this package's own does not have: then the
# loader runs that bundle's copy, but only if it is the very file that belongs to this version.
_DIGESTS = {
    "_packs": "7165ad7ad31f2e25d020a740c1726fabb15be63f7c26d3473d5131cffc3be7d7",
    "_split": "912a132d026f3993d6f3d10e56c091e36b23bf51c58bc24107ff7b14ee23c8be",
    "_editable": "3148c4220d3c8de0bd5443c7dd1ba7084749815f658fac7c26b01d0e408d19ed",
}


def use(what: "Any", strict: "bool | None") -> _Layer:
    """Return the layer that is to be put over the others."""
    below = _layer()
    strict = below.strict if strict is None else bool(strict)
    if what is _UNSET:
        return _Layer(below.folder, below.manifests, below.fresh, strict=strict)
    if what is None:
        return _Layer(_HERE, _own[0].manifests, {}, strict=strict)
    if isinstance(what, (str, os.PathLike)):
        return _layer_of(os.path.abspath(os.fsdecode(what)), strict=strict)
    if hasattr(what, "items"):
        given = {_resolve(name, None, {})[0]: _code(name, code) for name, code in what.items()}
        fresh = {found.name: _fresh(found, data) for found, data in given.items()}
        return _Layer(below.folder, below.manifests, {**below.fresh, **fresh}, strict=strict)
    what = f"use() takes a bundle's folder, a mapping of names to code, or None, not {what!r:.80}"
    raise TypeError(_message(what))


def _layer_of(folder: str, *, strict: bool) -> "_Layer":
    """Return a layer that looks in a folder; CubinError if there is no bundle."""
    layer = _Layer(folder, [], {}, strict=strict)
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


__build__ = "16ee7d43c23244af"  # the same in all files of one version: `hatch run loader` writes it
