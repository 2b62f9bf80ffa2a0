# A part of hatch-cubin's loader (Apache-2.0): see __init__.py.
"""cuda.core's `Program`, with the kernels that were compiled when this package was built.

    from mypkg._cubins.core import Program

If the package contains the machine code of a text with its options, `compile("cubin")` returns this machine
code. If the package does not contain this machine code, cuda.core compiles the text at run time, after a
`CompiledAtRunTimeWarning`.
"""

import _thread
import ctypes
import re

import cuda.core

from . import CubinNotFoundError, _part, _retry_during_rebuild, normal_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from . import Entry, _drop_in, _loading
else:
    _drop_in = _part("_drop_in")

__all__ = ["CompiledAtRunTimeWarning", "Program"]

_ARCH = re.compile("sm_([0-9]+)([0-9])([af]?)")


class CompiledAtRunTimeWarning(_drop_in.CompiledAtRunTimeWarning):
    """cuda.core compiles a text now, because the package does not contain its machine code for this GPU."""

    library = "cuda.core"


class _Call(_drop_in.Call):
    """One text with its options and template names."""

    front = "cuda.core"
    warning = CompiledAtRunTimeWarning

    def code_for(self, arch: str) -> "tuple[Entry, bytes]":
        """Return the entry for an arch, and its bytes.

        Raise CubinNotFoundError if the package has no entry of this text for the arch.
        """
        parts = _ARCH.fullmatch(arch)
        if parts is None:
            raise CubinNotFoundError(f"the arch {arch!r} of the call is not the arch of a GPU")
        entry: "Entry" = self.entry_for((int(parts[1]), int(parts[2])), _driver_version())[1]
        if parts[3] and entry.arch != arch:
            raise CubinNotFoundError(f"the package has this text for {entry.arch}, but not for {arch}")
        return entry, _drop_in.read(entry)


class Program:
    """cuda.core's `Program`, which returns the package's machine code for the program's text if there is any.

    The class passes the text to cuda.core only if cuda.core must compile the text, so NVRTC is not needed for
    texts that the package contains. The class is not a subclass of cuda.core's `Program`, because with
    cuda-core 1.2, objects of subclasses can crash the garbage collector.
    """

    def __init__(
        self,
        code: "str | bytes | bytearray",
        code_type: str,
        options: "cuda.core.ProgramOptions | None" = None,
    ) -> None:
        if options is None or isinstance(options, dict):
            options = cuda.core.ProgramOptions(**options or {})
        self._lock = _thread.allocate_lock()
        self._of_cuda_core: "Any" = None
        self._is_closed = False
        self._arguments: "tuple[Any, ...]" = code, code_type, options
        self._is_cuda = _is_name(code_type, "c++")
        if not (self._is_cuda and isinstance(code, str) and isinstance(options, cuda.core.ProgramOptions)):
            self._started()  # wrong arguments are an error

    def compile(
        self,
        target_type: str,
        name_expressions: "Sequence[str | bytes]" = (),
        logs: "Any" = None,
        *,
        cache: "Any" = None,
    ) -> "cuda.core.ObjectCode":
        """Return the package's machine code, or compile the text as cuda.core's method does."""
        names = tuple(name_expressions or ())
        is_wrong = self._is_closed or (names and cache is not None)  # cuda.core refuses both
        found = None if is_wrong else self._find(target_type, names)
        if found is None:
            others = {} if cache is None else {"cache": cache}
            found = self._started().compile(target_type, names, logs, **others)
        return found

    def _find(self, target_type: str, names: "tuple[str | bytes, ...]") -> "cuda.core.ObjectCode | None":
        """Return the package's code for the text. If there is no code, report the reason and return None."""
        code, _, options = self._arguments
        flags = (flag.decode() for flag in options.as_bytes("nvrtc"))
        text = code if isinstance(code, str) else code.decode("utf-8", "replace")
        spelled = {name: name.decode() if isinstance(name, bytes) else str(name) for name in names}
        options_of_key = tuple(flag for flag in flags if not flag.startswith("-arch="))
        call = _Call(text, options_of_key, tuple(spelled.values()))
        entry: "Entry | None" = None
        data = b""
        reason, key = self._why_passed_on(target_type), None
        if not reason:
            reason, key = call.why_not_shipped(), call.key
        if not reason:
            try:
                entry, data = _retry_during_rebuild(lambda: call.code_for(options.arch))
            except CubinNotFoundError as exc:
                reason, key = str(exc), None
                # This ends a cycle, in which cuda.core 1.2 could crash the garbage collector.
                exc.__traceback__ = None
        if entry is not None:
            kernels = entry.kernels
            symbols = {name: kernels.get(normal_name(each), "").encode() for name, each in spelled.items()}
            missing = [each for name, each in spelled.items() if not symbols[name]]
            if not missing:
                is_ptx = entry.kind == "ptx"
                make = cuda.core.ObjectCode.from_ptx if is_ptx else cuda.core.ObjectCode.from_cubin
                return make(data, name=options.name, symbol_mapping=symbols)
            reason = f"the package has code for this text, but not with the kernel {missing[0]}"
        call.report(reason, key)
        return None

    def _why_passed_on(self, target_type: object) -> str:
        if not self._is_cuda:
            return "the text is not CUDA C++"
        return "" if _is_name(target_type, "cubin") else f"the result must be {target_type}, and not a cubin"

    def close(self) -> None:
        """Destroy this program, as cuda.core's method does."""
        with self._lock:
            self._is_closed = True
            if self._of_cuda_core is not None:
                self._of_cuda_core.close()

    @property
    def is_closed(self) -> bool:
        """Whether this program has been closed."""
        return self._is_closed

    def __repr__(self) -> str:
        return "<Program backend='NVRTC'>" if self._of_cuda_core is None else repr(self._of_cuda_core)

    def __getattr__(self, name: str) -> "Any":
        """Return another attribute of cuda.core's program, such as its handle."""
        if name.startswith("_") or not hasattr(cuda.core.Program, name):
            raise AttributeError(f"'Program' object has no attribute {name!r}")
        return getattr(self._started(), name)

    def _started(self) -> "Any":
        """Return cuda.core's program of the text. The first call of this method creates the program."""
        with self._lock:
            if self._of_cuda_core is None:
                self._of_cuda_core = cuda.core.Program(*self._arguments)
                if self._is_closed:
                    self._of_cuda_core.close()
        return self._of_cuda_core


def _is_name(given: object, name: str) -> bool:
    """Return whether the caller gave this name: as text in upper or lower case, or as a member of an enum."""
    return isinstance(given, str) and given.lower() == name


def _driver_version() -> "int | None":
    """Return the driver's version, or None if there is no driver. This call does not start the driver."""
    driver, version = _part("_loading")._driver_library(), ctypes.c_int()
    if driver is None or driver.cuDriverGetVersion(ctypes.byref(version)):
        return None
    return version.value


__build__ = "c8f3d0de63390474"

_drop_in.refuse_other_version(__build__, __file__)
