# hatch-cubin (Apache-2.0) copies this file into wheels. It needs only the standard library.
"""Load this package's CUDA kernels, compiled when its wheel was built.

    from mypkg import _cubins as cubins

    cubins.kernel("reduce", BLOCK=256)        a cuda.core Kernel of a variant, for the current device
    cubins.module("saxpy")                    a cuda.core ObjectCode
    cubins.find("saxpy", cc=(9, 0))           the file for this capability, and the rule that chose it
    cubins.read("saxpy", cc=(9, 0))           the verified bytes of this file, without importing CUDA
    cubins.cache()                            a read-only cache for cuda.core's Program.compile
    cubins.names(), cubins.archs(), cubins.is_available()
    cubins.preload()                          load all kernels now
    cubins.check_arguments("saxpy", *args)    for tests: a TypeError if the arguments do not fit
    cubins.use("other/_cubins")               for tests: use another bundle

Nothing is compiled here. The driver translates shipped PTX, but only if no cubin fits.

This file finds kernels and verifies their bytes. The loader's other files are imported when needed.
"""

# Importing the package imports this file, so slow modules such as json are imported later.
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # for type checkers, and for tools that freeze applications
    import errno
    import hashlib
    import json
    import stat
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Literal, NoReturn, TypeAlias

    from . import _editable, _large, _packs, _split
    from ._debugging import Parameter, check_arguments, use
    from ._loading import Loaded, Preloaded, cache, kernel, module, preload, translated

    _Device: TypeAlias = Any
    _Pair: TypeAlias = tuple[int, int]
    _AnyName: TypeAlias = str
    _KernelName: TypeAlias = str
    _ModuleName: TypeAlias = str

__all__ = [
    "CubinDamagedError", "CubinError", "CubinNotFoundError", "CubinStaleWarning", "CubinUnavailableError",
    "Entry", "Loaded", "Parameter", "Preloaded", "archs", "cache", "check_arguments", "find", "is_available",
    "kernel", "module", "names", "preload", "read", "translated", "use",
]  # fmt: skip

FORMAT = 3  # of a manifest: 3 if the wheel was split, 2 if files are packed, otherwise 1

_MODULES = b'\n},"modules":{\n'
_READ_WHOLE = 1 << 20  # a larger manifest is read in pieces
_LARGEST = 1 << 25  # the largest manifest, in bytes: 19 MB describe 70 000 files
_CHECKED = 76  # the length of '{"check":"…",'

_HERE = os.path.dirname(os.path.abspath(__file__))
__path__ = [_HERE]  # absolute: the current directory may change
_NAME = __name__
_TEGRA = frozenset({53, 62, 72, 87, 101, 110})
_UNSET: "Any" = object()
_read_only = type(type.__dict__)  # types.MappingProxyType


class CubinError(RuntimeError):
    """The base class of this loader's errors."""


class CubinNotFoundError(CubinError, LookupError):
    """The kernel does not exist, or no shipped file runs on this GPU."""


class CubinDamagedError(CubinError):
    """The files on disk differ from the files that were built."""


class CubinUnavailableError(CubinError):
    """A driver, a device, cuda.core, or lzma for packed kernels cannot be used in this process."""


class CubinStaleWarning(UserWarning):
    """Sources of an editable install changed after the build."""


