# A part of hatch-cubin's loader (Apache-2.0): see __init__.py.
"""Load kernels with cuda.core and the driver: `kernel`, `module`, `preload`, `cache`, `is_available`."""

import os
import sys

from . import (
    _NAME,
    _UNSET,
    CubinNotFoundError,
    CubinUnavailableError,
    Entry,
    _check_gpu,
    _check_name,
    _checked,
    _choose,
    _damaged,
    _file_data,
    _gpu,
    _import,
    _json,
    _layer,
    _macro_texts,
    _manifest,
    _message,
    _modules_named,
    _part,
    _reject,
    _resolve,
    _retry_during_rebuild,
    _Value,
    _verified,
    normal_name,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ctypes
    import errno
    import fnmatch
    import threading
    import time
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, NoReturn, TypeAlias

    import cuda.core.utils

    from . import _AnyName, _Device, _KernelName, _Manifest, _Module, _ModuleName

    _Gpu: TypeAlias = tuple[tuple[int, int], int] | None  # capability and driver version, if known
    _Cache: TypeAlias = Any
    _Kernel: TypeAlias = Any
    _ObjectCode: TypeAlias = Any

_ANSWER_SECONDS = 5.0  # the driver's time limit


def _unavailable(what: str) -> CubinUnavailableError:
    return CubinUnavailableError(_message(what))


class Loaded(_Value):
    """A file that `preload` loaded on a device, and its loaded kernels."""

    __module__ = _NAME

    def __init__(self, device: int, entry: Entry, kernels: "tuple[_KernelName, ...]", seconds: float) -> None:
        self.device = device
        self.entry = entry
        self.kernels = kernels
        self.seconds = seconds

    def __repr__(self) -> str:
        entry, path = self.entry, _shown_path(self.entry)
        file = f"module={entry.module!r}, kernels={len(self.kernels)}, path={path!r}, rule={entry.rule!r}"
        return f"Loaded(device={self.device}, {file}, size={entry.size}, seconds={self.seconds:.6f})"


class Preloaded(_Value):
    """The result of `preload`: a `Loaded` for each file on each device, and errors for missing kernels."""

    __module__ = _NAME

    def __init__(self, loaded: "tuple[Loaded, ...]", missing: "tuple[CubinNotFoundError, ...]") -> None:
        self.loaded = loaded
        self.missing = missing

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.loaded, *self.missing)))

    def _contents(self) -> "tuple[Any, ...]":
        return self.loaded, *map(str, self.missing)


def is_available(kernel: "str | None", strict: "bool | None") -> bool:
    for name in ("ctypes", "errno"):  # before the time limit begins
        _import(name)
    kernels: "dict[tuple[_Module, str], bool]" = {}
    if kernel is not None or strict:
        if _manifest().header.get("skipped"):
            return False
        kernels = _matching(("*" if kernel is None else kernel,))
    gpus: "list[_Gpu]" = []
    if not _in_time(lambda: _add_visible_gpus(gpus, describe=bool(kernels))):
        return False
    try:
        for each, kernel_name in kernels:
            for gpu in gpus:
                if gpu is None:  # its capability is unknown
                    return False
                entry = _choose(each, kernel_name, *gpu, strict=strict)
                _ = entry._file_path  # fails if the file is not installed
    except CubinNotFoundError:
        return False
    return True


def translated(
    *,
    cc: "tuple[int, int] | None" = None,
    driver: "int | None" = _UNSET,
    device: "int | _Device | None" = None,
) -> "tuple[Entry, ...]":
    """Return the PTX that the driver would have to translate on a GPU. `use(strict=True)` refuses PTX."""
    _check_gpu(cc, driver, device)
    kernels, (cc, driver) = _matching(("*",)), _gpu(cc, driver, device)
    found: "dict[tuple[_Module, str], Entry]" = {}
    for each, kernel_name in kernels:
        try:
            entry = _choose(each, kernel_name, cc, driver, strict=False)
        except CubinNotFoundError:
            continue
        if entry.kind == "ptx":
            found[each, entry.arch] = entry
    return tuple(found.values())


