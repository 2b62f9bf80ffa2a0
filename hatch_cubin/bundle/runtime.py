# Copied byte for byte into wheels by hatch-cubin (Apache-2.0): keep it one file, standard library only.
"""Load this package's CUDA kernels, compiled when its wheel was built.

    from mypkg import _cubins as cubins

    cubins.kernel("saxpy")                    a cuda.core Kernel for the current device
    cubins.kernel("reduce", BLOCK=256)        a kernel of a variant
    cubins.module("saxpy")                    a cuda.core ObjectCode
    cubins.find("saxpy", cc=(9, 0))           which file serves that capability, and by which rule
    cubins.read("saxpy", cc=(9, 0))           its verified bytes, nothing of CUDA imported
    cubins.cache()                            a read-only cache for cuda.core's Program.compile
    cubins.names(), cubins.archs(), cubins.is_available()
    cubins.preload()                          load all of it now, and say what was loaded
    cubins.check_arguments("saxpy", *args)    for tests: a TypeError unless the kernel takes these
    cubins.use("other/_cubins")               for tests and debugging: look in another bundle
    cubins.use(strict=True)                   let the driver translate nothing

Nothing is compiled here, ever; only where no cubin fits does the driver translate shipped PTX.
"""

# Imported by every process that imports the package: nothing but definitions at import, and no
# import beyond these two (typing, json, hashlib cost milliseconds each). Functions call `_import`
# for everything else: a child that is forked during an import would wait forever for it.
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, NoReturn

__all__ = [
    "CubinDamagedError",
    "CubinError",
    "CubinNotFoundError",
    "CubinStaleWarning",
    "CubinUnavailableError",
    "Entry",
    "Loaded",
    "Parameter",
    "Preloaded",
    "archs",
    "cache",
    "check_arguments",
    "find",
    "is_available",
    "kernel",
    "module",
    "names",
    "preload",
    "read",
    "translated",
    "use",
]

FORMAT = 3  # of bundles that were split; 2 is packed, 1 has a file for each entry

_MODULES = b'\n},"modules":{\n'
_READ_WHOLE = 1 << 20  # a manifest of more bytes is read in parts
_PART = 1 << 12  # bytes of the first such part
_LARGEST = 1 << 25  # bytes of a manifest, at most: 70 000 files are described in 19 MB
_PATIENCE = 2.0  # seconds, with builds that replace what is being read
_ANSWERED = 5.0  # seconds after which a driver that said nothing is taken for one that hangs
_CHECKED = 76  # the length of '{"check":"…",'
_BLOCK = 1 << 21  # bytes that several entries share, unpacked, at most
_UNPACKED = 1 << 24  # bytes of unpacked blocks that are kept
_WINDOW = 1 << 26  # bytes that an unpacker may look back, at most
_ROOM, _RATIO = 1 << 26, 200  # what is unpacked to more, and packed better than code can be, is a bomb

_HERE = os.path.dirname(os.path.abspath(__file__))
_TEGRA = frozenset({53, 62, 72, 87, 101, 110})
_UNSAID: "Any" = object()  # what a parameter is by default where None says something of its own
_read_only = type(type.__dict__)  # types.MappingProxyType, without the import of its module


class CubinError(RuntimeError):
    """The root of all that can go wrong here."""


class CubinNotFoundError(CubinError, LookupError):
    """There is no such kernel, or nothing that was shipped runs on this GPU."""


class CubinDamagedError(CubinError):
    """What is on disk is not what was built."""


class CubinUnavailableError(CubinError):
    """There is no usable driver, device or cuda.core in this process, or no lzma for packed kernels."""


class CubinStaleWarning(UserWarning):
    """An editable install's kernels are older than their sources."""


class _Value:
    """What the loader tells: it can be copied and pickled, and equals what says the same."""

    __slots__: "tuple[str, ...]" = ()

    def __reduce__(self) -> "tuple[Any, ...]":
        return type(self), tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._said() == self._said()

    def __hash__(self) -> int:
        return hash(self._said())

    def _said(self) -> "tuple[Any, ...]":
        return tuple(getattr(self, name) for name in self.__slots__)


class Parameter(_Value):
    """One parameter of a kernel: where it lies among the others, how large it is, and its type if known."""

    __slots__ = ("offset", "size", "type")

    def __init__(self, offset: int, size: int, spelled: "str | None" = None) -> None:
        self.offset = offset
        self.size = size
        self.type = spelled

    def __repr__(self) -> str:
        return f"Parameter(offset={self.offset}, size={self.size}, type={self.type!r})"

    def __str__(self) -> str:
        return self.type or f"{self.size} bytes"


class Entry(_Value):
    """One shipped unit, what is known of it, and by which rule it was chosen.

    It is a file of its own, or a part of a *block*: then *file* and *path* are None. One of a companion has
    no *path* either, nor has one that another variant of the wheel has.
    """

    __slots__ = (
        *("module", "source", "variant", "options", "toolchain"),
        *("arch", "kind", "file", "path", "block", "size", "sha256", "min_driver", "kernels", "resources"),
        *(
            "rule",
            "_absent",
            "_companion",
            "_data",
            "_fields",
            "_manifest",
            "_module",
            "_offset",
            "_parameters",
        ),
    )

    def __init__(
        self, module: "_Module", fields: "Mapping[str, Any]", rule: str = "", data: "bytes | None" = None
    ) -> None:
        self._module, self._manifest = module, module.manifest
        self._fields, self._data = fields, data
        self.module: str = module.name
        self.source: str = module.source
        self.variant = module.variant
        self.options = module.options
        self.toolchain = _view(module.manifest.header.get("toolchain", {}))
        self.arch: str = _typed(fields["arch"], str)
        self.kind: str = _typed(fields["kind"], str)
        self.size: int = _typed(fields["size"], int)
        self.block: "str | None" = _plain_file(fields["block"]) if "block" in fields else None
        self.file: "str | None" = _plain_file(fields["file"]) if self.block is None else None
        self._companion: "str | None" = _typed(fields["companion"], str) if "companion" in fields else None
        self._absent: bool = fields.get("absent") is True
        is_beside = self.file is not None and self._companion is None and not self._absent
        self.path: "str | None" = os.path.join(self._manifest.folder, self.file or "") if is_beside else None
        self._offset: int = 0 if self.block is None else _typed(fields["offset"], int)
        self.sha256: str = _typed(fields["sha256"], str)
        self.min_driver: int = _typed(fields["min_driver"], int)
        self.kernels = _text_map(fields["kernels"]) if "kernels" in fields else module.kernels
        used = _typed(fields.get("resources", {}), dict)
        self.resources = _view({symbol: _view(of_it) for symbol, of_it in used.items()})
        self.rule: str = rule
        self._parameters = _typed(fields.get("parameters", module.parameters), dict)

    @property
    def parameters(self) -> "Mapping[str, tuple[Parameter, ...]]":
        """What each kernel takes, by its name; without those of which that is not known."""
        known = self._parameters
        return _view({name: _parameters(known[name]) for name in self.kernels if name in known})

    def __reduce__(self) -> "tuple[Any, ...]":
        made_of = self._module, self._fields, self.rule, self._data
        return Entry, made_of, (None, {"file": self.file, "path": self.path})

    def _said(self) -> "tuple[Any, ...]":
        place = self._manifest.folder, self.file, self.block, self._offset, self._companion
        return *place, self.module, self.arch, self.rule, self.sha256

    @property
    def _place(self) -> str:
        """The path of the file that the bytes are in."""
        return os.path.join(_folder_of(self), self.file or self.block or "")

    @property
    def source_path(self) -> "str | None":
        """Where the source lies, if the package has it: with `ship-sources`, or installed as editable."""
        built_in = self._manifest.header.get("folder")
        if built_in is None:
            return None
        # Both lie in the project: as its root any will do that needs no working directory.
        inside = os.path.relpath(f"/{self.source}", f"/{_typed(built_in, str)}")
        path = os.path.normpath(os.path.join(self._manifest.folder, inside))
        return path if os.path.isfile(path) else None

    def __repr__(self) -> str:
        place = f"file={self.file!r}" if self.block is None else f"block={self.block!r}"
        return f"Entry(module={self.module!r}, arch={self.arch!r}, {place}, rule={self.rule!r})"


class Loaded(_Value):
    """One file as `preload` left it on one device: loaded, with these of its kernels."""

    __slots__ = ("device", "entry", "kernels", "seconds")

    def __init__(self, device: int, entry: Entry, kernels: "tuple[str, ...]", seconds: float) -> None:
        self.device = device
        self.entry = entry
        self.kernels = kernels
        self.seconds = seconds

    def __repr__(self) -> str:
        entry, kernels = self.entry, len(self.kernels)
        what = (
            f"device={self.device}, module={entry.module!r}, kernels={kernels}, path={_shown_path(entry)!r}"
        )
        return f"Loaded({what}, rule={entry.rule!r}, size={entry.size}, seconds={self.seconds:.6f})"


class Preloaded(_Value):
    """What `preload` did: a `Loaded` for each file on each device, and an error for what no file serves."""

    __slots__ = ("loaded", "missing")

    def __init__(self, loaded: "tuple[Loaded, ...]", missing: "tuple[CubinNotFoundError, ...]") -> None:
        self.loaded = loaded
        self.missing = missing

    def __repr__(self) -> str:
        return f"Preloaded(loaded={self.loaded!r}, missing={self.missing!r})"

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.loaded, *self.missing)))

    def _said(self) -> "tuple[Any, ...]":
        return self.loaded, *map(str, self.missing)


# --- what packages call -------------------------------------------------------------------------


def kernel(
    name: str,
    *,
    module: "str | None" = None,
    variant: "Mapping[str, Any] | None" = None,
    device: "Any" = None,
    **macros: "Any",
) -> "Any":
    """Return a cuda.core `Kernel` for the current device, or for *device* (a number or a `Device`)."""
    code, symbol = _settled(lambda: _load(name, module, variant, macros, device, of_kernel=True))
    return _get_kernel(code, symbol, name)


