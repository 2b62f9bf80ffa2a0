"""Write and read the two JSON files of a bundle, `manifest.json` and `keys.json`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ..common import read_limits
from ..common.digest import file_digest, pieces_digest
from . import loader_files

# The exceptions that reading a manifest can raise if another program wrote the manifest.
NOT_OURS = (TypeError, ValueError, LookupError, AttributeError, RecursionError)

_OF_CALL = re.compile("[a-z.]+:[0-9a-f]{64}")
_T = TypeVar("_T")


class ManifestEntry(NamedTuple):
    """The manifest's entry for a module's compiled code for one arch."""

    arch: str
    kind: str
    file: str  # The file with the compiled code, or the packed block with it.
    size: int
    sha256: str
    min_driver: int
    kernels: Mapping[str, str]  # For each kernel, by name: its symbol in the compiled code.
    resources: Mapping[str, Mapping[str, int]]
    offset: int | None = None  # The offset of the compiled code in the unpacked block.
    companion: str | None = None  # The import package of the companion wheel that contains the file.
    # For each kernel: the offset, size and type of its parameters.
    parameters: Mapping[str, Sequence[Sequence[Any]]] = {}
    absent: bool = False  # Whether the file is only in other variants of the wheel.

    @property
    def is_ptx(self) -> bool:
        return self.kind == "ptx"


class ManifestModule(NamedTuple):
    """The manifest's facts about a module."""

    name: str
    source: str
    variant: Mapping[str, str]
    options: Mapping[str, Any]
    entries: tuple[ManifestEntry, ...]

    @property
    def base(self) -> str:
        """The name of the module without its variant, such as `reduce` for `reduce[BLOCK=256]`."""
        if not self.variant:
            return self.name
        return self.name[: -1 - sum(len(key) + len(value) + 2 for key, value in self.variant.items())]


class ManifestBlock(NamedTuple):
    """A file of a packed bundle that contains compiled code: its size, its digest, and its unpacked size."""

    packed: int
    sha256: str
    size: int


class Manifest(NamedTuple):
    """The content of a manifest."""

    format: int
    generator: tuple[str, str]  # name and version
    toolchain: Mapping[str, str | None]
    data_model: str
    folder: str | None  # The folder of the bundle in the project.
    skipped: bool
    modules: tuple[ManifestModule, ...]
    blocks: Mapping[str, ManifestBlock] | None = None  # The blocks of a packed bundle, by file name.
    companions: Mapping[str, Mapping[str, str]] | None = None  # how to install each companion wheel
    # The label of the wheel variant. Other wheels do not have a label.
    wheel_variant: Mapping[str, str] | None = None
    fronts: tuple[str, ...] = ()  # The libraries with calls that were compiled for the wheel, such as "cupy".

    @property
    def files(self) -> set[str]:
        """The names of all files with compiled code."""
        return {entry.file for module in self.modules for entry in module.entries}

    @property
    def loader_files(self) -> tuple[str, ...]:
        """The file names of the loader in a wheel with this manifest."""
        is_split = self.companions is not None or self.wheel_variant is not None
        units = sum(len(module.entries) for module in self.modules)
        return loader_files.needed_by(
            units=units, packed=self.blocks is not None, split=is_split, fronts=self.fronts
        )

    @property
    def here(self) -> Manifest:
        """The manifest, without entries for code that is not in this wheel because the wheel is a variant."""
        if self.wheel_variant is None:
            return self
        found = (
            module._replace(entries=tuple(each for each in module.entries if not each.absent))
            for module in self.modules
        )
        return self._replace(modules=tuple(module for module in found if module.entries))


# The JSON encoder is made only once, because it is slow to make and is used for every line.
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def canonical(value: object) -> str:
    """Return a value as JSON in a canonical form: equal values always give the same text."""
    return _CANONICAL.encode(value)


def write_manifest(
    header: Mapping[str, Any], kernels: Mapping[str, Iterable[str]], modules: Iterable[bytes]
) -> list[bytes]:
    """Return the bytes of a manifest in pieces.

    The manifest has a line for each kernel and each module, sorted by name, so that the loader can find one
    line with a binary search. The line of a module contains its own checksum. The first line contains a
    checksum of the manifest without the lines of modules.
    """
    head = canonical({key: value for key, value in header.items() if key < "kernels"})[1:-1]
    tail = canonical({key: value for key, value in header.items() if key > "modules"})[1:]
    index = (f"{canonical(name)}:{canonical(sorted(names))}".encode() for name, names in kernels.items())
    before = [f'{head},"kernels":{{'.encode(), *_table(sorted(index)), b'\n},"modules":{']
    after = f"\n}},{tail}\n".encode()
    return [_check([*before, after]), *before, *_table(sorted(modules)), after]