class _Value:
    """A result that can be copied, pickled and compared by its contents."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._contents() == self._contents()

    def __hash__(self) -> int:
        return hash(self._contents())

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({', '.join(shown)})"

    def _contents(self) -> "tuple[Any, ...]":
        return tuple(vars(self).values())


class _Named(dict):  # type: ignore[type-arg]
    def __missing__(self, name: object) -> "NoReturn":
        raise KeyError(_message(f"no {name!r:.80}, only {', '.join(map(repr, self)) or 'nothing'}"))


class Entry(_Value):
    """The compiled code of a module for one arch, and the rule that chose it.

    *file* and *path* are None if the code is in a *block*, a file with the code of several modules.
    """

    def __init__(
        self, module: "_Module", fields: "Mapping[str, Any]", rule: str = "", data: "bytes | None" = None
    ) -> None:
        self._module, self._manifest = module, module.manifest
        self._fields, self._data = fields, data
        self.module: "_ModuleName" = module.name
        self.source: str = module.source
        self.variant: "Mapping[str, str]" = module.variant
        self.options: "Mapping[str, Any]" = module.options
        self.toolchain: "Mapping[str, Any]" = module.manifest.toolchain
        self.arch: str = _typed(fields["arch"], str)
        self.kind: 'Literal["cubin", "ptx"]' = _typed(fields["kind"], str)
        self.size: int = _typed(fields["size"], int)
        self.block: "str | None" = _plain_file(fields["block"]) if "block" in fields else None
        self.file: "str | None" = None
        if self.block is None:
            self.file = _plain_file(fields["file"]) if data is None else ""
        self._companion: "str | None" = _typed(fields["companion"], str) if "companion" in fields else None
        self._absent: bool = fields.get("absent") is True
        self._offset: int = 0 if self.block is None else _typed(fields["offset"], int)
        self.sha256: str = _typed(fields["sha256"], str)
        self.min_driver: int = _typed(fields["min_driver"], int)
        self.kernels: "Mapping[str, str]" = (
            _text_map(fields["kernels"]) if "kernels" in fields else module.kernels
        )
        used = _view(fields.get("resources", {}))
        self.resources: "Mapping[str, Mapping[str, int]]" = _read_only(
            _Named((key, _view(used[key])) for key in used)
        )
        self.rule: str = rule
        self._parameters = _typed(fields.get("parameters", module.parameters), dict)

    @property
    def path(self) -> "str | None":
        """The path of the file, or None if the file is in a companion or in another wheel variant."""
        is_elsewhere = self._absent or self._companion is not None
        return None if is_elsewhere else self.file and os.path.join(self._manifest.folder, self.file)

    @property
    def parameters(self) -> "Mapping[str, tuple[Parameter, ...]]":
        """The parameters of each kernel, by its name. Kernels with unknown parameters are left out."""
        return _read_only(_Named(_part("_debugging").parameters_of(self)))

    def __reduce__(self) -> "tuple[Any, ...]":
        return Entry, (self._module, self._fields, self.rule, self._data)

    def _contents(self) -> "tuple[Any, ...]":
        place = self._manifest.folder, self.file, self.block, self._offset, self._companion
        return *place, self.module, self.arch, self.rule, self.sha256

    @property
    def _file_path(self) -> str:
        """The path of the file or block. CubinNotFoundError if the file is not installed."""
        folder = self._manifest.folder
        if self._absent or self._companion is not None:
            folder = _part("_split").folder_of(self)
        return os.path.join(folder, self.file or self.block or "")

    @property
    def source_path(self) -> "str | None":
        """The path of the source if it is installed: with `ship-sources`, or in an editable install."""
        found: "str | None" = _part("_debugging").source_path_of(self)
        return found

    def __repr__(self) -> str:
        place = f"file={self.file!r}" if self.block is None else f"block={self.block!r}"
        return f"Entry(module={self.module!r}, arch={self.arch!r}, {place}, rule={self.rule!r})"


def find(
    name: "_AnyName",
    *,
    cc: "tuple[int, int] | None" = None,
    driver: "int | None" = _UNSET,
    module: "_ModuleName | None" = None,
    variant: "Mapping[str, Any] | None" = None,
    device: "int | _Device | None" = None,
    **macros: "Any",
) -> Entry:
    """Return the entry for a kernel or module on a compute capability (default: the current device's).

    With *cc*, CUDA is not imported, and any driver is accepted unless *driver* is given.
    """
    _check_gpu(cc, driver, device)
    found, kernel_name = _resolve(name, module, _macro_texts(variant, macros))
    cc, driver = _gpu(cc, driver, device)
    return _choose(found, kernel_name, cc, driver)


def read(
    name: "_AnyName",
    *,
    cc: "tuple[int, int] | None" = None,
    driver: "int | None" = _UNSET,
    module: "_ModuleName | None" = None,
    variant: "Mapping[str, Any] | None" = None,
    device: "int | _Device | None" = None,
    **macros: "Any",
) -> bytes:
    """Return the verified bytes of the entry that `find` returns."""
    options = {"cc": cc, "driver": driver, "module": module, "variant": variant, "device": device, **macros}
    data: bytes = _retry_during_rebuild(lambda: _verified(find(name, **options)))
    return data


def names() -> "tuple[_KernelName, ...]":
    """Return the name of every shipped kernel."""
    return tuple(_manifest().kernel_names())


def archs() -> "tuple[str, ...]":
    """Return every shipped arch, of all modules."""
    shipped = {entry.arch for found in _manifest().everything() for entry in found.entries}
    return tuple(sorted(shipped, key=lambda arch: (arch[0] == "c", *_parse_arch(arch)[1:])))


def is_available(kernel: "_AnyName | None" = None, *, strict: "bool | None" = None) -> bool:
    """Return whether a driver and a device exist, without starting CUDA in this process.

    If *kernel* is given, this kernel or module must run on each GPU; a wrong name is an error. With *strict*,
    this kernel (default: every kernel) must run without PTX. A driver must answer in five seconds.
    """
    _check_name("" if kernel is None else kernel)
    try:
        return bool(_part("_loading").is_available(kernel, strict))
    except Exception as exc:
        if kernel is not None and isinstance(exc, CubinNotFoundError):
            raise
        return False


_OF_DEBUGGING = ("Parameter", "check_arguments", "use")


def __getattr__(name: str) -> "Any":
    """Import a public function or class from another file."""
    if name not in __all__:
        public = ", ".join(filter(str.islower, __all__))
        raise AttributeError(f"module {_NAME!r} has no attribute {name!r}; it has {public}")
    part = _part("_debugging" if name in _OF_DEBUGGING else "_loading")
    found = globals()[name] = getattr(part, name)
    found.__module__ = _NAME
    return found


def __dir__() -> "list[str]":
    return sorted({*globals(), *__all__})


# --- which entry runs on which device
_RULES = "exact, arch-specific", "family", "exact", "same major, lower minor", "PTX, translated by the driver"


def select(cc: int, driver: "int | None", shipped: "Iterable[tuple[str, int]]") -> "tuple[str, str] | None":
    """Return the arch to load on capability *cc* (9.0 is 90) and the rule that chose it; None if none fits.

    *shipped* has (arch, min_driver) pairs. *driver* is a number of `cuDriverGetVersion`, or None for any
    driver. hatch-cubin's documentation has a table of the rules.
    """
    fitting = []
    for arch, min_driver in shipped:
        if driver is None or min_driver <= driver:
            kind, number, suffix = _parse_arch(arch)
            rule = _rule(cc, kind, number, suffix)
            if rule is not None:
                fitting.append((-rule, number, ("", "f", "a").index(suffix), arch))
    if not fitting:
        return None
    rule, _, _, arch = max(fitting)
    return arch, _RULES[-rule]


def _rule(cc: int, kind: str, target: int, suffix: str) -> "int | None":
    """Return the number of the rule by which code for *target* runs on capability *cc*, or None."""
    # The same major version, and an equal or higher minor version. Tegra GPUs are a separate family.
    in_family = cc // 10 == target // 10 and cc >= target and (cc in _TEGRA) == (target in _TEGRA)
    if kind == "compute":
        return 4 if {"": target <= cc, "f": in_family, "a": target == cc}[suffix] else None
    if target == cc and suffix != "f":
        return 0 if suffix else 2
    if not in_family or suffix == "a":
        return None
    return 1 if suffix else (None if cc in _TEGRA else 3)


def _parse_arch(arch: str) -> "tuple[str, int, str]":
    kind, _, name = arch.partition("_")
    suffix = name[-1:] if name[-1:] in ("a", "f") else ""
    digits = name.removesuffix(suffix)
    if kind not in ("sm", "compute") or not digits.isdecimal() or len(digits) > 4:
        _damaged("manifest.json", f"the arch {arch!r:.80} does not exist")
    return kind, int(digits), suffix


# --- resolving names
def normal_name(name: str) -> str:
    """Return a kernel's name in normal form: with spaces only between words and after commas."""
    joined = ""
    for word in name.split():
        joined += " " * (_is_word(joined[-1:]) and _is_word(word[0])) + word
    return joined.replace(",", ", ")


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _macro_texts(variant: "Mapping[str, Any] | None", macros: "Mapping[str, Any]") -> "dict[str, str]":
    if variant is not None:
        if not hasattr(variant, "keys") or not all(isinstance(key, str) for key in variant):
            _reject(TypeError, "variant must be a mapping like {'BLOCK': 256}", variant)
        if twice := variant.keys() & macros.keys():
            raise TypeError(_message(f"the macro {min(twice)!r} is both in variant= and an argument"))
        macros = {**variant, **macros}
    # the class bool, or numpy's bool_
    return {
        k: str(int(value) if type(value).__name__[:4] == "bool" else value) for k, value in macros.items()
    }


def _resolve(name: "Any", module: "Any", macros: "dict[str, str]") -> "tuple[_Module, str | None]":
    _check_name(name)
    _check_name("" if module is None else module)
    manifest = _manifest()
    query = (name, module, *sorted(macros.items()))
    if query not in manifest.resolved:
        manifest.resolved[query] = _search(manifest, name, module, macros)
    return manifest.resolved[query]


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        several = isinstance(name, (list, tuple))
        hint = "; only preload() takes several names" if several else "; pass a device as device="
        _reject(TypeError, "the name of a kernel or module must be a string", name, hint)


def _search(
    manifest: "_Manifest", name: str, module: "str | None", macros: "dict[str, str]"
) -> "tuple[_Module, str | None]":
    kernel_name = normal_name(name)
    of_kernel, of_module = _modules_named(manifest, name, kernel_name)
    candidates = {each.name: each for each in (*of_kernel, *of_module)}
    if not candidates:
        raise CubinNotFoundError(_part("_debugging").no_such_name(name, manifest))
    fitting = [
        each
        for each in candidates.values()
        if (module is None or module in (each.name, each.base)) and macros.items() <= each.variant.items()
    ]
    if len(fitting) > 1 and (macros or not {name, module}.isdisjoint(candidates)):
        fitting = [each for each in fitting if each.variant.keys() == macros.keys()] or fitting
    if len(fitting) != 1:
        _part("_debugging").refuse_choice(name, module, macros, fitting, list(candidates.values()))
    return fitting[0], kernel_name if kernel_name in fitting[0].kernels else None


def _modules_named(
    manifest: "_Manifest", name: str, kernel_name: str
) -> "tuple[list[_Module], list[_Module]]":
    of_kernel = []
    for each in manifest.kernels(kernel_name):
        found = manifest.module(each)
        if found is None or kernel_name not in found.kernels:
            _damaged("manifest.json", f"the module {each!r} does not have the kernel {kernel_name!r}")
        of_kernel.append(found)
    return of_kernel, [*filter(None, (manifest.module(name), *manifest.variants(name)))]


# --- the entry for a device, and its bytes
def _choose(
    found: "_Module",
    kernel_name: "str | None",
    cc: "_Pair",
    driver: "int | None",
    strict: "bool | None" = None,
) -> Entry:
    layer, key = _layer(), (kernel_name, *cc, driver)
    entry = layer.replaced.get(found.name) or found.chosen.get(key)
    if entry is None:
        entries = _entries_with(found, kernel_name)
        chosen = select(cc[0] * 10 + cc[1], driver, [(each.arch, each.min_driver) for each in entries])
        if chosen is None:
            raise CubinNotFoundError(_part("_debugging").nothing_fits(found, kernel_name, cc, driver))
        arch, rule = chosen
        entry = Entry(found, found.fields[arch], rule)
        entry = found.chosen.setdefault(key, entry)
    if entry.kind == "ptx" and (layer.strict if strict is None else strict):
        raise CubinNotFoundError(_part("_debugging").would_be_translated(found, kernel_name, entry, cc))
    return entry


def _entries_with(found: "_Module", kernel_name: "str | None") -> "list[Entry]":
    return [each for each in found.entries if kernel_name is None or kernel_name in each.kernels]


def _check_gpu(cc: "Any", driver: "Any", device: "Any") -> None:
    if cc is not None:
        is_pair = isinstance(cc, tuple) and len(cc) == 2 and all(map(_is_integer, cc))
        if not is_pair or not (0 < cc[0] < 50 and 0 <= cc[1] <= 9):  # (90, 0) is a mistake for (9, 0)
            _reject(ValueError if is_pair else TypeError, "cc must be a pair of numbers such as (9, 0)", cc)
        if device is not None:
            raise TypeError(_message("give cc or device, but not both"))
    is_number = _is_integer(driver)
    if driver is not None and driver is not _UNSET and not (is_number and 1000 <= driver < 100_000):
        kind = ValueError if is_number else TypeError
        _reject(kind, "driver must be the result of cuDriverGetVersion (13000 for 13.0) or None", driver)


def _is_integer(value: object) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _gpu(cc: "_Pair | None", driver: "int | None", device: "Any") -> "tuple[_Pair, int | None]":
    present = None
    if cc is None:
        _, cc, present = _part("_loading").use_device(device)
    return cc, present if driver is _UNSET else driver


def _verified(entry: Entry) -> bytes:
    if entry._data is not None:
        return entry._data
    place = entry._file_path
    try:
        if entry.block is None:
            data = _file_data(place, entry.size)
        else:
            data = _part("_packs").part_of_block(entry, place)
        digest = _sha256(data)
        if digest != entry.sha256 or len(data) != entry.size:
            _damaged(place, f"its digest is {digest}, but the manifest says {entry.sha256}")
    except CubinDamagedError:
        if entry._companion is not None:
            _part("_split").refuse_another_build(entry, os.path.dirname(place))
        raise
    return data


# --- the bundle in use
class _Layer:
    """A bundle in use, and the code that replaces some of its modules (see `use`)."""

    def __init__(
        self, folder: str, manifests: "list[_Manifest]", replaced: "dict[str, Entry]", *, strict: bool
    ) -> None:
        self.folder = folder
        self.manifests = manifests  # empty until the manifest is read
        self.replaced = replaced
        self.strict = strict  # whether PTX is refused

    def _manifest(self) -> "_Manifest":
        for known in self.manifests[:1]:
            return known
        if self.manifests is _own[0].manifests and not _compared and self.is_editable:
            _part("_editable").compare_sources_once()
        read = _Manifest(self.folder)
        self.manifests.append(read)
        return (self.manifests[:1] or [read])[0]  # another thread may have been faster

    @property
    def is_editable(self) -> bool:
        return os.path.isfile(os.path.join(self.folder, "_editable.py"))


_own: "list[_Layer]" = []
_layers: "list[_Layer]" = []  # made by use(): the last is in use
_compared: "list[bool]" = []  # whether the sources of an editable install were compared


def _layer() -> _Layer:
    if not _own:
        strict = os.environ.get("HATCH_CUBIN_STRICT", "").lower() not in ("", "0", "false", "no", "off")
        _own.append(_Layer(_HERE, [], {}, strict=strict))
    return (_layers[-1:] or _own)[0]


def _manifest() -> "_Manifest":
    return _layer()._manifest()


def _retry_during_rebuild(call: "Callable[[], Any]") -> "Any":
    """Return the result of *call*. Retry if a build may be replacing an editable install's files."""
    try:
        return call()
    except CubinError as exc:
        error = exc
        if not (_layer().is_editable and _is_here("_editable")):
            raise
    return _part("_editable").retry(call, error)


# --- the manifest
class _Module:
    """A module, from a checked line of the manifest."""

    def __init__(self, manifest: "_Manifest", name: "Any", fields: "Mapping[str, Any]") -> None:
        self.manifest = manifest
        self.line = fields
        self.name: str = _typed(name, str)
        self.source: str = _typed(fields["source"], str)
        self.variant = _text_map(fields["variant"])
        self.kernels = _text_map(fields["kernels"])
        self.parameters = fields.get("parameters", {})
        self.options = _view(fields["options"])
        self.entries = [Entry(self, entry) for entry in _typed(fields["entries"], list)]
        self.fields: "dict[str, Mapping[str, Any]]" = {entry["arch"]: entry for entry in fields["entries"]}
        if not self.source or len(self.fields) != len(self.entries):
            raise ValueError("the source is empty, or an arch has two entries")
        self.chosen: "dict[tuple[Any, ...], Entry]" = {}
        self.loaded: "dict[str, Any]" = {}  # cuda.core's ObjectCode by digest

    def __reduce__(self) -> "tuple[Any, ...]":
        return _Module, (self.manifest, self.name, self.line)

    @property
    def base(self) -> str:
        if not self.variant:
            return self.name
        return self.name[: -1 - sum(len(key) + len(text) + 2 for key, text in self.variant.items())]


class _Manifest:
    """The bundle's manifest. Only the lines that a call needs are parsed.

    Lines are sorted as bytes. Each module's line has a checksum; another checksum covers all other lines.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._path = os.path.join(folder, "manifest.json")
        self.data = data = _manifest_data(self._path)
        self._kernels_at = data.find(b"\n")
        self._modules_at = data.find(_MODULES) + len(_MODULES) - 1
        self._tail_at = data.rfind(b"\n},")
        self._modules: "dict[bytes, _Module]" = {}
        self.resolved: "dict[tuple[Any, ...], tuple[_Module, str | None]]" = {}
        if not 0 <= self._kernels_at < self._modules_at <= self._tail_at:
            _damaged(self._path, "it is not a manifest")
        self.header = self._read_header()
        self.toolchain = _view(self.header.get("toolchain", {}))

    def __getstate__(self) -> "dict[str, Any]":
        """Return only the parts that a pickled entry needs."""
        header = {key: value for key, value in self.header.items() if key not in ("blocks", "sources")}
        return {"folder": self.folder, "header": header, "toolchain": self.header.get("toolchain", {})}

    def _read_header(self) -> "dict[str, Any]":
        head, tail = self.data[: self._modules_at], self.data[self._tail_at :]
        body = _checked(head + tail)
        if body is None:
            _damaged(self._path, "its header does not match its checksum")
        head = body[: self._kernels_at - _CHECKED].removesuffix(b'"kernels":{')
        fields: "dict[str, Any]" = _json(b"{" + head + tail[3:], self._path)
        if _typed(fields.get("format"), int) > FORMAT:
            what = f"manifest.json has format {fields['format']}, but this loader reads at most {FORMAT}"
            raise CubinError(_message(what, fields))
        return fields

    def kernels(self, name: str) -> "list[str]":
        start = _quoted(name) + b":"
        at = self._first(start, self._kernels_at, self._modules_at - len(_MODULES) + 1)
        line = self._line(at)
        if not line.startswith(start):
            return []
        found = _typed(_json(line[len(start) :].rstrip(b","), self._path), list)
        return [_typed(module, str) for module in found]

    def kernel_names(self) -> "list[str]":
        table = self.data[self._kernels_at : self._modules_at - len(_MODULES) + 1]
        return sorted(_json(b"{" + table + b"}", self._path))

    def module(self, name: str) -> "_Module | None":
        found = self._run(_quoted(name) + b":")
        return found[0] if found else None

    def variants(self, base: str) -> "list[_Module]":
        return [each for each in self._run(_quoted(base)[:-1] + b"[") if each.base == base]

    def everything(self) -> "Iterator[_Module]":
        lines = self.data[self._modules_at + 1 : self._tail_at]
        if len(lines) > _plain_left[0]:
            _import("json")  # it is faster for many lines
        yield from map(self._parsed, lines.splitlines())

    def _run(self, start: bytes) -> "list[_Module]":
        """Return the modules whose lines begin with *start*. Check the lines before and after for damage."""
        at = self._first(start, self._modules_at, self._tail_at)
        if at > self._modules_at:
            self._split(self._line(self.data.rfind(b"\n", self._modules_at, at)))
        found = []
        while at < self._tail_at:
            line = self._line(at)
            if not line.startswith(start):
                self._split(line)
                break
            found.append(self._parsed(line))
            at += 1 + len(line)
        return found

    def _first(self, start: bytes, low: int, high: int) -> int:
        """Return the offset of the line break before the first line >= *start*, or *high*."""
        while low < high:
            middle = self.data.rfind(b"\n", low, (low + high) // 2 + 1)
            if min(low, middle) < 0:
                _damaged(self._path, "the file was changed while in use")
            if self.data[middle + 1 : middle + 1 + len(start)] < start:
                low = self.data.find(b"\n", middle + 1)
            else:
                high = middle
        return low

    def _line(self, at: int) -> bytes:
        line: bytes = self.data[at + 1 : self.data.find(b"\n", at + 1)]
        return line

    def _split(self, line: bytes) -> "tuple[bytes, bytes]":
        """Return the name and the fields of a module, both as JSON."""
        name, _, fields = line.rstrip(b",").partition(b':{"check":')  # never in a JSON string
        body = _checked(b'{"check":' + fields, name)
        if body is None:
            self._refuse_line(name, "does not match its checksum")
        return name, b"{" + body

    def _parsed(self, line: bytes) -> _Module:
        name, fields = self._split(line)
        if name not in self._modules:
            try:
                found = _Module(self, _json(name, self._path), _json(fields, self._path))
            except (KeyError, TypeError, ValueError, AttributeError) as exc:
                self._refuse_line(name, f"is malformed: {exc!r}", exc)
            return self._modules.setdefault(name, found)
        return self._modules[name]

    def _refuse_line(self, name: bytes, how: str, cause: "Exception | None" = None) -> "NoReturn":
        _damaged(self._path, f"the line of {name.decode('utf-8', 'replace')[:80]} {how}", cause)


def _manifest_data(path: str) -> "Any":
    try:
        # Not on Windows: there, open files cannot be replaced.
        if hasattr(os, "pread") and _READ_WHOLE < _plain_size(path) <= _LARGEST and _is_here("_large"):
            return _part("_large").opened(path)
    except (OSError, ValueError):
        pass  # _file_data reports the reason
    return _file_data(path)


# --- files
_companions: "dict[str, tuple[str, Any]]" = {}  # each companion's folder and importer, by name


def _file_data(path: str, size: "int | None" = None) -> bytes:
    try:
        found = _plain_size(path)
        limit = _LARGEST if size is None else size
        if found > limit:
            _damaged(path, f"it has {found} bytes, more than {limit}")
        return _read(path, found)
    except (FileNotFoundError, NotADirectoryError) as exc:
        return _archived(path, exc)
    except (OSError, ValueError) as exc:
        _unreadable(path, exc)


def _archived(path: str, missing: OSError) -> bytes:
    try:
        folder = os.path.dirname(path)
        importers = [importer for place, importer in _companions.values() if place == folder]
        importer = (importers or [__spec__.loader])[0]
        if hasattr(importer, "archive"):  # a zip: the importer's path may be relative to a former folder
            importer = type(importer)(folder)
        data: bytes = importer.get_data(path)
    except Exception as exc:
        _unreadable(path, missing if _is_absence(exc) else exc)
    return data


def _is_absence(exc: Exception) -> bool:
    if isinstance(exc, OSError):
        return exc.errno is not None and not _is_of_system(exc)
    return isinstance(exc, AttributeError)


def _plain_size(path: str) -> int:
    """Return a file's size. Pipes and devices are refused: reading them may never end."""
    found = os.stat(path)
    if not _import("stat").S_ISREG(found.st_mode):
        raise ValueError("not a plain file")
    return found.st_size


def _read(path: str, size: int) -> bytes:
    """Return a file's bytes, but only *size* + 1 bytes if the file has grown."""
    if not size:  # empty files of /proc may block
        return b""
    descriptor, data = _opened(path), b""  # faster than a file object
    try:
        while len(data) < size and (part := os.read(descriptor, size + 1 - len(data))):
            data += part
    finally:
        os.close(descriptor)
    return data


def _opened(path: str) -> int:
    return os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))