def module(
    name: str,
    *,
    module: "str | None" = None,
    variant: "Mapping[str, Any] | None" = None,
    device: "Any" = None,
    **macros: "Any",
) -> "Any":
    """Return a module as a cuda.core `ObjectCode`, names of template instantiations included."""
    return _settled(lambda: _load(name, module, variant, macros, device, of_kernel=False))[0]


def preload(*names: str, device: "Any" = None) -> Preloaded:
    """Load all kernels now, or those named, on the current device or on each of a sequence of them.

    A name is a kernel's or a module's, with all variants, and may have `*` and `?`. Afterwards the driver has
    nothing left to load of them, as is needed before a CUDA graph is captured.
    """
    several = isinstance(device, (list, tuple, range))
    preloaded: Preloaded = _settled(lambda: _preload(names, device if several else [device]))
    return preloaded


def find(
    name: str,
    *,
    cc: "tuple[int, int] | None" = None,
    driver: "int | None" = _UNSAID,
    module: "str | None" = None,
    variant: "Mapping[str, Any] | None" = None,
    device: "Any" = None,
    **macros: "Any",
) -> Entry:
    """Return the entry that serves a kernel or module on a capability; the current device's without *cc*.

    With *cc*, nothing of CUDA is imported and any driver will do unless *driver* is given.
    """
    _check_gpu(cc, driver, device)
    found, kernel_name = _resolve(name, module, _wanted(variant, macros))
    cc, driver = _gpu(cc, driver, device)
    return _choose(found, kernel_name, cc, driver)


def read(
    name: str,
    *,
    cc: "tuple[int, int] | None" = None,
    driver: "int | None" = _UNSAID,
    module: "str | None" = None,
    variant: "Mapping[str, Any] | None" = None,
    device: "Any" = None,
    **macros: "Any",
) -> bytes:
    """Return the verified bytes of what `find` finds."""
    asked = {"cc": cc, "driver": driver, "module": module, "variant": variant, "device": device, **macros}
    data: bytes = _settled(lambda: _verified(find(name, **asked)))
    return data


def check_arguments(
    name: str,
    *arguments: "Any",
    module: "str | None" = None,
    variant: "Mapping[str, Any] | None" = None,
    **macros: "Any",
) -> None:
    """Raise a TypeError unless a kernel takes these arguments wherever it runs; for tests.

    They are what `launch` is given: numpy's scalars, those of ctypes, Python's numbers, and what lies in a
    GPU's memory. Nothing is launched, and nothing of CUDA is imported.
    """
    found, kernel_name = _resolve(name, module, _wanted(variant, macros))
    _check_arguments(found, _one_kernel(found, kernel_name), arguments)


def names() -> "tuple[str, ...]":
    """Return the name of every kernel that was shipped."""
    return tuple(_manifest().kernel_names())


def archs() -> "tuple[str, ...]":
    """Return every arch that was shipped for any module."""
    shipped = {entry.arch for found in _manifest().everything() for entry in found.entries}
    return tuple(
        sorted(shipped, key=lambda arch: (_parse_arch(arch)[0] == "compute", *_parse_arch(arch)[1:3]))
    )


def translated(
    *, cc: "tuple[int, int] | None" = None, driver: "int | None" = _UNSAID, device: "Any" = None
) -> "tuple[Entry, ...]":
    """Return the PTX that the driver would have to translate on a GPU: what `use(strict=True)` refuses."""
    _check_gpu(cc, driver, device)
    asked = _asked(("*",))
    cc, driver = _gpu(cc, driver, device)
    found: "dict[tuple[_Module, str], Entry]" = {}
    for each, kernel_name in asked:
        try:
            entry = _choose(each, kernel_name, cc, driver, strict=False)
        except CubinNotFoundError:
            continue
        if entry.kind == "ptx":
            found[each, entry.arch] = entry
    return tuple(found.values())


def is_available(kernel: "str | None" = None, strict: "bool | None" = None) -> bool:
    """Say whether a driver and a device exist; starts no CUDA in this process, and never raises.

    With the name of a kernel or a module, whether it runs on each GPU of this machine; with *strict*, whether
    it, or all of the bundle, does so without being translated. A driver that hangs when it is asked is given
    five seconds.
    """
    try:
        for name in ("ctypes", "errno"):  # here, as the time limit is the driver's and not a slow disk's
            _import(name)
        asks_for_kernels = kernel is not None or bool(strict)
        gpus: "list[tuple[tuple[int, int], int] | None]" = []
        if not _in_time(lambda: _add_visible_gpus(gpus, describe=asks_for_kernels)):
            return False
        asked = _asked(("*" if kernel is None else kernel,)) if asks_for_kernels else {}
        for gpu in gpus:
            for each, kernel_name in asked:
                if gpu is None:  # it is there, and nothing says which GPU it is
                    return False
                _require(_choose(each, kernel_name, *gpu, strict=strict))
    except Exception:
        return False
    return True


def cache(then: "Any" = None) -> "Any":
    """Return the bundle as a read-only cuda.core `ProgramCacheResource`, in front of *then* where given."""
    try:
        _cuda_core()
        with _no_fork():
            from cuda.core.utils import ProgramCacheResource
    except Exception as exc:
        raise CubinUnavailableError(_say(f"cache() needs {_lacking(exc)}")) from exc
    if then is not None and not isinstance(then, ProgramCacheResource):
        what = f"then is a ProgramCacheResource such as cuda.core's FileStreamProgramCache, not {then!r:.80}"
        raise TypeError(_say(what))
    return _cache_class(ProgramCacheResource)(then)


def use(
    what: "str | os.PathLike[str] | Mapping[str, Any] | None" = _UNSAID, *, strict: "bool | None" = None
) -> "_Layer":
    """Look in another bundle's folder, in this whole process; for tests and debugging.

    A mapping gives names of modules or kernels their modules' code instead: bytes, or cuda.core's
    `ObjectCode`, whatever the device. None stands for the package's own bundle.
    With *strict*, what the driver would have to translate is not found. Unsaid, that stays as it was.
    What is returned undoes this one call with `close()`, or at the end of a `with` block.
    """
    below = _layer()
    strict = below.strict if strict is None else bool(strict)
    if what is _UNSAID:
        layer = _Layer(below.folder, below.manifests, below.fresh, strict=strict)
    elif what is None:
        layer = _Layer(_HERE, _own[0].manifests, {}, strict=strict)
    elif isinstance(what, (str, os.PathLike)):
        layer = _layer_of(os.path.abspath(os.fsdecode(what)), strict=strict)
    elif hasattr(what, "items"):
        given = {_resolve(name, None, {})[0]: _code(name, code) for name, code in what.items()}
        fresh = {found.name: _fresh(found, data) for found, data in given.items()}
        layer = _Layer(below.folder, below.manifests, {**below.fresh, **fresh}, strict=strict)
    else:
        raise TypeError(
            _say(f"use() takes a bundle's folder, a mapping of names to code, or None, not {what!r:.80}")
        )
    _layers.append(layer)
    return layer


def _layer_of(folder: str, *, strict: bool) -> "_Layer":
    """Return a layer that looks in a folder; a CubinError says so where no bundle is there."""
    layer = _Layer(folder, [], {}, strict=strict)
    try:
        layer.manifest()
    except CubinDamagedError:
        if os.path.lexists(os.path.join(folder, "manifest.json")):
            raise
        why = "is a file: hatch-cubin unpack WHEEL --into DIR writes such a folder"
        if os.path.isdir(folder):
            why = "has no manifest.json; a package has its bundle in _cubins"
        elif not os.path.exists(folder):
            why = "does not exist"
        raise CubinError(_say(f"use() takes the folder of a bundle, and {folder} {why}")) from None
    return layer


# --- which entry runs on which device -----------------------------------------------------------


def select(cc: int, driver: "int | None", shipped: "Iterable[tuple[str, int]]") -> "tuple[str, str] | None":
    """Return the arch to load on capability *cc* (9.0 is 90), and the rule; None where nothing fits.

    *shipped* holds (arch, min_driver) pairs; *driver* is as `cuDriverGetVersion` counts, None for any.
    Pure: the published table of rules is this function.
    """
    usable = [_parse_arch(arch) for arch, min_driver in shipped if driver is None or min_driver <= driver]
    cubins = [(number, suffix, arch) for kind, number, suffix, arch in usable if kind == "sm"]
    ptx = [
        (number, "_fa".index(suffix or "_"), arch)
        for kind, number, suffix, arch in usable
        if kind == "compute"
    ]
    rules = (
        ("exact, arch-specific", [entry for entry in cubins if entry[:2] == (cc, "a")]),
        ("family", [entry for entry in cubins if entry[1] == "f" and _in_family(entry[0], cc)]),
        ("exact", [entry for entry in cubins if entry[:2] == (cc, "")]),
        (
            "same major, lower minor",
            [entry for entry in cubins if entry[1] == "" and _in_family(entry[0], cc) and cc not in _TEGRA],
        ),
        (
            "PTX, translated by the driver",
            [entry for entry in ptx if _ptx_runs(entry[0], entry[1], cc)],
        ),
    )
    for rule, candidates in rules:
        if candidates:
            return max(candidates)[2], rule
    return None


def _parse_arch(arch: str) -> "tuple[str, int, str, str]":
    kind, _, name = arch.partition("_")
    suffix = name[-1:] if name[-1:] in ("a", "f") else ""
    digits = name.removesuffix(suffix)
    if kind not in ("sm", "compute") or not digits.isdecimal() or len(digits) > 4:
        _damaged("manifest.json", f"it names an arch that does not exist: {arch!r:.80}")
    return kind, int(digits), suffix, arch


def _in_family(target: int, cc: int) -> bool:
    """Same major, minor not below; Tegra and desktop parts are families apart."""
    return cc // 10 == target // 10 and cc >= target and (cc in _TEGRA) == (target in _TEGRA)


def _ptx_runs(target: int, rank: int, cc: int) -> bool:
    return (target <= cc, _in_family(target, cc), target == cc)[rank]


# --- what a name means --------------------------------------------------------------------------