def _matching(names: "Sequence[str]") -> "dict[tuple[_Module, str], bool]":
    """Return the kernels that match *names*: True if a name without `*` and `?` matches, else False."""
    manifest = _manifest()
    kernels: "dict[tuple[_Module, str], bool]" = {}
    unknown: "list[str]" = []
    for name in names:
        _check_name(name)
        kernel_name = normal_name(name)
        of_kernel, of_module = _modules_named(manifest, name, kernel_name)
        exact = [(each, kernel_name) for each in of_kernel]
        exact += [(each, one) for each in of_module for one in each.kernels]
        alike = [] if exact else _by_pattern(manifest, name, kernel_name)
        if not exact and not alike:
            unknown.append(_part("_debugging").no_such_name(name, manifest))
        kernels.update(dict.fromkeys(exact, True))
        for each in alike:
            kernels.setdefault(each, False)
    if unknown:
        raise CubinNotFoundError("\n".join(dict.fromkeys(unknown)))
    return kernels


def _by_pattern(manifest: "_Manifest", name: str, kernel_name: str) -> "list[tuple[_Module, str]]":
    fnmatchcase = _import("fnmatch").fnmatchcase
    of_module, of_kernel = (each.replace("[", "[[]") for each in (name, kernel_name))  # of variants' names
    return [
        (found, each)
        for found in manifest.everything()
        for each in found.kernels
        if fnmatchcase(found.name, of_module) or fnmatchcase(each, of_kernel)
    ]


_lock = _import("_thread").RLock()  # held while code is loaded
_drivers: "dict[int, int]" = {}  # by process: its driver's version, 0 while the driver starts
_retained: "set[int]" = set()  # devices whose primary contexts must stay alive
_hanging: "list[Any]" = []  # the thread that waits for a hanging driver


def kernel(
    name: "_AnyName",
    *,
    module: "_ModuleName | None" = None,
    variant: "Mapping[str, Any] | None" = None,
    device: "int | _Device | None" = None,
    **macros: "Any",
) -> "_Kernel":
    """Return a cuda.core `Kernel` for the current device, or for *device* (a number or a `Device`)."""
    code, symbol = _retry_during_rebuild(lambda: _load(name, module, variant, macros, device, of_kernel=True))
    return _get_kernel(code, symbol, name)


def module(
    name: "_AnyName",
    *,
    module: "_ModuleName | None" = None,
    variant: "Mapping[str, Any] | None" = None,
    device: "int | _Device | None" = None,
    **macros: "Any",
) -> "_ObjectCode":
    """Return a module as a cuda.core `ObjectCode`, with the names of template instantiations."""
    return _retry_during_rebuild(lambda: _load(name, module, variant, macros, device, of_kernel=False))[0]


def _shown_path(entry: Entry) -> str:
    return entry._file_path if entry.arch else ""  # code from use() is not in a file


def _load(
    name: str, module: "Any", variant: "Any", macros: "dict[str, Any]", device: "Any", *, of_kernel: bool
) -> "tuple[Any, str]":
    found, kernel_name = _resolve(name, module, _macro_texts(variant, macros))
    if of_kernel:
        kernel_name = kernel_name or _part("_debugging").one_kernel(found)
    _, cc, driver = use_device(device)
    entry = _choose(found, kernel_name, cc, driver)
    return _code_of(found, entry), entry.kernels.get(kernel_name or "", "")


def _code_of(found: "_Module", entry: Entry) -> "Any":
    place = _shown_path(entry)
    if entry.block is not None:
        _part("_packs")  # imported before the lock is taken
    with _lock:
        if entry.sha256 not in found.loaded:
            core = _import("cuda.core")
            symbols = {spelled: symbol.encode() for spelled, symbol in entry.kernels.items()}
            data = _verified(entry)
            sys.audit("hatch_cubin.load", _NAME, entry.module, entry.arch, place, entry.sha256)
            try:
                make = core.ObjectCode.from_ptx if entry.kind == "ptx" else core.ObjectCode.from_cubin
                found.loaded[entry.sha256] = make(data, name=found.name, symbol_mapping=symbols)
            except Exception as exc:
                raise _unavailable(f"cuda.core cannot load {entry.file or entry.module}: {exc}") from exc
    return found.loaded[entry.sha256]


