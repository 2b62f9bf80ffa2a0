# A part of hatch-cubin's loader (Apache-2.0): see __init__.py.
"""CuPy's `RawModule` and `RawKernel`, with the kernels that were compiled when this package was built.

    from mypkg._cubins.cupy import RawModule

If the package contains a text with its options, its machine code is loaded. Otherwise CuPy compiles the text,
after a `CompiledAtRunTimeWarning`.
"""

import os
import sys
import warnings

import cupy

from . import (
    _NAME,
    CubinError,
    CubinNotFoundError,
    _choose,
    _import,
    _manifest,
    _message,
    _part,
    _retry_during_rebuild,
    _verified,
    normal_name,
)
from . import __build__ as _build_of_core

TYPE_CHECKING = False
if TYPE_CHECKING:
    import hashlib
    import json
    from collections.abc import Callable, Mapping
    from typing import Any

    from . import Entry, _Module, _text_key

__all__ = ["CompiledAtRunTimeWarning", "RawKernel", "RawModule"]

_FRONT = "cupy"
_RECORD = "HATCH_CUBIN_RECORD"
_record_at_import = os.environ.get(_RECORD)  # tests may empty the environment later
# What these classes use of CuPy, besides RawModule and RawKernel themselves.
_NEEDED = (
    "RawKernel._kernel",
    "RawModule._module",
    "cuda.Device",
    "cuda.function.Module._set_mapping",
    "cuda.function.Module.get_function",
    "cuda.function.Module.load",
    "cuda.runtime.driverGetVersion",
    "cuda.runtime.getDevice",
)


def _missing_in_cupy() -> str:
    for name in _NEEDED:
        found = cupy
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is None:
            return f"CuPy {getattr(cupy, '__version__', '')} does not have {name}"
    return ""


_lacking = _missing_in_cupy()


class CompiledAtRunTimeWarning(UserWarning):
    """CuPy compiles a text now, because the package does not contain its machine code for this GPU."""

    def __init__(
        self, front: str, text: str, options: "tuple[str, ...]", names: "tuple[str, ...]", reason: str = ""
    ) -> None:
        super().__init__(front, text, options, names, reason)
        self.front = front
        self.text = text
        self.options = options
        self.names = names
        self.reason = reason

    def __str__(self) -> str:
        begin = next((line.strip() for line in self.text.splitlines() if line.strip()), "")
        what = f"{_NAME}: CuPy compiles CUDA code at run time, because {self.reason or 'it must'}"
        names = f", for {', '.join(self.names)}"[:160] * bool(self.names)
        return f"{what} (options {list(self.options)}{names}, code {begin!r:.60})"


def _is_on(variable: str) -> bool:
    return os.environ.get(variable, "").lower() not in ("", "0", "false", "no", "off")