def normal_name(name: str) -> str:
    """Return a kernel's name in its one spelling: spaces between words and after commas only."""
    words = name.split()
    joined = "".join(
        word if i == 0 or not (_is_word(words[i - 1][-1]) and _is_word(word[0])) else " " + word
        for i, word in enumerate(words)
    )
    return joined.replace(",", ", ")


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _wanted(variant: "Mapping[str, Any] | None", macros: "Mapping[str, Any]") -> "dict[str, str]":
    """Return the macros that were asked for, as the manifest has them."""
    if variant is not None:
        if not hasattr(variant, "keys") or not all(isinstance(key, str) for key in variant):
            raise TypeError(_say(f"variant is a mapping such as {{'BLOCK': 256}}, not {variant!r:.80}"))
        for twice in variant.keys() & macros.keys():
            raise TypeError(_say(f"the macro {twice!r} is given twice, in variant= and by itself"))
        macros = {**variant, **macros}
    return {key: _macro_text(value) for key, value in macros.items()}


def _macro_text(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _resolve(name: "Any", module: "Any", wanted: "dict[str, str]") -> "tuple[_Module, str | None]":
    """Return the one module that a name means, and the kernel where the name is a kernel's."""
    if not isinstance(name, str) or not (module is None or isinstance(module, str)):
        _no_name(module if isinstance(name, str) else name)
    manifest = _manifest()
    asked = (name, module, *sorted(wanted.items()))
    if asked not in manifest.resolved:
        manifest.resolved[asked] = _search(manifest, name, module, wanted)
    return manifest.resolved[asked]


def _search(
    manifest: "_Manifest", name: str, module: "str | None", wanted: "dict[str, str]"
) -> "tuple[_Module, str | None]":
    kernel_name = normal_name(name)
    of_kernel, of_module = _named(manifest, name, kernel_name)
    candidates = {each.name: each for each in (*of_kernel, *of_module)}
    if not candidates:
        raise CubinNotFoundError(_no_such_name(name, manifest))
    fitting = [
        each
        for each in candidates.values()
        if (module is None or module in (each.name, each.base)) and wanted.items() <= each.variant.items()
    ]
    if len(fitting) > 1 and wanted:
        fitting = [each for each in fitting if each.variant.keys() == wanted.keys()] or fitting
    if len(fitting) != 1:
        _not_one(name, module, wanted, fitting or list(candidates.values()), ambiguous=bool(fitting))
    return fitting[0], kernel_name if kernel_name in fitting[0].kernels else None


def _one_kernel(found: "_Module", kernel_name: "str | None") -> str:
    """Return the kernel that was asked for, by its own name or by that of its module."""
    if kernel_name is None:
        if len(found.kernels) != 1:
            listed = ", ".join(map(repr, found.kernels))
            which = f"several kernels, name one: {listed}" if listed else "no kernel"
            raise CubinNotFoundError(_say(f"module {found.name!r} has {which}"))
        (kernel_name,) = found.kernels
    return kernel_name


def _no_name(given: object) -> "NoReturn":
    raise TypeError(_say(f"a kernel or a module is asked for by its name, not by {given!r:.80}"))


def _named(manifest: "_Manifest", name: str, kernel_name: str) -> "tuple[list[_Module], list[_Module]]":
    """Return the modules that have a kernel of a name, and those that are called so."""
    exact = manifest.module(name)
    of_kernel = [_having(manifest, each, kernel_name) for each in manifest.kernels(kernel_name)]
    return of_kernel, manifest.variants(name) if exact is None else [exact]


def _asked(names: "Sequence[str]") -> "dict[tuple[_Module, str], bool]":
    """Return all kernels that any of the names means, and whether one means it without `*` and `?`."""
    manifest = _manifest()
    asked: "dict[tuple[_Module, str], bool]" = {}
    unknown: "list[str]" = []
    for name in names:
        if not isinstance(name, str):
            _no_name(name)
        kernel_name = normal_name(name)
        of_kernel, of_module = _named(manifest, name, kernel_name)
        exact = [(each, kernel_name) for each in of_kernel]
        exact += [(each, one) for each in of_module for one in each.kernels]
        alike = [] if exact else _like(manifest, name, kernel_name)
        if not exact and not alike:
            unknown.append(_no_such_name(name, manifest))
        asked.update(dict.fromkeys(exact, True))
        for each in alike:
            asked.setdefault(each, False)
    if unknown:
        raise CubinNotFoundError("\n".join(dict.fromkeys(unknown)))
    return asked


def _like(manifest: "_Manifest", name: str, kernel_name: str) -> "list[tuple[_Module, str]]":
    fnmatchcase = _import("fnmatch").fnmatchcase
    of_module, of_kernel = (each.replace("[", "[[]") for each in (name, kernel_name))  # a variant's own
    return [
        (found, each)
        for found in manifest.everything()
        for each in found.kernels
        if fnmatchcase(found.name, of_module) or fnmatchcase(each, of_kernel)
    ]


def _having(manifest: "_Manifest", name: str, kernel_name: str) -> "_Module":
    found = manifest.module(name)
    if found is None or kernel_name not in found.kernels:
        _damaged("manifest.json", f"no module {name!r} has the kernel {kernel_name!r} that it lists")
    return found


def _no_such_name(name: str, manifest: "_Manifest") -> str:
    """Word that a name means nothing, with what may have been meant."""
    if manifest.header.get("skipped"):
        return _say(f"no kernel {name!r}: the package was built with HATCH_CUBIN_SKIP, without any kernels")
    known = sorted({*manifest.kernel_names(), *(each.name for each in manifest.everything())})
    if name in known:  # it is there, and not where its order puts it
        _damaged("manifest.json", "its lines are not in order")
    guess = f"there are: {', '.join(map(repr, known[:20]))}"
    if close := _import("difflib").get_close_matches(name, known, n=3):
        guess = f"did you mean {' or '.join(map(repr, close))}?"
    if "<" in name:
        guess = f"of a template, only what 'instantiate' names is built; {guess}"
    return _say(f"no kernel or module {name!r}; {guess}")


def _not_one(
    name: str,
    module: "str | None",
    macros: "Mapping[str, str]",
    modules: "Sequence[_Module]",
    *,
    ambiguous: bool,
) -> "NoReturn":
    asked = "".join([f" in module {module!r}" if module else "", f" with {dict(macros)}" if macros else ""])
    what = f"no kernel or module {name!r}{asked}"
    if ambiguous:
        what = f"{name!r}{asked} is ambiguous: say module= or the variant's macros"
    listed = ", ".join(repr(each.name) for each in modules[:20])
    raise CubinNotFoundError(_say(f"{what}; there are {listed}"))


# --- the entry for a device, and its bytes ------------------------------------------------------


def _choose(
    found: "_Module",
    kernel_name: "str | None",
    cc: "tuple[int, int]",
    driver: "int | None",
    strict: "bool | None" = None,
) -> Entry:
    major, minor = cc
    layer = _layer()
    entry = layer.fresh.get(found.name) or found.chosen.get((kernel_name, major, minor, driver))
    if entry is None:
        entries = _having_kernel(found, kernel_name)
        chosen = select(major * 10 + minor, driver, [(each.arch, each.min_driver) for each in entries])
        if chosen is None:
            _nothing_fits(found, kernel_name, entries, (major, minor), driver)
        arch, rule = chosen
        entry = Entry(found, found.fields[arch], rule)
        entry = found.chosen.setdefault((kernel_name, major, minor, driver), entry)
    if entry.kind == "ptx" and (layer.strict if strict is None else strict):
        _would_be_translated(found, kernel_name, entry, (major, minor))
    return entry


def _having_kernel(found: "_Module", kernel_name: "str | None") -> "list[Entry]":
    return [each for each in found.entries if kernel_name is None or kernel_name in each.kernels]


def _check_gpu(cc: "Any", driver: "Any", device: "Any") -> None:
    if cc is not None:
        _check_capability(cc)
        if device is not None:
            raise TypeError(_say("cc and device both say which GPU: give one of them"))
    if driver is not _UNSAID and driver is not None:
        _check_driver(driver)


def _gpu(
    cc: "tuple[int, int] | None", driver: "int | None", device: "Any"
) -> "tuple[tuple[int, int], int | None]":
    """Return the capability and the driver's version that are asked about."""
    present = None
    if cc is None:
        _, cc, present = _device(device)
    return cc, present if driver is _UNSAID else driver


def _check_capability(cc: "Any") -> None:
    if not isinstance(cc, tuple) or [type(part) for part in cc] != [int, int]:
        raise TypeError(_say(f"cc is a pair of numbers such as (9, 0), not {cc!r:.80}"))
    if cc[0] < 1 or not 0 <= cc[1] <= 9:
        raise ValueError(_say(f"there is no compute capability {cc[0]}.{cc[1]}"))


def _check_driver(driver: "Any") -> None:
    if type(driver) is not int:
        what = f"driver is a version as cuDriverGetVersion counts (13.0 is 13000) or None, not {driver!r:.80}"
        raise TypeError(_say(what))
    if driver < 1000:
        raise ValueError(
            _say(f"there is no driver version {driver}: cuDriverGetVersion counts 13.0 as 13000")
        )


def _nothing_fits(
    found: "_Module",
    kernel_name: "str | None",
    entries: "Sequence[Entry]",
    cc: "tuple[int, int]",
    driver: "int | None",
) -> "NoReturn":
    shipped = ", ".join(f"{each.arch} (driver {_version(each.min_driver)})" for each in entries) or "nothing"
    device = f"compute capability {cc[0]}.{cc[1]}"
    if driver is not None:
        device += f" with driver {_version(driver)}"
    what = f"nothing shipped for {_called(found, kernel_name)} runs on {device}: shipped {shipped}"
    raise CubinNotFoundError(_say(f"{what}; {_what_would_fit(found, entries, found.entries, cc)}"))


def _would_be_translated(
    found: "_Module", kernel_name: "str | None", entry: Entry, cc: "tuple[int, int]"
) -> "NoReturn":
    what = f"{_called(found, kernel_name)} for compute capability {cc[0]}.{cc[1]}"
    which = f" ({entry.arch})" if entry.arch else ""
    cubins = [each for each in found.entries if each.kind == "cubin"]
    having = [each for each in _having_kernel(found, kernel_name) if each.kind == "cubin"]
    fix = _what_would_fit(found, having, cubins, cc) if entry.arch else "give use() machine code"
    raise CubinNotFoundError(
        _say(f"{what} is PTX{which}, and strict loading lets the driver translate none; {fix}")
    )


def _called(found: "_Module", kernel_name: "str | None") -> str:
    """Return a kernel's name for a message, with its module's where other sources have one of that name."""
    having = _named(found.manifest, kernel_name, kernel_name)[0] if kernel_name else []
    of_module = f" of module {found.base!r}" if len({each.base for each in having}) > 1 else ""
    return f"{kernel_name or found.name!r}{of_module}"


def _what_would_fit(
    found: "_Module", entries: "Sequence[Entry]", shipped: "Sequence[Entry]", cc: "tuple[int, int]"
) -> str:
    """Say what would serve a device that none of these *entries* does, of all that are *shipped*."""
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


def _verified(entry: Entry) -> bytes:
    if entry._data is not None:  # noqa: SLF001
        return entry._data  # noqa: SLF001
    place = entry._place  # noqa: SLF001
    try:
        data = _file_data(place, entry.size) if entry.block is None else _part_of_block(entry, place)
        digest = _sha256(data)
        if digest != entry.sha256 or len(data) != entry.size:
            _damaged(place, f"its digest is {digest}, the manifest says {entry.sha256}")
    except CubinDamagedError:
        if entry._companion is not None:  # noqa: SLF001
            _refuse_another_build(entry, os.path.dirname(place))
        raise
    return data


# --- bundles that were split: what is not here, and packages with some of the files ---------------


_companions: "dict[str, tuple[str, Any]]" = {}  # their folders, and who imports from there


def _folder_of(entry: Entry) -> str:
    """Return the folder of an entry's file; CubinNotFoundError where this install has none."""
    if entry._absent:  # noqa: SLF001
        _refuse_other_variant(entry)
    return entry._manifest.folder if entry._companion is None else _companion_folder(entry)  # noqa: SLF001


def _refuse_other_variant(entry: Entry) -> "NoReturn":
    known = _typed(entry._manifest.header.get("wheel_variant"), dict)  # noqa: SLF001
    label, install = (_typed(known.get(key), str) for key in ("label", "install"))
    what = f"{entry.module!r} for {entry.arch} is not in the wheel variant {label!r}, which is installed"
    how = f"uv pip install --no-preview --reinstall --no-deps '{install}' installs the wheel that has all"
    raise CubinNotFoundError(_say(f"{what}: {how}"))


def _companion_folder(entry: Entry) -> str:
    """Return where an entry's companion is installed; it is not imported."""
    name, known = _companion(entry)
    if (installed := _companions.get(name)) is not None:
        return installed[0]
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)  # which an import does not demand of each either
        spec = find and find(name, None)
        if spec is not None and spec.origin and spec.submodule_search_locations:  # and no empty folder
            folder: str = os.path.abspath(spec.submodule_search_locations[0])
            _companions[name] = folder, spec.loader
            return folder
    what = f"{entry.module!r} for {entry.arch} is in {known['project']}, which is not installed"
    raise CubinNotFoundError(_say(f"{what}: pip install '{known['install']}'"))