def _get_kernel(code: "Any", symbol: str, name: str) -> "Any":
    with _lock:  # the first call makes the driver load the code
        try:
            return code.get_kernel(symbol)
        except Exception as exc:
            raise _unavailable(f"the driver cannot load {name!r}: {exc}") from exc


def preload(*names: str, device: "int | _Device | Sequence[int | _Device] | None" = None) -> Preloaded:
    """Load all kernels or the named kernels now, on the current device or on *device* (or several devices).

    A name of a kernel or module means all its variants, and may contain `*` and `?`. The driver loads the
    kernels completely, as the capture of a CUDA graph requires.
    """
    devices = device if isinstance(device, (list, tuple, range)) else [device]
    if not devices:
        raise ValueError(_message("device must not be empty"))
    preloaded: Preloaded = _retry_during_rebuild(lambda: _preload(names, devices))
    return preloaded


def _preload(names: "Sequence[str]", devices: "Sequence[Any]") -> Preloaded:
    kernels = _matching(names or ("*",))
    plan: "dict[tuple[int, _Module, str], tuple[Entry, list[str]]]" = {}
    missing: "dict[str, CubinNotFoundError]" = {}
    wrong = _layer().strict
    for device in devices:
        chosen, cc, driver = use_device(device)
        for (found, kernel_name), exact in kernels.items():
            try:
                entry = _choose(found, kernel_name, cc, driver)
                _ = entry._file_path
            except CubinNotFoundError as exc:
                missing[str(exc)] = exc
                wrong = wrong or exact
                continue
            file = (int(chosen.device_id), found, entry.sha256)
            plan.setdefault(file, (entry, []))[1].append(kernel_name)
    if missing and (wrong or not plan):
        more = [f"and {len(missing) - 20} more"] * (len(missing) > 20)
        raise CubinNotFoundError("\n".join([*list(missing)[:20], *more]))
    library = _driver_library()
    if not hasattr(library, "cuKernelGetFunction"):
        raise _unavailable("preload() needs a driver of CUDA 12.0 or newer")
    in_order = sorted(plan.items(), key=lambda item: item[1][0].block or "")  # each is unpacked once
    loaded = {file: _load_now(library, file[0], file[1], *what) for file, what in in_order}
    return Preloaded(tuple(loaded[file] for file in plan), tuple(missing.values()))


def _load_now(library: "Any", device: int, found: "_Module", entry: Entry, kernels: "list[str]") -> Loaded:
    perf_counter = _import("time").perf_counter
    began = perf_counter()
    code = _code_of(found, entry)
    handles = [int(_get_kernel(code, entry.kernels[name], name).handle) for name in kernels]
    if why := _load_functions(library, device, handles):
        raise _unavailable(f"the driver cannot load {found.name!r} on CUDA device {device}: {why}")
    return Loaded(device, entry, tuple(kernels), perf_counter() - began)


def _load_functions(driver: "Any", device: int, kernels: "list[int]") -> "str | None":
    """Make the driver load kernels now, not at their first launch. Return an error's name or None.

    The kernels go into the current context if it is on the device, otherwise into the device's primary
    context.
    """
    ctypes = _import("ctypes")
    current, context, function = ctypes.c_int(-1), ctypes.c_void_p(), ctypes.c_void_p()
    driver.cuCtxGetDevice(ctypes.byref(current))  # fails without a current context
    status, pushed = 0, current.value != device
    if pushed:
        status = driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        pushed = not status and not (status := driver.cuCtxPushCurrent_v2(context))
    for kernel in kernels:
        status = status or driver.cuKernelGetFunction(ctypes.byref(function), ctypes.c_void_p(kernel))
        if hasattr(driver, "cuFuncLoad"):  # before CUDA 12.4, cuKernelGetFunction loaded the function
            status = status or driver.cuFuncLoad(function)
    if pushed:
        driver.cuCtxPopCurrent_v2(ctypes.byref(context))
        if device in _retained:
            driver.cuDevicePrimaryCtxRelease_v2(device)
        _retained.add(device)
    return _named_error(driver, status) if status else None