def _unreadable(path: str, exc: Exception) -> "NoReturn":
    reason = getattr(exc, "strerror", None) or str(exc) or repr(exc)
    if not _is_of_system(exc):
        _damaged(path, f"it cannot be read ({reason})", exc)
    what = f"{path} cannot be read: {reason}; the system is at fault, not the package"
    raise CubinError(_message(what)) from exc


def _is_of_system(exc: Exception) -> bool:
    errno = _import("errno")
    number = getattr(exc, "errno", None)
    return number not in (None, 0, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP)


# --- the loader's other files, and other modules
_parts: "dict[str, Any]" = {}
_modules: "dict[str, Any]" = {}
_fork_lock: "list[Any]" = []


def _part(name: str) -> "Any":
    """Return another file of the loader as a module.

    The import takes no lock, because a process that is forked during the import could never get the lock.
    """
    found = _parts.get(name)
    return _parts.setdefault(name, _new_part(name)) if found is None else found  # another thread may be first


def _is_here(name: str) -> bool:
    return name in _parts or _find_spec(f"{_NAME}.{name}", __path__) is not None


def _new_part(name: str, code: "Any" = None) -> "Any":
    package, path, cause = __name__, os.path.join(__path__[0], f"{name}.py"), None
    is_known = getattr(sys.modules.get(package), "__dict__", None) is globals()
    if not is_known:  # this file was loaded from its path, but other files import it by name
        stand_in = type(sys)(package)
        package = f"{package}#{id(stand_in)}"
        vars(stand_in).update(globals())
        sys.modules[package] = stand_in
    try:
        part = type(sys)(f"{package}.{name}")
        vars(part)["__package__"] = package
        if code is None:
            spec = _find_spec(part.__name__, __path__)
            vars(part).update(__file__=spec.origin, __loader__=spec.loader, __spec__=spec)
            spec.loader.exec_module(part)
        else:
            exec(code, vars(part))
        if part.__build__ == __build__:
            return part
    except OSError as exc:
        _unreadable(path, exc)
    except Exception as exc:
        cause = exc
    finally:
        if not is_known:
            del sys.modules[package]
    what = f"{path} is missing, damaged, or of another version than the imported loader"
    how = "restart the process if the package was just replaced, otherwise reinstall the package"
    raise CubinError(_message(f"{what}: {how}")) from cause