def _require(entry: Entry) -> Entry:
    """Return an entry that this install has, with the companion that it may need."""
    _folder_of(entry)
    return entry


def _companion(entry: Entry) -> "tuple[str, dict[str, str]]":
    """Return an entry's companion, and what the manifest says of it."""
    name: str = entry._companion or ""  # noqa: SLF001
    known = _typed(entry._manifest.header.get("companions"), dict).get(name)  # noqa: SLF001
    if not name.isidentifier():
        _damaged("manifest.json", f"it names a companion that is no package: {name!r:.80}")
    return name, {key: _typed(_typed(known, dict).get(key), str) for key in ("install", "project")}


def _refuse_another_build(entry: Entry, folder: str) -> None:
    """Raise CubinNotFoundError where a companion that is installed was made for another index."""
    name, known = _companion(entry)
    _companions.pop(name, None)  # it may be replaced meanwhile
    bound = _json(_file_data(os.path.join(folder, "companion.json")), f"{name}/companion.json")
    if _typed(bound, dict).get("index") != _sha256(entry._manifest._data[:]):  # noqa: SLF001
        version = bound.get("version")
        is_named_so = known["install"].endswith(f"=={version}")  # then an installer finds nothing to do
        other, force = ("build", " --force-reinstall") if is_named_so else ("version", "")
        what = f"{known['project']} in {folder} belongs to another {other}, {version!r:.80}"
        raise CubinNotFoundError(_say(f"the installed {what}: pip install{force} '{known['install']}'"))


# --- packed bundles -----------------------------------------------------------------------------


_unpacked: "dict[tuple[str, int], bytes]" = {}  # blocks by digest and size, the one used last at the end
_unpackers: "dict[int, Any]" = {}  # the lock of each process: a fork may find its parent's locked forever


def _part_of_block(entry: Entry, path: str) -> bytes:
    """Return the bytes of a packed entry."""
    start, end = entry._offset, entry._offset + entry.size  # noqa: SLF001
    block = _block_of(entry)
    lock = _unpackers.get(os.getpid())
    if lock is None:
        lock = _unpackers.setdefault(os.getpid(), _import("_thread").allocate_lock())
    key = block["sha256"], block["size"]
    with lock:
        data = _unpacked.pop(key, None)
        if data is None:
            room = _UNPACKED - block["size"]
            while _unpacked and sum(map(len, _unpacked.values())) > room:
                _unpacked.pop(next(iter(_unpacked)))
            data = _unpack(path, **block)
        if len(data) <= _UNPACKED:
            _unpacked[key] = data
    return data[start:end]


def _block_of(entry: Entry) -> "dict[str, Any]":
    """Return what the manifest says of an entry's block, and what it cannot mean is damage."""
    blocks = _typed(entry._manifest.header.get("blocks"), dict)  # noqa: SLF001
    if entry.block not in blocks:
        _damaged("manifest.json", f"it does not describe the block {entry.block!r} that it names")
    block = _typed(blocks[entry.block], dict)
    found = {name: _typed(block.get(name), kind) for name, kind in _OF_BLOCK.items()}
    fits = 0 <= entry._offset <= found["size"] - entry.size and entry.size > 0  # noqa: SLF001
    if not fits or found["size"] > max(_BLOCK, entry.size):
        _damaged("manifest.json", f"{entry.module!r} for {entry.arch} cannot lie in {entry.block} as it says")
    return found


_UNPACK = "run another Python, or write the kernels unpacked (hatch-cubin unpack … --into DIR), and use(DIR)"
_OF_BLOCK = {"packed": int, "sha256": str, "size": int}


def _unpack(path: str, packed: int, sha256: str, size: int) -> bytes:
    """Return an unpacked block of so many bytes. What is not, to the bit, what was built is not unpacked."""
    data = _file_data(path, packed)
    if (digest := _sha256(data)) != sha256:
        _damaged(path, f"its digest is {digest}, the manifest says {sha256}")
    if size > max(_ROOM, _RATIO * len(data)):
        _damaged(path, f"{len(data)} bytes would be unpacked to {size}, which no build packs so")
    try:
        lzma = _import("lzma")
    except ImportError as exc:
        what = _say(f"{path} cannot be unpacked: this Python lacks lzma (liblzma); {_UNPACK}")
        raise CubinUnavailableError(what) from exc
    try:
        unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=min(2 * size, _WINDOW) + (1 << 20))
        found: bytes = unpacker.decompress(data, size + 1)
    except lzma.LZMAError as exc:
        _damaged(path, f"it cannot be unpacked ({exc})", exc)
    if len(found) != size or not unpacker.eof or unpacker.unused_data:
        _damaged(path, f"it does not unpack to {size} bytes, as the manifest says")
    return found


def _shown_path(entry: Entry) -> str:
    return entry._place if entry.arch else ""  # noqa: SLF001 - code that was given to use() has none


# --- what a kernel takes ------------------------------------------------------------------------


_REAL = {"float": "float32", "double": "float64", "half": "float16", "__half": "float16"}
_SIZED = ("int8_t", "int16_t", "int32_t", "int64_t")
_WHOLE = frozenset(
    {"bool", "char", "short", "int", "long", "signed", "unsigned", "size_t", "intptr_t", "uintptr_t"}
)


def _parameters(listed: "Any") -> "tuple[Parameter, ...]":
    found = []
    for each in _typed(listed, list):
        if [type(part) for part in _typed(each, list)] not in ([int, int], [int, int, str]):
            _damaged("manifest.json", f"it has no parameter where one belongs: {each!r:.80}")
        found.append(Parameter(*each))
    return tuple(found)


def _check_arguments(found: "_Module", kernel_name: str, arguments: "tuple[Any, ...]") -> None:
    if found.name in _layer().fresh:
        raise CubinError(_say(f"nothing says what {kernel_name!r} takes in the code that use() was given"))
    takes = [each.parameters.get(kernel_name) for each in _having_kernel(found, kernel_name)]
    known = {repr(each): each for each in takes if each is not None}  # mostly the same for each arch
    if not known:
        what = f"the manifest does not say what {kernel_name!r} takes"
        raise CubinError(_say(f"{what}: a build with a newer hatch-cubin may find it out"))
    told = [
        f"{kernel_name}({', '.join(map(str, parameters))}): {'; '.join(misfits)}"
        for parameters in known.values()
        if (misfits := _misfits(arguments, parameters))
    ]
    if told:
        raise TypeError(_say("; ".join(told)))


def _misfits(arguments: "tuple[Any, ...]", parameters: "tuple[Parameter, ...]") -> "list[str]":
    """Say which arguments a kernel with these parameters would not read as they are meant."""
    if len(arguments) != len(parameters):
        return [f"needs {len(parameters)} argument{'s' * (len(parameters) != 1)}, not {len(arguments)}"]
    told = []
    for number, (argument, parameter) in enumerate(zip(arguments, parameters, strict=True), 1):
        size, kind = _passed(argument)
        spelled = parameter.type or ""
        which = f"argument {number} ({_type_name(argument)})"
        if not size:
            told.append(f"{which} {kind}")
        elif size != parameter.size:
            where = f"where {spelled or 'the parameter'} has {parameter.size}"
            told.append(f"{which} is passed as {size} bytes, {where}{_fitting(parameter)}")
        elif not _is_meant(kind, spelled):
            told.append(f"{which} is no {spelled}{_fitting(parameter)}")
    return told