def use_device(device: "Any") -> "tuple[Any, tuple[int, int], int]":
    """Return a device (the current device for None), its capability and the driver's version."""
    by_number = type(device) is int
    if not by_number and device is not None and not hasattr(device, "compute_capability"):
        _reject(TypeError, "device must be a number or a cuda.core Device", device)
    if by_number and device < 0:
        raise ValueError(_message(f"there is no CUDA device {device}"))
    driver = _driver_version()
    try:
        core = _import("cuda.core")
    except Exception as exc:
        raise _unavailable(_no_core("loading kernels needs", exc)) from exc
    try:
        chosen = core.Device(device) if device is None or by_number else device
        major, minor = chosen.compute_capability
    except Exception as exc:
        which = "the current CUDA device" if device is None else f"CUDA device {device}"
        raise _unavailable(f"{which} cannot be used: {exc}") from exc
    return chosen, (int(major), int(minor)), driver


def _no_core(need: str, exc: Exception) -> str:
    hint = " (pip install cuda-core[cu13] or [cu12])" if isinstance(exc, ModuleNotFoundError) else ""
    return f"{need} cuda.core{hint}, which cannot be imported: {exc}"


# --- the driver
_NOT_INITIALIZED = 3
_FORKED = "CUDA was used before this process was forked: start processes with spawn"
_NVML_WITHOUT_DRIVER = (9, 18)  # the driver is not loaded, or its version differs from the libraries'


def _driver_version() -> int:
    """Return the driver's version. Start the driver without cuda.core, which could hang without a device."""
    pid = os.getpid()
    if _drivers.keys() - {pid}:  # the parent process had started the driver
        raise _unavailable(_FORKED)
    return _drivers.get(pid) or _start_driver(pid)


def _start_driver(pid: int) -> int:
    driver = _driver_library()
    if driver is None:
        what = "there is no CUDA driver; find(name, cc=…) needs none"
        try:
            _import("cuda.core")
        except Exception as exc:
            what += f"; {_no_core('kernels also need', exc)}"
        raise _unavailable(what)
    ctypes = _import("ctypes")
    count, version = ctypes.c_int(), ctypes.c_int()
    _drivers.setdefault(pid, 0)
    status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    status = status or driver.cuDriverGetVersion(ctypes.byref(version))
    if not status and count.value:
        _drivers[pid] = found = int(version.value)
        return found
    if not _drivers[pid]:
        _drivers.pop(pid, None)
    if status:
        why = f"; perhaps {_FORKED}" * (status == _NOT_INITIALIZED)
        raise _unavailable(f"the CUDA driver cannot be used: {_named_error(driver, status)}{why}")
    raise _unavailable("the CUDA driver finds no device")


def _named_error(driver: "Any", status: int) -> str:
    ctypes = _import("ctypes")
    text = ctypes.c_char_p()
    driver.cuGetErrorName(status, ctypes.byref(text))
    return f"{(text.value or b'error').decode()} ({status})"


def _driver_library() -> "Any":
    try:
        library = _import("ctypes").CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except (OSError, ImportError) as exc:
        is_missing = os.strerror(_import("errno").ENOENT) in str(exc)  # errno is not set
        if is_missing or isinstance(exc, FileNotFoundError):
            return None
        raise _unavailable(f"the CUDA driver cannot be loaded: {exc}") from exc
    calls = "cuInit", "cuDeviceGetCount", "cuDriverGetVersion", "cuGetErrorName"
    return library if all(hasattr(library, call) for call in calls) else None  # None for a stub library


def _succeeds(library: "Any", call: str, *arguments: "Any") -> bool:
    return hasattr(library, call) and not getattr(library, call)(*arguments)