class _Call:
    """One text with its options, and the functions that were found for it on each device."""

    def __init__(
        self,
        arguments: "Mapping[str, Any]",
        code: str,
        options: "tuple[str, ...]",
        names: "tuple[str, ...]",
        compiled: "Callable[[str], Any]",
    ) -> None:
        self.arguments = arguments
        self.code = code
        self.options = options
        self.names = names
        self.compiled = compiled  # returns CuPy's own kernel
        self.is_shipped: "bool | None" = None  # unknown until the first use
        self._keys: "list[str | None]" = []
        self.modules: "dict[int, tuple[Any, Mapping[str, str]] | None]" = {}
        self.functions: "dict[tuple[int, str], tuple[str, Any]]" = {}

    def function(self, name: str, log_stream: "Any" = None) -> "tuple[str, Any]":
        """Return the symbol and the loaded function of a kernel on the current device."""
        if self.is_shipped is None:  # the first use: without a device too, the text is looked up
            self._look_up()
        device = cupy.cuda.runtime.getDevice()
        found = self.functions.get((device, name))
        if found is None or log_stream is not None:
            found = self.functions[device, name] = self._find(device, name, log_stream)
        return found

    def module(self) -> "Any":
        """Return the loaded module on the current device, or None if CuPy must compile it."""
        if self.is_shipped is None:
            self._look_up()
        loaded = self._load(cupy.cuda.runtime.getDevice())
        if loaded is None:
            return None
        module, kernels = loaded
        missing = [name for name in self.names if normal_name(name) not in kernels]
        if missing:  # all kernels of a module share its variables
            self._leave_to_cupy(missing[0])
            return None
        return module

    def _find(self, device: int, name: str, log_stream: "Any") -> "tuple[str, Any]":
        loaded = self._load(device)
        if loaded is not None:
            module, kernels = loaded
            symbol = kernels.get(normal_name(name)) if name in self.names else name
            if symbol is not None:
                return symbol, module.get_function(symbol)
            self._leave_to_cupy(name)
        kernel = self.compiled(name)
        if log_stream is not None:
            kernel.compile(log_stream)
        return kernel.name, kernel.kernel

    def _leave_to_cupy(self, name: str) -> None:
        self.report(f"the package's code of this text does not have {name}", self.key)
        self.is_shipped = False
        self.modules.clear()
        self.functions.clear()

    def _look_up(self) -> None:
        """Find out whether the package has the text, and report if it has not."""
        if reason := self._why_passed_on():
            self.report(reason)
        elif reason := _retry_during_rebuild(self._why_not_shipped):
            self.report(reason, self.key)
        self.is_shipped = not reason

    def _why_passed_on(self) -> str:
        reasons = {
            _lacking: _lacking,
            "CUPY_CUDA_COMPILE_WITH_DEBUG is set": _is_on("CUPY_CUDA_COMPILE_WITH_DEBUG"),
            "CuPy uses HIP": getattr(cupy.cuda.runtime, "is_hip", False),
            "its backend is not nvrtc": self.arguments.get("backend", "nvrtc") != "nvrtc",
            "it uses jitify": self.arguments.get("jitify") or "-DCUPY_USE_JITIFY" in self.options,
            "CuPy translates cuComplex in it": self.arguments.get("translate_cucomplex"),
        }
        return next((reason for reason, holds in reasons.items() if holds), "")

    def _why_not_shipped(self) -> str:
        if _is_on("HATCH_CUBIN_SKIP"):
            return "HATCH_CUBIN_SKIP is set"
        if self.key is None:
            return "one of its options is not among the options of compiled texts"
        if _manifest().module(f"{_FRONT}:{self.key}") is None:
            return f"the package does not have this text with these options (key {self.key[:12]})"
        return ""

    @property
    def key(self) -> "str | None":
        """The key of the text and the options, or None if no key has one of the options."""
        if not self._keys:
            try:
                self._keys.append(_part("_text_key").text_key(_FRONT, self.options, self.code))
            except ValueError:
                self._keys.append(None)
        return self._keys[0]

    def _load(self, device: int) -> "tuple[Any, Mapping[str, str]] | None":
        """Return the loaded module and its kernels' symbols, or None after a report."""
        if self.is_shipped and device not in self.modules:
            capability = divmod(int(cupy.cuda.Device(device).compute_capability), 10)
            try:
                found, entry, data = _retry_during_rebuild(lambda: self._code_for(capability, device))
            except CubinNotFoundError as exc:
                self.report(str(exc))
                self.modules[device] = None
            else:
                self.modules[device] = self._loaded(found, entry, data, device), entry.kernels
        return self.modules.get(device)

    def _code_for(self, capability: "tuple[int, int]", device: int) -> "tuple[_Module, Entry, bytes | None]":
        """Return the module, its entry for a GPU, and its bytes if they are not loaded yet."""
        found = _manifest().module(f"{_FRONT}:{self.key}")
        if found is None:
            raise CubinNotFoundError("the package does not have this text any more")
        entry = _choose(found, None, capability, cupy.cuda.runtime.driverGetVersion())
        is_loaded = self._identity(entry, device) in found.loaded
        return found, entry, None if is_loaded else _verified(entry)

    def _identity(self, entry: "Entry", device: int) -> "Any":
        """Return what two calls have in common if CuPy would load one module for both."""
        return device, entry.sha256, self.options, self.names, self.arguments.get("enable_cooperative_groups")

    def _loaded(self, found: "_Module", entry: "Entry", data: "bytes | None", device: int) -> "Any":
        identity = self._identity(entry, device)
        if data is None:
            return found.loaded[identity]
        place = "" if not entry.arch else entry._file_path
        sys.audit("hatch_cubin.load", _NAME, entry.module, entry.arch, place, entry.sha256)
        module = cupy.cuda.function.Module()
        module.load(data)
        symbols = {name: entry.kernels.get(normal_name(name)) for name in self.names}
        module._set_mapping({name: symbol for name, symbol in symbols.items() if symbol} or None)
        return found.loaded.setdefault(identity, module)  # another thread may have been faster

    def report(self, reason: str, key: "str | None" = None) -> None:
        """Warn that CuPy compiles this text, or raise an error if nothing may be compiled.

        *key*: the key under which a build could compile the text, if this would have changed the result.
        """
        warning = CompiledAtRunTimeWarning(_FRONT, self.code, self.options, self.names, reason)
        for folder in filter(None, {_record_at_import, os.environ.get(_RECORD)}):
            _record(folder, warning, key)
        if _is_on("HATCH_CUBIN_NO_COMPILE"):
            raise CubinNotFoundError(f"{warning}; HATCH_CUBIN_NO_COMPILE is set")
        warnings.warn(warning, stacklevel=_depth_of_caller())