def _passed(argument: "Any") -> "tuple[int, str]":
    """Return an argument's bytes as it is passed, and its kind as numpy names it; 0 and why it cannot be.

    Where cuda.core refuses something that ctypes passes, it is what ctypes does.
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
    if not isinstance(code, str):  # of an array or a pointer it is a class
        code = "V"
    kinds = ("f", "fdg"), ("b", "?"), ("P", "PzZ"), ("V", "V")
    kind = next((kind for kind, codes in kinds if code in codes), "i")
    return (size, kind) if size else (0, "cannot be passed to a kernel")


def _has(argument: "Any", name: str) -> bool:
    try:
        return hasattr(argument, name)
    except Exception:  # of a tensor that needs gradients, for one
        return False


def _type_name(argument: "Any") -> str:
    kind = type(argument)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _is_meant(kind: str, spelled: str) -> bool:
    """Say whether a parameter of that type reads such an argument, of its size, as what it is."""
    if spelled.endswith("*"):
        return kind in "Piu"
    plain = _plain_type(spelled)
    if plain in _REAL:
        return kind == "f"
    return kind in "biuP" if _is_whole(plain) else True


def _fitting(parameter: Parameter) -> str:
    """Say which of numpy's scalars a parameter reads as it is meant, if it is a number."""
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


# --- loading, with cuda.core --------------------------------------------------------------------


_lock: "list[Any]" = []
_used: "dict[int, int]" = {}  # the process that uses CUDA: its driver's version, 0 while that starts
_kept: "set[int]" = set()  # devices whose primary context lives on for what was loaded into it
_hanging: "list[Any]" = []  # the thread that waits for a driver which does not answer


def _load(
    name: str,
    module: "str | None",
    variant: "Mapping[str, Any] | None",
    macros: "Mapping[str, Any]",
    device: "Any",
    *,
    of_kernel: bool,
) -> "tuple[Any, str]":
    """Return the code that serves the device, loaded once in this process, and the kernel's symbol in it."""
    for other in {"cc", "driver"} & macros.keys():
        what = f"{other}= belongs to find() and read(); what is loaded is for a device, device="
        raise TypeError(_say(f"{what} (a macro of that name: variant={{{other!r}: …}})"))
    found, kernel_name = _resolve(name, module, _wanted(variant, macros))
    if of_kernel:
        kernel_name = _one_kernel(found, kernel_name)
    _, cc, driver = _device(device)
    entry = _choose(found, kernel_name, cc, driver)
    return _code_of(found, entry), entry.kernels.get(kernel_name or "", "")


def _code_of(found: "_Module", entry: Entry) -> "Any":
    """Return an entry's code as cuda.core's `ObjectCode`, made once in this process."""
    with _loading():
        if entry.sha256 not in found.loaded:
            core = _cuda_core()
            symbols = {spelled: symbol.encode() for spelled, symbol in entry.kernels.items()}
            data = _verified(entry)
            place = _shown_path(entry)
            sys.audit("hatch_cubin.load", __name__, entry.module, entry.arch, place, entry.sha256)
            try:
                make = core.ObjectCode.from_ptx if entry.kind == "ptx" else core.ObjectCode.from_cubin
                found.loaded[entry.sha256] = make(data, name=found.name, symbol_mapping=symbols)
            except Exception as exc:
                what = f"cuda.core cannot take {entry.file or entry.module}: {exc}"
                raise CubinUnavailableError(_say(what)) from exc
    return found.loaded[entry.sha256]


def _get_kernel(code: "Any", symbol: str, name: str) -> "Any":
    with _loading():  # the first one makes the driver take the code
        try:
            return code.get_kernel(symbol)
        except Exception as exc:
            raise CubinUnavailableError(_say(f"the driver cannot load {name!r}: {exc}")) from exc


_TO_PRELOAD = (
    *("cuCtxGetDevice", "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2"),
    *("cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuKernelGetFunction"),
)


def _preload(names: "Sequence[str]", devices: "Sequence[Any]") -> Preloaded:
    asked = _asked(names or ("*",))
    plan: "dict[tuple[int, _Module, str], tuple[Entry, list[str]]]" = {}
    missing: "dict[str, CubinNotFoundError]" = {}
    wrong = _layer().strict
    for device in devices:
        chosen, cc, driver = _device(device)
        for (found, kernel_name), exact in asked.items():
            try:
                entry = _require(_choose(found, kernel_name, cc, driver))
            except CubinNotFoundError as exc:
                missing[str(exc)] = exc
                wrong = wrong or exact
                continue
            file = (int(chosen.device_id), found, entry.sha256)
            plan.setdefault(file, (entry, []))[1].append(kernel_name)
    if missing and (wrong or not plan):
        more = [f"and {len(missing) - 20} more"] if len(missing) > 20 else []
        raise CubinNotFoundError("\n".join([*list(missing)[:20], *more]))
    library = _driver_library()
    if lacking := [call for call in _TO_PRELOAD if not hasattr(library, call)]:
        what = f"preload() needs a driver of CUDA 12.0 or newer: this one has no {', no '.join(lacking)}"
        raise CubinUnavailableError(_say(what))
    # In the order of blocks, so that each is unpacked once.
    in_order = sorted(plan.items(), key=lambda item: item[1][0].block or "")
    loaded = {file: _load_now(library, file[0], file[1], *what) for file, what in in_order}
    return Preloaded(tuple(loaded[file] for file in plan), tuple(missing.values()))


def _load_now(library: "Any", device: int, found: "_Module", entry: Entry, kernels: "list[str]") -> Loaded:
    perf_counter = _import("time").perf_counter
    began = perf_counter()
    code = _code_of(found, entry)
    handles = [int(_get_kernel(code, entry.kernels[name], name).handle) for name in kernels]
    if why := _load_functions(library, device, handles):
        what = f"the driver cannot load {found.name!r} on CUDA device {device}: {why}"
        raise CubinUnavailableError(_say(what))
    return Loaded(device, entry, tuple(kernels), perf_counter() - began)


def _load_functions(driver: "Any", device: int, kernels: "list[int]") -> "str | None":
    """Have the driver load kernels into a device's context, where it would wait for their first launch.

    That is the current context if it is the device's, else its primary one. Say what went wrong.
    """
    ctypes = _import("ctypes")
    current, context, function = ctypes.c_int(-1), ctypes.c_void_p(), ctypes.c_void_p()
    driver.cuCtxGetDevice(ctypes.byref(current))  # an error where no context is current
    status, pushed = 0, current.value != device
    if pushed:
        status = driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        pushed = not status and not (status := driver.cuCtxPushCurrent_v2(context))
    for kernel in kernels:
        status = status or driver.cuKernelGetFunction(ctypes.byref(function), ctypes.c_void_p(kernel))
        if hasattr(driver, "cuFuncLoad"):  # before CUDA 12.4, to get a function was to load it
            status = status or driver.cuFuncLoad(function)
    if pushed:
        driver.cuCtxPopCurrent_v2(ctypes.byref(context))
        if device in _kept:
            driver.cuDevicePrimaryCtxRelease_v2(device)
        _kept.add(device)
    return _named_error(driver, status) if status else None


def _loading() -> "Any":
    if not _lock:
        _lock.append(_import("_thread").RLock())
    return _lock[0]


def _device(device: "Any") -> "tuple[Any, tuple[int, int], int]":
    """Return a device (the current one for None), its capability and the driver's version."""
    by_number = type(device) is int
    if not by_number and device is not None and not hasattr(device, "compute_capability"):
        raise TypeError(_say(f"device is an ordinal or a cuda.core Device, not {device!r:.80}"))
    if by_number and device < 0:
        raise ValueError(_say(f"there is no CUDA device {device}"))
    driver = _driver_version()
    try:
        core = _cuda_core()
    except Exception as exc:
        raise CubinUnavailableError(_say(f"loading kernels needs {_lacking(exc)}")) from exc
    try:
        chosen = core.Device(device) if device is None or by_number else device
        major, minor = chosen.compute_capability
    except Exception as exc:
        which = "the current CUDA device" if device is None else f"CUDA device {device}"
        raise CubinUnavailableError(_say(f"{which} cannot be used: {exc}")) from exc
    return chosen, (int(major), int(minor)), driver


def _cuda_core() -> "Any":
    """Import cuda.core in one thread alone: to any other its import looks done before it is."""
    return _import("cuda.core")


def _lacking(exc: BaseException) -> str:
    """Say why cuda.core cannot be imported: it may be there, and the system not able to read it."""
    cause: "BaseException | None" = exc
    while cause is not None:
        if remedy := _fault(cause):
            return f"cuda.core, which cannot be imported now: {exc}; {remedy}"
        cause = cause.__cause__ or cause.__context__
    return f"cuda.core (pip install cuda-core[cu13] or [cu12]), which cannot be imported: {exc}"


# --- the driver ---------------------------------------------------------------------------------


_NOT_INITIALIZED = 3
_NVML_WITHOUT_DRIVER = (9, 18)  # it is not loaded, or is of another version than the libraries


def _driver_version() -> int:
    """Start the driver: without a device cuda.core's first call raises, and its second hangs."""
    pid = os.getpid()
    if _used.keys() - {pid}:  # a thread of the parent may even have been starting the driver at the fork
        raise CubinUnavailableError(
            _say("CUDA was used before this process was forked: start processes with spawn")
        )
    return _used.get(pid) or _start_driver(pid)