def _add_visible_gpus(gpus: "list[_Gpu]", *, describe: bool) -> bool:
    """Append the GPUs that CUDA would show, without cuInit (it breaks forks). Return whether any exist."""
    driver, pid = _driver_library(), os.getpid()
    if driver is None or _drivers.keys() - {pid}:
        return False
    if version := _drivers.get(pid):
        gpus += _ask_driver(driver, version)
        return bool(gpus)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    known = _ask_nvml(describe=describe or "GPU-" in (visible or ""))
    if known is None:
        known = [("", None)] * _count_device_files()
    gpus += [gpu for _, gpu in known] if visible is None else _visible(known, visible)
    return bool(gpus)


def _ask_driver(driver: "Any", version: int) -> "list[_Gpu]":
    ctypes = _import("ctypes")
    count, gpus, parts = ctypes.c_int(), list["Any"](), (ctypes.c_int(), ctypes.c_int())
    driver.cuDeviceGetCount(ctypes.byref(count))
    for ordinal in range(count.value):
        queries = zip(parts, (75, 76), strict=True)  # the attributes for the compute capability
        known = [
            _succeeds(driver, "cuDeviceGetAttribute", ctypes.byref(part), of, ordinal) for part, of in queries
        ]
        gpus.append(((parts[0].value, parts[1].value), version) if all(known) else None)
    return gpus


def _visible(gpus: "Sequence[tuple[str, Any]]", names: str) -> "list[_Gpu]":
    chosen: "dict[str, Any]" = {}
    for name in map(str.strip, names.split(",")):
        number = name.removeprefix("+")
        number = number[: len(number) - len(number.lstrip("0123456789"))]  # CUDA reads "1st" as 1
        if name.startswith("MIG-"):  # a part of an unknown GPU
            return [gpu for _, gpu in gpus]
        if number and int(number) < len(gpus):
            found = [gpus[int(number)][1]]
        else:
            found = [gpu for uuid, gpu in gpus if name.startswith("GPU-") and (uuid or name).startswith(name)]
        if not found:
            break
        if (number or name) in chosen:  # CUDA shows no GPUs if one is named twice
            return []
        chosen[number or name] = found[0]
    # Numbers are in an order of speed that only CUDA knows, so they may mean any GPU.
    if any(map(str.isdecimal, chosen)) and os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        return [gpu for _, gpu in gpus]
    return [*chosen.values()]


def _count_device_files() -> int:
    """Count GPUs without NVML, as on Tegra and WSL systems and in some containers."""
    try:
        names = os.listdir("/dev")
    except OSError:
        return 0
    numbered = sum(name.startswith("nvidia") and name[6:].isdecimal() for name in names)
    return numbered or int(not {"nvhost-gpu", "nvgpu", "dxg"}.isdisjoint(names))


def _ask_nvml(*, describe: bool) -> "list[tuple[str, Any]] | None":
    ctypes = _import("ctypes")
    try:
        library = ctypes.CDLL("nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1")
    except OSError:
        return None
    if not hasattr(library, "nvmlInit_v2"):
        return None
    if status := library.nvmlInit_v2():
        return [] if status in _NVML_WITHOUT_DRIVER else None
    ref = ctypes.byref
    count, version, gpu = ctypes.c_uint(), ctypes.c_int(), ctypes.c_void_p()
    uuid, parts = ctypes.create_string_buffer(96), (ctypes.c_int(), ctypes.c_int())
    gpus: "list[tuple[str, Any]]" = []
    try:
        if not _succeeds(library, "nvmlDeviceGetCount_v2", ref(count)):
            return None
        has_version = describe and _succeeds(library, "nvmlSystemGetCudaDriverVersion_v2", ref(version))
        for index in range(count.value):
            has_handle = describe and _succeeds(library, "nvmlDeviceGetHandleByIndex_v2", index, ref(gpu))
            has_uuid = has_handle and _succeeds(library, "nvmlDeviceGetUUID", gpu, uuid, 96)
            query = "nvmlDeviceGetCudaComputeCapability", gpu, *map(ref, parts)
            known = has_version and has_handle and _succeeds(library, *query)
            cc = parts[0].value, parts[1].value
            gpus.append((uuid.value.decode() if has_uuid else "", (cc, version.value) if known else None))
        return gpus
    finally:
        library.nvmlShutdown()


