"""A stand-in for CuPy, with the parts that `loader/cupy.py` uses.

`test_cupy.py` compares the stand-in with the real CuPy if this environment has it.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from hatch_cubin.loader._text_key import text_key

TEXT = "template <class T> __global__ void k() {}\n" + 'extern "C" __global__ void saxpy() {}\n'
KERNELS = {"k<int>": "_Z1kIiEvv", "saxpy": "saxpy"}
SYMBOLS = ("_Z1kIiEvv", "_Z1kIfEvv", "saxpy")


class DriverError(RuntimeError):
    """CuPy raises such an error if there is no device, or if a module does not have a symbol."""


class Function:
    def __init__(self, module: Module, symbol: str) -> None:
        self.module, self.symbol, self.ptr = module, symbol, 1
        self.launches: list[Any] = []

    def __call__(self, *launch: Any, **more: Any) -> None:
        self.launches.append((launch, more))


class Module:
    """A module that the driver loaded. All bytes have the same kernels."""

    def __init__(self) -> None:
        self.data = b""
        self.mapping: dict[str, str] | None = None

    def load(self, data: bytes) -> None:
        self.data = data

    def _set_mapping(self, mapping: dict[str, str] | None) -> None:
        self.mapping = mapping

    def get_function(self, name: str) -> Function:
        if name not in SYMBOLS:
            raise DriverError(f"CUDA_ERROR_NOT_FOUND: {name}")
        return Function(self, name)

    def get_global_var(self, _name: str) -> int:
        return id(self)


class Runtime:
    """The calls of `cupy.cuda.runtime`, and the state that they answer with."""

    is_hip = False

    def __init__(self) -> None:
        self.device: int | None = 0
        self.driver = 13000

    def getDevice(self) -> int:  # noqa: N802
        if self.device is None:
            raise DriverError("cudaErrorInsufficientDriver")
        return self.device

    def getDeviceCount(self) -> int:  # noqa: N802
        return 2

    def driverGetVersion(self) -> int:  # noqa: N802
        return self.driver


class Device:
    CAPABILITIES = ("90", "80")

    def __init__(self, number: int) -> None:
        self.compute_capability = self.CAPABILITIES[number]


def make() -> Any:  # noqa: C901 - it defines the classes of a module
    """Return a module with the names of CuPy. Its list *compiled* has what CuPy compiled."""
    cupy = types.ModuleType("cupy")
    runtime, compiled, memo = Runtime(), list[Any](), dict[Any, Module]()

    def compile_once(code: str, options: tuple[str, ...], names: Any, log_stream: Any) -> Module:
        key = runtime.getDevice(), code, options, names
        if key not in memo:
            compiled.append((code, options, names))
            if log_stream is not None:
                log_stream.write("compiled")
            memo[key] = module = Module()
            if names:
                module._set_mapping({name: f"_Z1kI{name[2]}Evv" for name in names})
        return memo[key]

    class RawKernel:
        def __init__(
            self,
            code: str,
            name: str,
            options: tuple[str, ...] = (),
            backend: str = "nvrtc",
            *,
            translate_cucomplex: bool = False,
            enable_cooperative_groups: bool = False,
            jitify: bool = False,
        ) -> None:
            if not isinstance(options, tuple):
                raise TypeError("Argument 'options' has incorrect type")
            self.code, self.name, self.options, self.backend = code, name, options, backend
            self.__name__, self.file_path = name, None
            self.enable_cooperative_groups = enable_cooperative_groups
            self._names: Any = None
            self._cache: dict[int, Function] = {}

        kernel = property(lambda self: self._kernel())
        num_regs = property(lambda self: self.kernel.ptr)

        def __call__(self, grid: Any, block: Any, args: Any, **more: Any) -> None:
            cooperative = self.enable_cooperative_groups
            self.kernel(grid, block, args, enable_cooperative_groups=cooperative, **more)

        def _kernel(self, log_stream: Any = None) -> Function:
            device = runtime.getDevice()
            if device not in self._cache:
                module = compile_once(self.code, self.options, self._names, log_stream)
                self._cache[device] = module.get_function(self.name)
            return self._cache[device]

        def compile(self, log_stream: Any = None) -> None:
            self._cache = {}
            self._kernel(log_stream=log_stream)

    class RawModule:
        def __init__(
            self,
            *,
            code: str | None = None,
            path: str | None = None,
            options: tuple[str, ...] = (),
            backend: str = "nvrtc",
            translate_cucomplex: bool = False,
            enable_cooperative_groups: bool = False,
            name_expressions: Any = None,
            jitify: bool = False,
        ) -> None:
            if (code is None) == (path is None) or not isinstance(options, tuple):
                raise TypeError("Exactly one of `code` and `path` keyword arguments must be given.")
            self.code, self.file_path, self.options, self.backend = code, path, options, backend
            self.name_expressions = None if name_expressions is None else tuple(name_expressions)
            self.enable_cooperative_groups = enable_cooperative_groups

        module = property(lambda self: self._module())

        def _module(self, log_stream: Any = None) -> Module:
            if self.code is None:
                return Module()
            return compile_once(self.code, self.options, self.name_expressions, log_stream)

        def compile(self, log_stream: Any = None) -> None:
            self._module(log_stream)

        def get_function(self, name: str) -> RawKernel:
            if self.name_expressions:
                name = self.module.mapping.get(name, name)
            kernel = RawKernel(self.code or "", name, self.options, self.backend)
            kernel._names = self.name_expressions
            _ = kernel.kernel if self.code else None
            return kernel

        def get_global(self, name: str) -> Any:
            return self.module, self.module.get_global_var(name)

    for made in (RawKernel, RawModule):
        made.__module__, made.__qualname__ = "cupy", made.__name__
    function = types.SimpleNamespace(Module=Module, Function=Function)
    cuda = types.SimpleNamespace(runtime=runtime, Device=Device, function=function)
    cupy.__dict__.update(RawKernel=RawKernel, RawModule=RawModule, cuda=cuda, compiled=compiled)
    cupy.__dict__.update(__version__="14.2.0")
    return cupy


def units(*archs: str, text: str = TEXT, options: tuple[str, ...] = (), front: str = "cupy") -> list[Any]:
    """Return a text's units for these archs (default: one for each device)."""
    from tests.helpers import made  # lazy: a session of its own imports the stand-in

    base = text_key(front, options, text)
    return [made(base, arch, KERNELS) for arch in archs or ("sm_80", "sm_90")]


def files(
    *built: Any, make: Callable[..., dict[str, bytes]] | None = None, front: str = "cupy"
) -> dict[str, bytes]:
    """Return the files of a bundle in which calls of CuPy, or of another library, find these units."""
    from hatch_cubin.bundle import manifest
    from tests.helpers import bundle

    found = (make or bundle)(*(built or units(front=front)), fronts=[front])
    header, _, modules = manifest.split_manifest(found["manifest.json"])
    lines = [manifest.module_line(f"{front}:{key}", line) for key, line in modules.items()]
    found["manifest.json"] = b"".join(manifest.write_manifest(header, {}, lines))
    return found