def _start_driver(pid: int) -> int:
    driver = _driver_library()
    if driver is None:
        raise CubinUnavailableError(_say("there is no CUDA driver on this machine"))
    ctypes = _import("ctypes")
    count, version = ctypes.c_int(), ctypes.c_int()
    _used.setdefault(pid, 0)
    status = (
        driver.cuInit(0)
        or driver.cuDeviceGetCount(ctypes.byref(count))
        or driver.cuDriverGetVersion(ctypes.byref(version))
    )
    if not status and count.value:
        _used[pid] = found = int(version.value)
        return found
    if not _used[pid]:
        _used.pop(pid, None)
    if status:
        forked = "; was CUDA used before this process was forked? start processes with spawn"
        why = forked if status == _NOT_INITIALIZED else ""
        raise CubinUnavailableError(
            _say(f"the CUDA driver cannot be used: {_named_error(driver, status)}{why}")
        )
    raise CubinUnavailableError(_say("the CUDA driver finds no device"))


def _named_error(driver: "Any", status: int) -> str:
    ctypes = _import("ctypes")
    text = ctypes.c_char_p()
    driver.cuGetErrorName(status, ctypes.byref(text))
    return f"{(text.value or b'error').decode()} ({status})"


def _driver_library() -> "Any":
    try:
        library = _import("ctypes").CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except (OSError, ImportError) as exc:
        if isinstance(exc, ImportError) or _fault(exc):
            hint = "; the main interpreter can" if "subinterpreter" in str(exc) else ""
            raise CubinUnavailableError(_say(f"the CUDA driver cannot be loaded: {exc}{hint}")) from exc
        return None
    return _with_calls(library, "cuInit", "cuDeviceGetCount", "cuDriverGetVersion", "cuGetErrorName")


def _with_calls(library: "Any", *names: str) -> "Any":
    """Return a library that has these calls; None for a stub, which is there to link against."""
    return library if all(hasattr(library, name) for name in names) else None


def _says(library: "Any", call: str, *arguments: "Any") -> bool:
    return hasattr(library, call) and not getattr(library, call)(*arguments)


def _add_visible_gpus(gpus: "list[tuple[tuple[int, int], int] | None]", *, describe: bool) -> bool:
    """Append what CUDA would show this process, and say whether that is anything; cuInit would break forks.

    A GPU is its capability and the driver's version, or None if that is unknown, or *describe* is false.
    """
    driver, pid = _driver_library(), os.getpid()
    if driver is None or _used.keys() - {pid}:
        return False
    if version := _used.get(pid):
        gpus += _ask_driver(driver, version)
        return bool(gpus)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    known = _ask_nvml(describe=describe or "GPU-" in (visible or ""))
    if known is None:
        known = [("", None)] * _count_device_files()
    gpus += [gpu for _, gpu in known] if visible is None else _visible(known, visible)
    return bool(gpus)


def _ask_driver(driver: "Any", version: int) -> "list[tuple[tuple[int, int], int] | None]":
    """Return the GPUs of a driver that was started in this process."""
    ctypes = _import("ctypes")
    count, gpus, parts = ctypes.c_int(), list["Any"](), (ctypes.c_int(), ctypes.c_int())
    driver.cuDeviceGetCount(ctypes.byref(count))
    for ordinal in range(count.value):
        asked = zip(parts, (75, 76), strict=True)  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
        told = [_says(driver, "cuDeviceGetAttribute", ctypes.byref(part), of, ordinal) for part, of in asked]
        gpus.append(((parts[0].value, parts[1].value), version) if all(told) else None)
    return gpus


def _visible(gpus: "Sequence[tuple[str, Any]]", names: str) -> "list[tuple[tuple[int, int], int] | None]":
    """Return those of all *gpus* that CUDA_VISIBLE_DEVICES names: up to its first name of none."""
    chosen: "dict[str, Any]" = {}
    for name in map(str.strip, names.split(",")):
        number = name.removeprefix("+")
        number = number[: len(number) - len(number.lstrip("0123456789"))]  # CUDA reads "1st" as 1
        if name.startswith("MIG-"):  # of some GPU, nothing says which
            return [gpu for _, gpu in gpus]
        if number and int(number) < len(gpus):
            found = [gpus[int(number)][1]]
        else:
            found = [gpu for uuid, gpu in gpus if name.startswith("GPU-") and (uuid or name).startswith(name)]
        if not found:
            break
        if (number or name) in chosen:  # CUDA shows none if one is named twice
            return []
        chosen[number or name] = found[0]
    # Numbers are in an order of speed that CUDA alone knows: they may stand for any GPU of the machine.
    if any(map(str.isdecimal, chosen)) and os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        return [gpu for _, gpu in gpus]
    return [*chosen.values()]


def _count_device_files() -> int:
    """Count GPUs where there is no NVML, as on Tegra and WSL systems, and in containers that lack it."""
    try:
        names = os.listdir("/dev")
    except OSError:
        return 0
    numbered = sum(name.startswith("nvidia") and name[6:].isdecimal() for name in names)
    return numbered or int(not {"nvhost-gpu", "nvgpu", "dxg"}.isdisjoint(names))


def _ask_nvml(*, describe: bool) -> "list[tuple[str, Any]] | None":
    """Return each GPU's UUID, and its capability with the driver's version; None where NVML cannot tell."""
    ctypes = _import("ctypes")
    try:
        library = ctypes.CDLL("nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1")
    except OSError:
        return None
    if _with_calls(library, "nvmlInit_v2", "nvmlShutdown") is None:
        return None
    if status := library.nvmlInit_v2():
        return [] if status in _NVML_WITHOUT_DRIVER else None
    count, version, gpu = ctypes.c_uint(), ctypes.c_int(), ctypes.c_void_p()
    uuid, parts = ctypes.create_string_buffer(96), (ctypes.c_int(), ctypes.c_int())
    gpus: "list[tuple[str, Any]]" = []
    try:
        if not _says(library, "nvmlDeviceGetCount_v2", ctypes.byref(count)):
            return None
        versed = describe and _says(library, "nvmlSystemGetCudaDriverVersion_v2", ctypes.byref(version))
        for index in range(count.value):
            held = describe and _says(library, "nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(gpu))
            named = held and _says(library, "nvmlDeviceGetUUID", gpu, uuid, 96)
            asked = "nvmlDeviceGetCudaComputeCapability", gpu, *map(ctypes.byref, parts)
            known = versed and held and _says(library, *asked)
            cc = parts[0].value, parts[1].value
            gpus.append((uuid.value.decode() if named else "", (cc, version.value) if known else None))
        return gpus
    finally:
        library.nvmlShutdown()


def _in_time(question: "Callable[[], bool]") -> bool:
    """Return the answer to a question about devices, False where the driver hangs.

    A thread asks, in 0.1 ms: another process would take 10, and a fork would run every library's handlers.
    One that hangs is left behind as a daemon, which keeps nobody from ending; no other is asked meanwhile.
    Where no thread can start, the caller's asks, however long that takes.
    """
    threading = _import("threading")
    if any(thread.is_alive() for thread in _hanging):
        return False
    answers: "list[bool]" = []

    def ask() -> None:
        try:
            answers.append(question())
        except Exception:
            answers.append(False)

    try:
        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
    except RuntimeError:  # while Python ends, at the process's limit, and in a subinterpreter
        return question()
    thread.join(_ANSWERED)
    if thread.is_alive():
        _hanging[:] = [thread]
    else:
        _wait_for_the_end(thread)
    return any(answers)


def _wait_for_the_end(thread: "Any") -> None:
    """Wait until the system, too, has ended a thread: until then Python 3.12 warns of a fork."""
    time = _import("time")
    for _ in range(1000):
        if not os.path.exists(f"/proc/self/task/{thread.native_id}"):
            break
        time.sleep(0)


# --- the bundle as cuda.core's cache ------------------------------------------------------------


def _cache_class(base: "Any") -> "Any":
    core = _cuda_core()

    class BundleCache(base):  # type: ignore[misc]
        """The wheel's cubins under the keys they were built with."""

        def __init__(self, then: "Any") -> None:
            layer = _layer()
            self._then = then
            self._manifest, self._fresh = layer.manifest(), layer.fresh
            self._units = _read_keys(self._manifest.folder)

        def __getitem__(self, key: "bytes | str") -> bytes:
            found = self._shipped(key)
            if found is None and self._then is not None:
                found = self._then[key]
            if found is None:
                raise KeyError(key)
            return found

        def get(self, key: "bytes | str", default: "Any" = None) -> "Any":
            found = self._shipped(key)
            if found is None and self._then is not None:
                return self._then.get(key, default)
            return default if found is None else found

        def _shipped(self, key: "bytes | str") -> "bytes | None":
            entry = self._entry(key)
            return None if entry is None else _verified(entry)

        def _entry(self, key: "bytes | str") -> "Entry | None":
            """Return what has a key, unless it is not in the wheel variant that is installed."""
            for unit in map(self._units.get, _spellings(key)):
                if unit is not None:
                    entry = self._fresh.get(unit[0]) or _entry(self._manifest, *unit)
                    return None if entry._absent else entry  # noqa: SLF001
            return None

        def __contains__(self, key: "bytes | str") -> bool:
            shipped = self._entry(key) is not None
            return shipped or (self._then is not None and self._then.get(key) is not None)

        __iter__ = __reversed__ = None  # or Python would ask for the keys 0, 1, 2

        def __setitem__(self, key: "bytes | str", value: "Any") -> None:
            if not isinstance(value, core.ObjectCode):  # that is Program.compile storing what it compiled
                self._refuse()
            _spellings(key)
            if self._then is not None:
                self._then[key] = value

        def __len__(self) -> int:
            return len(self._units)

        def _refuse(self, *_given: "Any") -> "NoReturn":
            where = "give a writable cache as cache(then=…)"
            if self._then is not None:
                where = "write to the cache that was given as then"
            raise TypeError(f"the kernels of an installed wheel are read-only: {where}")

        __delitem__ = clear = update = _refuse

    return BundleCache


def _entry(manifest: "_Manifest", name: str, arch: str) -> Entry:
    found = manifest.module(name)
    if found is None or arch not in found.fields:
        _damaged("keys.json", f"it has keys of {name!r} for {arch}, which the manifest lacks")
    return Entry(found, found.fields[arch])


def _spellings(key: "bytes | bytearray | str") -> "tuple[bytes, ...]":
    if isinstance(key, str):
        hexed = len(key) == 64 and all(char in "0123456789abcdef" for char in key.lower())
        return (key.encode(), bytes.fromhex(key)) if hexed else (key.encode(),)
    if not isinstance(key, (bytes, bytearray)):
        raise TypeError(f"cache keys must be bytes or str, got {type(key).__name__}")
    return (bytes(key),)


def _read_keys(folder: str) -> "dict[bytes, tuple[str, str]]":
    """Return unit by key and by program key, the first module's where several share one."""
    body = _checked(_file_data(os.path.join(folder, "keys.json")))
    if body is None:
        _damaged("keys.json", "it does not match its check")
    units: "dict[bytes, tuple[str, str]]" = {}
    programs: "dict[bytes, tuple[str, str]]" = {}
    try:
        for name, by_arch in sorted(_json(b"{" + body, "keys.json")["units"].items()):
            for arch, keys in by_arch.items():
                units.setdefault(bytes.fromhex(keys["key"]), (name, arch))
                if keys["program_key"] is not None:
                    programs.setdefault(bytes.fromhex(keys["program_key"]), (name, arch))
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        _damaged("keys.json", f"it is malformed: {exc!r}", exc)
    return {**programs, **units}


# --- which bundle is looked in ------------------------------------------------------------------


class _Layer:
    """A bundle that is looked in, until it is closed, and the code that stands in for some of its modules."""

    __slots__ = ("folder", "fresh", "manifests", "strict")

    def __init__(
        self, folder: str, manifests: "list[_Manifest]", fresh: "dict[str, Entry]", *, strict: bool
    ) -> None:
        self.folder = folder
        self.manifests = manifests  # one, once it was read
        self.fresh = fresh
        self.strict = strict  # whether the driver may translate nothing

    def manifest(self) -> "_Manifest":
        for known in self.manifests[:1]:
            return known
        if self.manifests is _own[0].manifests and not _looked and _is_editable(self.folder):
            _looked.append(True)
            try:
                notes = _import(f"{__name__}._editable")
                notes.look(_say, CubinError, CubinStaleWarning)
            except CubinError:  # a build that failed is to be told again
                _looked.clear()
                raise
            except (OSError, ValueError, LookupError, TypeError, AttributeError) as exc:
                _looked.clear()
                _unreadable(getattr(exc, "filename", None) or os.path.join(self.folder, "editable.json"), exc)
        read = _Manifest(self.folder)
        self.manifests.append(read)
        return (self.manifests[:1] or [read])[0]  # another thread's, where it was faster

    def close(self) -> None:
        """Look again in what was looked in before."""
        if self in _layers:
            _layers.remove(self)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_raised: object) -> None:
        self.close()