def _find_spec(name: str, path: "Sequence[str] | None") -> "Any":
    """Find a module like the import system, but without its locks."""
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec = find and find(name, path)
        if spec is not None and spec.origin:  # not for a folder that an uninstall left
            return spec
    return None


def _no_fork() -> "Any":
    """Return a lock that os.fork waits for: otherwise, a child could wait for an import forever."""
    if not _fork_lock:
        import _thread  # already imported in every interpreter

        lock = _thread.RLock()
        if hasattr(os, "register_at_fork"):
            done = lock.release
            os.register_at_fork(before=lock.acquire, after_in_parent=done, after_in_child=done)
        _fork_lock.append(lock)
    return _fork_lock[0]


def _import(name: str) -> "Any":
    if name not in _modules:
        with _no_fork():
            _modules[name] = __import__(name, fromlist=["__name__"])
    return _modules[name]


def _sha256(data: bytes) -> str:
    digest: str = _import("hashlib").sha256(data).hexdigest()
    return digest


def _checked(data: bytes, name: bytes = b"") -> "bytes | None":
    """Return *data* without its leading checksum; None if the checksum is wrong."""
    body = data[_CHECKED:]
    return body if data[:_CHECKED] == b'{"check":"%b",' % _sha256(name + body).encode() else None