def _in_time(question: "Callable[[], bool]") -> bool:
    """Return the answer to a question about devices, or False if the driver hangs.

    A daemon thread asks the driver, so that Python can exit while the driver hangs.
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
    except RuntimeError:  # for example because Python is exiting
        return question()
    thread.join(_ANSWER_SECONDS)
    _hanging[:] = [thread] if thread.is_alive() else []
    for _ in range(1000):  # Python 3.12 warns about forks until the thread has ended
        if _hanging or not os.path.exists(f"/proc/self/task/{thread.native_id}"):
            break
        _import("time").sleep(0)
    return any(answers)


# --- cuda.core's cache
def cache(then: "_Cache | None" = None) -> "_Cache":
    """Return the bundle as a read-only cuda.core `ProgramCacheResource`. *then*: the cache for other code."""
    try:
        base = _import("cuda.core.utils").ProgramCacheResource
    except Exception as exc:
        raise _unavailable(_no_core("cache() needs", exc)) from exc
    if then is not None and not isinstance(then, base):
        _reject(TypeError, "cache(then) takes a ProgramCacheResource such as FileStreamProgramCache", then)
    return _cache_class(base)(then)


def _cache_class(base: "Any") -> "Any":
    core = _import("cuda.core")

    class BundleCache(base):  # type: ignore[misc]
        def __init__(self, then: "Any") -> None:
            layer = _layer()
            self._then = then
            self._manifest, self._replaced = layer._manifest(), layer.replaced
            self._units = _read_keys(self._manifest.folder)

        def __getitem__(self, key: "bytes | str") -> "Any":
            entry = self._entry(key)
            if entry is not None:
                return _verified(entry)
            if self._then is None:
                raise KeyError(key)
            return self._then[key]

        def get(self, key: "bytes | str", default: "Any" = None) -> "Any":
            entry = self._entry(key)
            if entry is not None:
                return _verified(entry)
            return default if self._then is None else self._then.get(key, default)

        def _entry(self, key: "bytes | str") -> "Entry | None":
            """Return the entry for a key, or None if the installed wheel does not have the entry."""
            for name, arch in filter(None, map(self._units.get, _spellings(key))):
                found = self._manifest.module(name)
                if found is None or arch not in found.fields:
                    _damaged("keys.json", f"the manifest does not have {name!r} for {arch}")
                entry = self._replaced.get(name) or Entry(found, found.fields[arch])
                return None if entry._absent else entry
            return None

        def __contains__(self, key: "bytes | str") -> bool:
            return self._entry(key) is not None or (
                self._then is not None and self._then.get(key) is not None
            )

        __iter__ = __reversed__ = None  # otherwise Python looks up 0, 1, 2

        def __setitem__(self, key: "bytes | str", value: "Any") -> None:
            if not isinstance(value, core.ObjectCode):  # Program.compile may store its results
                self._refuse()
            _spellings(key)
            if self._then is not None:
                self._then[key] = value

        def __len__(self) -> int:
            return len(self._units)

        def _refuse(self, *_given: "Any") -> "NoReturn":
            raise TypeError(
                "the kernels of a wheel are read-only: write to the cache that cache(then=…) was given"
            )

        __delitem__ = clear = update = _refuse

    return BundleCache


def _spellings(key: "bytes | bytearray | str") -> "tuple[bytes, ...]":
    if isinstance(key, str):
        hexed = len(key) == 64 and not key.lower().strip("0123456789abcdef")
        return (key.encode(), bytes.fromhex(key)) if hexed else (key.encode(),)
    if not isinstance(key, (bytes, bytearray)):
        raise TypeError(f"cache keys must be bytes or str, got {type(key).__name__}")
    return (bytes(key),)


def _read_keys(folder: str) -> "dict[bytes, tuple[str, str]]":
    """Return the module and arch of each key: the first module if several modules share a key."""
    body = _checked(_file_data(os.path.join(folder, "keys.json")))
    if body is None:
        _damaged("keys.json", "it does not match its checksum")
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


__build__ = "c8f3d0de63390474"