_own: "list[_Layer]" = []
_layers: "list[_Layer]" = []  # what use() put over it, the last one counts
_looked: "list[bool]" = []  # whether an editable install's sources were compared with its kernels


def _layer() -> _Layer:
    if not _own:
        strict = os.environ.get("HATCH_CUBIN_STRICT", "").lower() not in ("", "0", "false")
        _own.append(_Layer(_HERE, [], {}, strict=strict))
    return (_layers[-1:] or _own)[0]


def _manifest() -> "_Manifest":
    return _layer().manifest()


def _code(name: str, given: "Any") -> bytes:
    data = getattr(given, "code", given)
    if data is not given and isinstance(data, str):  # an ObjectCode made of a file
        try:
            return _read(data, _plain_size(data))
        except (OSError, ValueError) as exc:
            why = getattr(exc, "strerror", None) or exc
            raise ValueError(_say(f"the code that stands in for {name!r} is in {data}: {why}")) from exc
    try:
        return bytes(memoryview(data))
    except TypeError:
        what = f"the code that stands in for {name!r} is bytes or a cuda.core ObjectCode, not {given!r:.80}"
        raise TypeError(_say(what)) from None


def _fresh(found: "_Module", data: bytes) -> Entry:
    kind = "cubin" if data.startswith(b"\x7fELF") else "ptx"
    fields = {"arch": "", "kind": kind, "file": "given", "size": len(data), "sha256": _sha256(data)}
    entry = Entry(found, {**fields, "min_driver": 0}, "given to use()", data)
    entry.file = entry.path = ""
    return entry


# --- editable installs, whose files a build may replace -----------------------------------------


def _settled(call: "Callable[[], Any]") -> "Any":
    """Call again where an editable build may just be replacing the files, and keep it from that meanwhile."""
    try:
        return call()
    except CubinError as exc:
        layer = _layer()
        if not (_may_pass(exc) and _is_editable(layer.folder)):
            raise
    time = _import("time")
    deadline = time.monotonic() + _PATIENCE
    while True:
        held = _held_against_builds(layer.folder)
        try:
            layer.manifests.clear()
            return call()
        except CubinError as exc:
            if not _may_pass(exc) or held is not None or time.monotonic() > deadline:
                raise
        finally:
            if held is not None:
                _import("fcntl").flock(held, 8)  # LOCK_UN: a child that was forked meanwhile has it as well
                os.close(held)
        time.sleep(0.005)


def _may_pass(error: CubinError) -> bool:
    """Say whether files look like this while they are replaced: on Windows they are nobody's meanwhile."""
    if isinstance(error, CubinDamagedError):
        return True
    return sys.platform == "win32" and isinstance(error.__cause__, PermissionError)


def _held_against_builds(folder: str) -> "int | None":
    """Return a descriptor that keeps builds from writing; None while one is at it, and without locks."""
    try:
        fcntl = _import("fcntl")
        descriptor = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _is_editable(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, "_editable.py"))


# --- the manifest -------------------------------------------------------------------------------


class _Module:
    """One line of the manifest's modules, checked."""

    __slots__ = (
        *("manifest", "name", "source", "variant", "kernels", "parameters", "options", "entries", "fields"),
        *("chosen", "loaded", "line"),
    )

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
            raise ValueError("a module has a source, and one entry for each arch")
        self.chosen: "dict[tuple[Any, ...], Entry]" = {}
        self.loaded: "dict[str, Any]" = {}  # cuda.core's ObjectCode by digest

    def __reduce__(self) -> "tuple[Any, ...]":
        return _Module, (self.manifest, self.name, self.line)

    @property
    def base(self) -> str:
        """The name without its variant."""
        if not self.variant:
            return self.name
        return self.name[: -1 - sum(len(key) + len(text) + 2 for key, text in self.variant.items())]


class _Manifest:
    """The bundle's index, of which only the lines that are asked for get parsed.

    Lines are sorted as bytes. One check covers all but the modules' lines, and each of those has its own.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._path = os.path.join(folder, "manifest.json")
        self._data = data = _index_data(self._path)
        self._kernels_at = data.find(b"\n")
        self._modules_at = data.find(_MODULES) + len(_MODULES) - 1
        self._tail_at = data.rfind(b"\n},")
        self._modules: "dict[bytes, _Module]" = {}
        self.resolved: "dict[tuple[Any, ...], tuple[_Module, str | None]]" = {}
        if not 0 <= self._kernels_at < self._modules_at <= self._tail_at:
            _damaged(self._path, "it is no manifest")
        self.header = self._read_header()
        self.toolchain = _view(self.header.get("toolchain", {}))

    def __getstate__(self) -> "dict[str, Any]":
        """Return what a pickled entry has of it."""
        large = "blocks", "sources"
        header = {key: value for key, value in self.header.items() if key not in large}
        return {"folder": self.folder, "header": header}

    def _read_header(self) -> "dict[str, Any]":
        head, tail = self._data[: self._modules_at], self._data[self._tail_at :]
        body = _checked(head + tail)
        if body is None:
            _damaged(self._path, "its header does not match its check")
        head = body[: self._kernels_at - _CHECKED].removesuffix(b'"kernels":{')
        fields: "dict[str, Any]" = _json(b"{" + head + tail[3:], self._path)
        if _typed(fields.get("format"), int) > FORMAT:
            what = f"manifest.json has format {fields['format']}, this loader reads up to {FORMAT}"
            raise CubinError(_say(what, fields))
        return fields

    def kernels(self, name: str) -> "list[str]":
        """Return the modules that have a kernel of that name."""
        start = _quoted(name) + b":"
        at = self._first(start, self._kernels_at, self._modules_at - len(_MODULES) + 1)
        line = self._line(at)
        if not line.startswith(start):
            return []
        found = _typed(_json(line[len(start) :].rstrip(b","), self._path), list)
        return [_typed(module, str) for module in found]

    def kernel_names(self) -> "list[str]":
        """Return the names of all kernels."""
        table = self._data[self._kernels_at : self._modules_at - len(_MODULES) + 1]
        return sorted(_json(b"{" + table + b"}", self._path))

    def module(self, name: str) -> "_Module | None":
        """Return one module."""
        found = self._run(_quoted(name) + b":")
        return found[0] if found else None

    def variants(self, base: str) -> "list[_Module]":
        """Return the variants of a source."""
        return [each for each in self._run(_quoted(base)[:-1] + b"[") if each.base == base]

    def everything(self) -> "Iterator[_Module]":
        """Yield every module."""
        at = self._modules_at
        while at < self._tail_at:
            line = self._line(at)
            yield self._parsed(line)
            at += 1 + len(line)

    def _run(self, start: bytes) -> "list[_Module]":
        """Return the modules whose lines begin with *start*.

        The lines around them are checked too: whole neighbours prove that damage hides none.
        """
        at = self._first(start, self._modules_at, self._tail_at)
        if at > self._modules_at:
            self._split(self._line(self._data.rfind(b"\n", self._modules_at, at)))
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
        """Return the line break before the first line that is not below *start*; *high* where all are."""
        while low < high:
            middle = self._data.rfind(b"\n", low, (low + high) // 2 + 1)
            if min(low, middle) < 0:
                _damaged(self._path, "it was changed while it was in use")
            if self._data[middle + 1 : middle + 1 + len(start)] < start:
                low = self._data.find(b"\n", middle + 1)
            else:
                high = middle
        return low

    def _line(self, at: int) -> bytes:
        line: bytes = self._data[at + 1 : self._data.find(b"\n", at + 1)]
        return line

    def _split(self, line: bytes) -> "tuple[bytes, bytes]":
        """Return the name and the fields of a module's line, both as JSON."""
        name, _, fields = line.rstrip(b",").partition(b':{"check":')  # no JSON string can hold that
        body = _checked(b'{"check":' + fields, name)
        if body is None:
            _damaged(self._path, f"the line of {_readable(name)} does not match its check")
        return name, b"{" + body

    def _parsed(self, line: bytes) -> _Module:
        name, fields = self._split(line)
        if name not in self._modules:
            try:
                found = _Module(self, _json(name, self._path), _json(fields, self._path))
            except (KeyError, TypeError, ValueError, AttributeError) as exc:
                _damaged(self._path, f"the line of {_readable(name)} is malformed: {exc!r}", exc)
            return self._modules.setdefault(name, found)
        return self._modules[name]