def _check(rest: Iterable[bytes]) -> bytes:
    return f'{{"check":"{pieces_digest(rest)}",'.encode()


def _table(lines: Iterable[bytes]) -> Iterator[bytes]:
    for number, line in enumerate(lines):
        yield b",\n" if number else b"\n"
        yield line


def module_line(name: str, entry: Mapping[str, Any]) -> bytes:
    """Return the line of the manifest for a module."""
    line, body = canonical(name).encode(), canonical(entry)[1:].encode()
    return b'%b:{"check":"%b",%b' % (line, file_digest(line + body).encode(), body)


def keys_line(name: str, archs: Mapping[str, Any]) -> bytes:
    """Return the line of `keys.json` for a module, with the cache keys for each arch."""
    return f"{canonical(name)}:{canonical(archs)}".encode()


def write_keys(modules: Mapping[str, bytes]) -> list[bytes]:
    """Return the bytes of `keys.json` in pieces. The file contains one line per module, sorted by name."""
    lines = _table(modules[name] for name in sorted(modules)) if modules else [b"\n"]
    rest = [b'"units":{', *lines, b"\n}}\n"]
    return [_check(rest), *rest]


class NewerFormatError(ValueError):
    """A newer version of hatch-cubin wrote the manifest, in a format that this version cannot read."""


def read_manifest(data: bytes) -> Manifest:
    """Return the content of a manifest, or raise ValueError if it is invalid or has a newer format."""
    fields = _object(data)
    if (number := _typed(fields, "format", int)) > loader_files.FORMAT:
        raise NewerFormatError(
            f"has format {number}, but this version of hatch-cubin reads formats up to {loader_files.FORMAT}"
        )
    generator, toolchain = _typed(fields, "generator", dict), _typed(fields, "toolchain", dict)
    return Manifest(
        number,
        (_typed(generator, "name", str), _typed(generator, "version", str)),
        {name: None if tool is None else _is(tool, str, name) for name, tool in toolchain.items()},
        _typed(fields, "data_model", str),
        _is(fields.get("folder", ""), str, "folder") or None,
        fields.get("skipped") is True,
        tuple(
            _module(name, _is(line, dict, name))
            for name, line in sorted(_typed(fields, "modules", dict).items())
        ),
        _blocks(fields["blocks"]) if "blocks" in fields else None,
        _companions(fields["companions"]) if "companions" in fields else None,
        _wheel_variant(fields["wheel_variant"]) if "wheel_variant" in fields else None,
        tuple(_is(front, str, "fronts") for front in _is(fields.get("fronts", []), list, "fronts")),
    )


def is_of_call(module: str) -> bool:
    """Return whether a module contains the kernels of a recorded call of CuPy or cuda.core.

    The module of a recorded call has a name such as `cupy:1f…`. The manifest's index of kernel names does not
    contain the kernels of a recorded call, because the loader finds them by a key that it computes from the
    call's arguments.
    """
    return _OF_CALL.fullmatch(module) is not None


class ManifestParts(NamedTuple):
    """The parsed values of a manifest.

    To change a manifest, parse it with `split_manifest`, and call the method `write` with the changes.
    """

    header: Mapping[str, Any]
    kernels: Mapping[str, Sequence[str]]
    modules: Mapping[str, Mapping[str, Any]]

    def write(
        self, header: Mapping[str, Any], change: Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
    ) -> bytes:
        """Return the bytes of the manifest with a new *header*.

        The function *change* is called with the module's name and the entry of each compiled file, and
        returns the new entry.
        """
        lines = (
            module_line(name, {**line, "entries": [change(name, entry) for entry in line["entries"]]})
            for name, line in self.modules.items()
        )
        return b"".join(write_manifest(header, self.kernels, lines))


def split_manifest(data: bytes) -> ManifestParts:
    """Split a valid manifest into parts, so that the parts can be changed and written again.

    To get the bytes of the changed manifest, call the method `write` of the returned object.
    """
    fields = json.loads(data)
    modules = {
        name: {key: value for key, value in line.items() if key != "check"}
        for name, line in fields.pop("modules").items()
    }
    kernels = fields.pop("kernels", {})
    return ManifestParts({key: value for key, value in fields.items() if key != "check"}, kernels, modules)


def prove_manifest(data: bytes) -> None:
    """Read the manifest in *data*, write it again, and raise ValueError if the bytes differ."""
    header, _kernels, modules = split_manifest(data)
    index: dict[str, list[str]] = {}
    for name, line in modules.items():
        for kernel in () if is_of_call(name) else line["kernels"]:
            index.setdefault(kernel, []).append(name)
    _same(data, write_manifest(header, index, (module_line(*each) for each in modules.items())))