def _json(data: bytes, file: str) -> "Any":
    try:
        return _loads(str(data, "utf-8"))
    except (ValueError, RecursionError) as exc:
        _damaged(file, f"it is not JSON: {exc}", exc)


_plain_left = [1 << 16]  # how many characters may still be parsed without json


def _loads(text: str) -> "Any":
    """Return the value of a JSON text. Short plain texts are parsed without json: importing it is slow."""
    plain = text.rstrip("\n")
    if "json" not in sys.modules and len(text) <= _plain_left[0] and "\\" not in text and plain.isprintable():
        _plain_left[0] -= len(text)
        try:
            value, end = _plain(plain, 0)
            if end == len(plain):
                return value
        except (ValueError, IndexError, RecursionError):
            pass
    return _import("json").loads(text)


def _plain(text: str, at: int) -> "tuple[Any, int]":
    """Return the JSON value at an offset of a text without escapes, and the value's end."""
    first = text[at]
    if first == '"':
        end = text.index('"', at + 1)
        return text[at + 1 : end], end + 1
    if first in "{[":
        last = "}" if first == "{" else "]"
        found: "Any" = {} if first == "{" else []
        at += 1
        while text[at] != last:
            if found:
                at = text.index(",", at, at + 1) + 1
            if first == "[":
                value, at = _plain(text, at)
                found.append(value)
            else:
                key, at = _plain(text, text.index('"', at, at + 1))
                found[key], at = _plain(text, text.index(":", at, at + 1) + 1)
        return found, at + 1
    for word, constant in (("true", True), ("false", False), ("null", None)):
        if text.startswith(word, at):
            return constant, at + len(word)
    digits = text[at : at + 20]
    digits = digits[: len(digits) - len(digits.lstrip("0123456789"))]
    if str(int(digits)) != digits:  # without digits, int() raises ValueError
        raise ValueError(text)
    return int(digits), at + len(digits)