def _depth_of_caller() -> int:
    """Return the stack level at which `warnings.warn` finds the first frame outside this file."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_code.co_filename == __file__ and frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
    return depth


def _record(folder: str, warning: CompiledAtRunTimeWarning, key: "str | None") -> None:
    """Write a call into a folder, under a name that only this call has."""
    fields = {**vars(warning), "key": key, "package": _NAME}
    data = _import("json").dumps(fields, sort_keys=True).encode()
    path = os.path.join(folder, f"{_import('hashlib').sha256(data).hexdigest()}.json")
    if not os.path.exists(path):
        unfinished = f"{path}.{os.getpid()}.{_import('_thread').get_ident()}"
        with open(unfinished, "wb") as file:
            file.write(data)
        os.replace(unfinished, path)


class RawModule(cupy.RawModule):  # type: ignore[misc]
    """CuPy's `RawModule`, which loads the package's machine code if the package contains the text."""

    def __init__(self, **arguments: "Any") -> None:
        super().__init__(**arguments)
        self._call = None if self.code is None else _call_of_module(self, arguments)

    def __reduce__(self) -> "tuple[Any, ...]":
        return _restored_module, (type(self), self._arguments)

    @property
    def _arguments(self) -> "dict[str, Any]":
        return {"path": self.file_path} if self._call is None else dict(self._call.arguments)

    def get_function(self, name: str) -> "Any":
        """Return a kernel, as CuPy's method does."""
        if self._call is None:
            return super().get_function(name)
        if _lacking:
            self._call.report(_lacking)
            return super().get_function(name)
        symbol, _ = self._call.function(name)
        return _kernel_of_module(self._call, name, symbol)

    def _module(self, log_stream: "Any" = None) -> "Any":
        found = None if self._call is None else self._call.module()
        return super()._module(log_stream) if found is None else found


class RawKernel(cupy.RawKernel):  # type: ignore[misc]
    """CuPy's `RawKernel`, which loads the package's machine code if the package contains the text."""

    def __init__(
        self, code: str, name: str, options: "tuple[str, ...]" = (), backend: str = "nvrtc", **others: "Any"
    ) -> None:
        super().__init__(code, name, options, backend, **others)
        arguments = {"backend": backend, **others}
        self._name = name  # of a kernel in a module: as get_function() got it
        self._call = _Call(
            arguments, code, options, (), lambda name: cupy.RawKernel(code, name, options, **arguments)
        )

    def __reduce__(self) -> "tuple[Any, ...]":
        call = self._call
        if "code" in call.arguments:
            return _restored_kernel_of_module, (dict(call.arguments), self._name, self.name)
        return _restored_kernel, (type(self), (self.code, self.name, self.options), dict(call.arguments))

    def __call__(self, grid: "Any", block: "Any", args: "Any", **kwargs: "Any") -> None:
        """Launch the kernel, as CuPy's method does."""
        if _lacking:
            self._call.report(_lacking)
        super().__call__(grid, block, args, **kwargs)

    def _kernel(self, log_stream: "Any" = None) -> "Any":
        return self._call.function(self._name, log_stream)[1]


def _call_of_module(module: RawModule, arguments: "Mapping[str, Any]") -> _Call:
    names = module.name_expressions or ()
    arguments = {**arguments, "name_expressions": module.name_expressions}  # an iterator can be read once
    return _Call(
        arguments,
        module.code,
        module.options,
        names,
        lambda name: cupy.RawModule(**arguments).get_function(name),
    )


def _kernel_of_module(call: _Call, name: str, symbol: str) -> RawKernel:
    flags = "backend", "translate_cucomplex", "enable_cooperative_groups", "jitify"
    given = {flag: call.arguments[flag] for flag in flags if flag in call.arguments}
    kernel = RawKernel.__new__(RawKernel)
    cupy.RawKernel.__init__(kernel, call.code, symbol, call.options, **given)
    kernel._name, kernel._call = name, call
    return kernel


def _restored_module(kind: "type[RawModule]", arguments: "dict[str, Any]") -> RawModule:
    module = kind.__new__(kind)
    RawModule.__init__(module, **arguments)
    return module


def _restored_kernel_of_module(arguments: "dict[str, Any]", name: str, symbol: str) -> RawKernel:
    call = _call_of_module(cupy.RawModule(**arguments), arguments)
    return _kernel_of_module(call, name, symbol)


def _restored_kernel(
    kind: "type[RawKernel]", positional: "tuple[Any, ...]", others: "dict[str, Any]"
) -> RawKernel:
    kernel = kind.__new__(kind)
    RawKernel.__init__(kernel, *positional, **others)
    return kernel


__build__ = "7372429ee2d7b55a"

if __build__ != _build_of_core:
    what = f"{__file__} is missing, damaged, or of another version than the imported loader"
    raise CubinError(_message(f"{what}: restart the process"))
