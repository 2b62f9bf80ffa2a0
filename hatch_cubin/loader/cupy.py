# A part of hatch-cubin's loader (Apache-2.0): see __init__.py.
"""CuPy's `RawModule` and `RawKernel`, with the kernels that were compiled when this package was built.

    from mypkg._cubins.cupy import RawModule

If the package contains machine code for a text with the same options, this code is loaded. CuPy compiles all
other texts, after a `CompiledAtRunTimeWarning`.
"""

import cupy

from . import CubinNotFoundError, _part, _retry_during_rebuild, normal_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from . import Entry, _drop_in, _Module
else:
    _drop_in = _part("_drop_in")

__all__ = ["CompiledAtRunTimeWarning", "RawKernel", "RawModule"]

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


class CompiledAtRunTimeWarning(_drop_in.CompiledAtRunTimeWarning):
    """CuPy compiles a text now, because the package does not contain its machine code for this GPU."""

    library = "CuPy"


class _Call(_drop_in.Call):
    """One text with its options, and the functions that were found for it on each device."""

    front = "cupy"
    warning = CompiledAtRunTimeWarning

    def __init__(
        self,
        arguments: "Mapping[str, Any]",
        code: str,
        options: "tuple[str, ...]",
        names: "tuple[str, ...]",
        compiled: "Callable[[str], Any]",
    ) -> None:
        super().__init__(code, options, names)
        self.arguments = arguments
        self.compiled = compiled  # returns CuPy's own kernel
        self.is_shipped: "bool | None" = None  # unknown until the first use
        self.modules: "dict[int, tuple[Any, Mapping[str, str]] | None]" = {}
        self.functions: "dict[tuple[int, str], tuple[str, Any]]" = {}

    def function(self, name: str, log_stream: "Any" = None) -> "tuple[str, Any]":
        """Return the symbol and the loaded function of a kernel on the current device."""
        self.look_up()
        device = cupy.cuda.runtime.getDevice()
        found = self.functions.get((device, name))
        if found is None or log_stream is not None:
            found = self.functions[device, name] = self._find(device, name, log_stream)
        return found

    def module(self) -> "Any":
        """Return the loaded module on the current device, or None if CuPy must compile it."""
        self.look_up()
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
        self.report(f"the package has code for this text, but not with the kernel {name}", self.key)
        self.is_shipped = False
        self.modules.clear()
        self.functions.clear()

    def look_up(self) -> None:
        """At the first use, look for the text in the package, and report the text if it is missing."""
        if self.is_shipped is not None:
            return
        if reason := self._why_passed_on():
            self.report(reason)
        elif reason := self.why_not_shipped():
            self.report(reason, self.key)
        self.is_shipped = not reason

    def _why_passed_on(self) -> str:
        reasons = {
            _lacking: _lacking,
            "CUPY_CUDA_COMPILE_WITH_DEBUG is set": _drop_in.is_on("CUPY_CUDA_COMPILE_WITH_DEBUG"),
            "CuPy uses HIP": getattr(cupy.cuda.runtime, "is_hip", False),
            "the call has another backend than nvrtc": self.arguments.get("backend", "nvrtc") != "nvrtc",
            "the call uses jitify": self.arguments.get("jitify") or "-DCUPY_USE_JITIFY" in self.options,
            "the call sets translate_cucomplex, so CuPy changes the text": self.arguments.get(
                "translate_cucomplex"
            ),
        }
        return next((reason for reason, holds in reasons.items() if holds), "")

    def _load(self, device: int) -> "tuple[Any, Mapping[str, str]] | None":
        """Return the loaded module and its kernels' symbols, or None if CuPy has to compile the text."""
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
        """Return the module, its entry for a GPU, and the entry's bytes (None if they are already loaded)."""
        found, entry = self.entry_for(capability, cupy.cuda.runtime.driverGetVersion())
        is_loaded = self._identity(entry, device) in found.loaded
        return found, entry, None if is_loaded else _drop_in.read(entry)

    def _identity(self, entry: "Entry", device: int) -> "Any":
        """Return a value that identifies a loaded module: calls with equal values share one module."""
        return device, entry.sha256, self.options, self.names, self.arguments.get("enable_cooperative_groups")

    def _loaded(self, found: "_Module", entry: "Entry", data: "bytes | None", device: int) -> "Any":
        identity = self._identity(entry, device)
        if data is None:
            return found.loaded[identity]
        module = cupy.cuda.function.Module()
        module.load(data)
        symbols = {name: entry.kernels.get(normal_name(name)) for name in self.names}
        module._set_mapping({name: symbol for name, symbol in symbols.items() if symbol} or None)
        return found.loaded.setdefault(identity, module)  # another thread may have been faster


class RawModule(cupy.RawModule):  # type: ignore[misc]
    """CuPy's `RawModule`, which loads the package's machine code for the module's text if there is any."""

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

    def compile(self, log_stream: "Any" = None) -> None:
        """Load or compile the module on all devices, as CuPy's method does."""
        if self._call is not None:
            self._call.look_up()  # a call is recorded without a device too
        super().compile(log_stream)

    def _module(self, log_stream: "Any" = None) -> "Any":
        found = None if self._call is None else self._call.module()
        return super()._module(log_stream) if found is None else found


class RawKernel(cupy.RawKernel):  # type: ignore[misc]
    """CuPy's `RawKernel`, which loads the package's machine code for the kernel's text if there is any."""

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

    def compile(self, log_stream: "Any" = None) -> None:
        """Load or compile the kernel on all devices, as CuPy's method does."""
        self._call.look_up()
        super().compile(log_stream)

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
    cupy.RawKernel.__init__(kernel, call.text, symbol, call.options, **given)
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


__build__ = "c8f3d0de63390474"

_drop_in.refuse_other_version(__build__, __file__)