def _quoted(name: str) -> bytes:
    is_plain = name.isprintable() and '"' not in name and "\\" not in name
    quoted: str = f'"{name}"' if is_plain else _import("json").dumps(name, ensure_ascii=False)
    return quoted.encode("utf-8", "surrogatepass")


def _typed(value: "Any", kind: "Callable[..., Any]") -> "Any":
    if type(value) is not kind:
        _damaged("manifest.json", f"it has a {type(value).__name__} where a {kind.__name__} belongs")
    return value


def _view(value: "Any") -> "Mapping[str, Any]":
    return _read_only(_typed(value, dict))


def _text_map(value: "Any") -> "Mapping[str, str]":
    return _read_only(_Named((key, _typed(text, str)) for key, text in _typed(value, dict).items()))


def _plain_file(value: "Any") -> str:
    name: str = _typed(value, str)
    if name[:1] in ("", ".") or not {*"/\\:"}.isdisjoint(name) or not name.isprintable():
        _damaged("manifest.json", f"it names a file outside the bundle: {name!r}")
    return name


def _damaged(file: str, how: str, cause: "BaseException | None" = None) -> "NoReturn":
    what = f"{os.path.join(_layer().folder, file)} is damaged: {how}; reinstall the package"
    raise CubinDamagedError(_message(what)) from cause


def _reject(kind: "type[Exception]", what: str, value: object, hint: str = "") -> "NoReturn":
    raise kind(_message(f"{what}, not {value!r:.80}{hint}")) from None


def _message(what: str, header: "Mapping[str, Any] | None" = None) -> str:
    known = header or next((manifest.header for manifest in _layer().manifests[:1]), {})
    maker = known.get("generator")
    named = f"{maker.get('name')} {maker.get('version')}" if isinstance(maker, dict) else "unknown"
    return f"{_NAME}: {what} (bundle of {named})" if known else f"{_NAME}: {what}"


__build__ = "c8f3d0de63390474"  # the same in all files of one version