class _Parts:
    """The bytes of a large manifest, read where they are looked at.

    They are not mapped: if another program cuts a mapped file off, the process that mapped it gets killed.
    """

    def __init__(self, path: str, descriptor: int, status: os.stat_result) -> None:
        self._path, self._descriptor, self._status = path, descriptor, status
        self._recent = 0, b""  # where the bytes that were read last begin, and these

    def __getitem__(self, part: slice) -> bytes:
        start, end, _ = part.indices(self._status.st_size)
        size, (at, known) = max(end - start, 0), self._recent
        if not at <= start <= end <= at + len(known):
            ahead = 2 * _PART if size <= 2 * _PART else 0  # for what is looked at next
            at, known = start, self._read(start, size + ahead)
            if len(known) < size:
                _damaged(self._path, "it was cut off or replaced while it was in use")
            if ahead:
                self._recent = at, known
        return known[start - at : start - at + size]

    def _read(self, at: int, size: int) -> bytes:
        try:
            if not self._is_open():  # to become a daemon, the process closed what it did not know
                self._descriptor = _opened(self._path)
                if not self._is_open():  # it is another file
                    os.close(self._descriptor)
                    return b""
            return os.pread(self._descriptor, size, at)
        except OSError as exc:
            _unreadable(self._path, exc)

    def find(self, what: bytes, start: int = 0) -> int:
        """Return where *what* begins first, as `bytes.find` does."""
        part = _PART
        while start < self._status.st_size:
            if (found := self[start : start + part + len(what) - 1].find(what)) >= 0:
                return start + found
            start, part = start + part, 2 * part
        return -1

    def rfind(self, what: bytes, start: int = 0, end: "int | None" = None) -> int:
        """Return where *what* begins last, as `bytes.rfind` does."""
        end = self._status.st_size if end is None else end
        while end - start >= len(what):
            at = max(start, end - _PART)
            if (found := self[at:end].rfind(what)) >= 0:
                return at + found
            end = at + len(what) - 1
        return -1

    def _is_open(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._descriptor), self._status)
        except OSError:
            return False

    def __del__(self) -> None:
        if self._is_open():
            os.close(self._descriptor)


def _index_data(path: str) -> "Any":
    """Return a manifest's bytes, as parts where they are many: of those few will be looked at."""
    try:
        # As for code, the system has to keep what is open; Windows would let nobody replace it.
        if hasattr(os, "pread") and _READ_WHOLE < _plain_size(path) <= _LARGEST:
            descriptor = _opened(path)
            return _Parts(path, descriptor, os.fstat(descriptor))
    except (OSError, ValueError):
        pass  # and read below, where the reason is told
    return _file_data(path)


# --- files --------------------------------------------------------------------------------------


def _file_data(path: str, size: "int | None" = None) -> bytes:
    """Return a file's bytes, which are *size* by the manifest."""
    try:
        found = _plain_size(path)
        if size is None and found > _LARGEST:
            _damaged(path, f"it has {found} bytes, more than there can be")
        if size is not None and found > size:
            _damaged(path, f"it has {found} bytes, the manifest says {size}")
        return _read(path, found)
    except (FileNotFoundError, NotADirectoryError) as exc:
        return _archived(path, exc)
    except (OSError, ValueError) as exc:
        _unreadable(path, exc)


def _plain_size(path: str) -> int:
    """Return the size of a file that may be opened: a pipe might wait for ever, a device might not end."""
    found = os.stat(path)
    if not _import("stat").S_ISREG(found.st_mode):
        raise ValueError("not a plain file")
    return found.st_size


def _read(path: str, size: int) -> bytes:
    """Return a plain file's bytes, one more than *size* where it has grown."""
    if not size:  # such files of /proc may wait for ever
        return b""
    descriptor, data = _opened(path), b""  # a file object would take longer than the reading
    try:
        while len(data) < size and (part := os.read(descriptor, size + 1 - len(data))):
            data += part
    finally:
        os.close(descriptor)
    return data


def _opened(path: str) -> int:
    return os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))


def _archived(path: str, missing: OSError) -> bytes:
    """Return the bytes of what is no file: in a zip archive only the importer can read."""
    try:
        folder = os.path.dirname(path)
        importers = [importer for place, importer in _companions.values() if place == folder]
        importer = (importers or [globals()["__spec__"].loader])[0]
        if hasattr(importer, "archive"):  # a zip's, whose own path may be relative to a former folder
            importer = type(importer)(folder)
        data: bytes = importer.get_data(path)
    except Exception as exc:
        _unreadable(path, missing if _is_absence(exc) else exc)
    return data


def _is_absence(exc: Exception) -> bool:
    """Say whether an importer has no such file, or reads none; in other words, one is there but broken."""
    if isinstance(exc, OSError):
        return exc.errno is not None and _remedy(exc) is None
    return isinstance(exc, AttributeError)


def _unreadable(path: str, exc: Exception) -> "NoReturn":
    reason, remedy = getattr(exc, "strerror", None) or str(exc) or repr(exc), _remedy(exc)
    if remedy is None:
        _damaged(path, f"it cannot be read ({reason})", exc)
    raise CubinError(_say(f"{path} cannot be read: {reason}; {remedy}")) from exc


def _remedy(exc: Exception) -> "str | None":
    """Say what to do where the system could not read a file; None where the file itself is to blame."""
    errno = _import("errno")
    number = getattr(exc, "errno", None)
    if not number or number in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP):
        return None
    return _remedies().get(number, "that is the system's fault, and says nothing about the package")


def _fault(exc: BaseException) -> "str | None":
    """Say what to do where the system was at fault, as far as its words tell: a linker's have no number."""
    known = _remedies().items()
    return next((remedy for number, remedy in known if os.strerror(number) in str(exc)), None)


def _remedies() -> "dict[int, str]":
    errno = _import("errno")
    return {
        errno.EMFILE: "close files, or raise the limit of open files (ulimit -n)",
        errno.ENFILE: "all processes together have too many files open",
        errno.EACCES: "let this user read it",
        errno.EPERM: "let this user read it",
        errno.EIO: "look after the disk",
        errno.ENOMEM: "there is no memory left",
    }


# --- small things -------------------------------------------------------------------------------


_modules: "dict[str, Any]" = {}  # what was imported
_fork_lock: "list[Any]" = []


def _no_fork() -> "Any":
    """Return a lock that every fork waits for, so that no child waits for what another thread had begun."""
    if not _fork_lock:
        import _thread  # which every interpreter has imported

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
    """Return what follows the check that *data* begins with, None where that check fails."""
    body = data[_CHECKED:]
    return body if data[:_CHECKED] == b'{"check":"%b",' % _sha256(name + body).encode() else None


class _Scan:
    """How the interpreter's own scanner is to read JSON: plainly."""

    strict, object_hook, object_pairs_hook, array_hook = True, None, None, None
    parse_float, parse_int, parse_constant = float, int, float


def _json(data: bytes, file: str) -> "Any":
    try:
        return _loads(str(data, "utf-8"))
    except (ValueError, RecursionError) as exc:
        _damaged(file, f"it is not JSON: {exc}", exc)


def _loads(text: str) -> "Any":
    # The import of json takes four times as long as finding one module among ten thousand. This is the
    # part of it that does the work; where it is missing or unhappy, json itself decides.
    try:
        value, end = _import("_json").make_scanner(_Scan)(text, 0)
        if not text[end:].strip():
            return value
    except (ImportError, AttributeError, TypeError, StopIteration, SystemError, ValueError):
        pass  # private to the interpreter, which may change it
    return _import("json").loads(text)


def _readable(name: bytes) -> str:
    return name.decode("utf-8", "replace")[:80]


def _quoted(name: str) -> bytes:
    try:
        coder = _import("_json")
    except ImportError:
        coder = _import("json.encoder")
    quoted: bytes = coder.encode_basestring(name).encode("utf-8", "surrogatepass")
    return quoted


def _typed(value: "Any", kind: "Callable[..., Any]") -> "Any":
    if type(value) is not kind:
        _damaged("manifest.json", f"it has a {type(value).__name__} where a {kind.__name__} belongs")
    return value


def _view(value: "Any") -> "Mapping[str, Any]":
    return _read_only(_typed(value, dict))


def _text_map(value: "Any") -> "Mapping[str, str]":
    return _view({key: _typed(text, str) for key, text in _typed(value, dict).items()})


def _plain_file(value: "Any") -> str:
    name: str = _typed(value, str)
    if not name or name.startswith(".") or any(char in name for char in "/\\:\0") or not name.isprintable():
        _damaged("manifest.json", f"it names a file outside the bundle: {name!r}")
    return name


def _damaged(file: str, how: str, cause: "BaseException | None" = None) -> "NoReturn":
    what = f"{os.path.join(_layer().folder, file)} is damaged: {how}; reinstall the package"
    raise CubinDamagedError(_say(what)) from cause


def _say(what: str, header: "Mapping[str, Any] | None" = None) -> str:
    """Word an error: what happened, in which package, built with what."""
    known = header or next((manifest.header for manifest in _layer().manifests[:1]), {})
    generator = known.get("generator")
    named = "unknown"
    if isinstance(generator, dict):
        name, version = generator.get("name"), generator.get("version")
        named = f"{name} {version}" if isinstance(name, str) and isinstance(version, str) else named
    return f"{__name__}: {what} (bundle of {named})" if known else f"{__name__}: {what}"