def _same(data: bytes, pieces: Iterable[bytes]) -> None:
    expected = b"".join(pieces)
    if data == expected:
        return
    lines, wanted = data.split(b"\n"), expected.split(b"\n")
    pairs = enumerate(zip(lines, wanted, strict=False), 1)
    number = next((at for at, (line, other) in pairs if line != other), min(len(lines), len(wanted)) + 1)
    raise ValueError(f"line {number} was edited or damaged: hatch-cubin would write this line differently")


def read_keys(data: bytes) -> dict[str, dict[str, str]]:
    """Return the cache keys in `keys.json`, by module and arch.

    Raise ValueError if *data* differs from the bytes that hatch-cubin writes for the keys in *data*.
    """
    units = _typed(_object(data), "units", dict)
    keys: dict[str, dict[str, str]] = {}
    for name, archs in units.items():
        of_module = _is(archs, dict, name).items()
        keys[name] = {arch: _typed(_is(found, dict, arch), "key", str) for arch, found in of_module}
    _same(data, write_keys({name: keys_line(name, archs) for name, archs in units.items()}))
    return keys


def _object(data: bytes) -> dict[str, Any]:
    if read_limits.is_crowded(data):
        raise ValueError(f"is too large to read: it has more than {read_limits.PARTS} arrays and objects")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise ValueError("is not JSON") from exc
    return _is(found, dict, "it")


def _module(name: str, line: Mapping[str, Any]) -> ManifestModule:
    kernels, parameters = _typed(line, "kernels", dict), line.get("parameters", {})
    return ManifestModule(
        name,
        _typed(line, "source", str),
        {key: _is(value, str, key) for key, value in _typed(line, "variant", dict).items()},
        _typed(line, "options", dict),
        tuple(_entry(_is(entry, dict, name), kernels, parameters) for entry in _typed(line, "entries", list)),
    )


def _companions(value: object) -> dict[str, dict[str, str]]:
    return {
        name: {key: _typed(_is(known, dict, name), key, str) for key in ("install", "project")}
        for name, known in _is(value, dict, "companions").items()
    }


def _wheel_variant(value: object) -> dict[str, str]:
    known = _is(value, dict, "wheel_variant")
    return {key: _typed(known, key, str) for key in ("install", "label")}


def _blocks(value: object) -> dict[str, ManifestBlock]:
    blocks = {name: _is(block, dict, name) for name, block in _is(value, dict, "blocks").items()}
    return {
        name: ManifestBlock(
            _typed(block, "packed", int), _typed(block, "sha256", str), _typed(block, "size", int)
        )
        for name, block in blocks.items()
    }


def _entry(fields: Mapping[str, Any], kernels: dict[str, Any], parameters: object) -> ManifestEntry:
    own = _is(fields.get("kernels", kernels), dict, "kernels")
    is_packed = "block" in fields
    return ManifestEntry(
        _typed(fields, "arch", str),
        _typed(fields, "kind", str),
        _typed(fields, "block" if is_packed else "file", str),
        _typed(fields, "size", int),
        _typed(fields, "sha256", str),
        _typed(fields, "min_driver", int),
        {name: _is(symbol, str, name) for name, symbol in own.items()},
        {
            symbol: {name: _is(number, int, name) for name, number in _is(uses, dict, symbol).items()}
            for symbol, uses in _is(fields.get("resources", {}), dict, "resources").items()
        },
        _typed(fields, "offset", int) if is_packed else None,
        _typed(fields, "companion", str) if "companion" in fields else None,
        {
            name: _parameters(listed)
            for name, listed in _is(fields.get("parameters", parameters), dict, "parameters").items()
            if name in own
        },
        _is(fields.get("absent", False), bool, "absent"),
    )


def _parameters(listed: object) -> list[list[Any]]:
    """Return the parameters of a kernel unchanged, or raise ValueError if a parameter is not valid."""
    found: list[list[Any]] = _is(listed, list, "parameters")
    for each in found:
        if [type(part) for part in _is(each, list, "a parameter")] not in ([int, int], [int, int, str]):
            raise ValueError(f"contains an invalid parameter of a kernel: {each!r:.80}")
    return found


def _typed(fields: Mapping[str, Any], key: str, kind: type[_T]) -> _T:
    if key not in fields:
        raise ValueError(f"does not have {key!r}")
    return _is(fields[key], kind, key)


def _is(value: object, kind: type[_T], name: str) -> _T:
    if type(value) is not kind:
        raise ValueError(f"{name!r} is not of the type {kind.__name__}")
    return value
