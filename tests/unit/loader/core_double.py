"""A stand-in for the parts of cuda.core that compile. All else is cuda.core's own."""

from __future__ import annotations

import types
from typing import Any

import cuda.core


def make() -> Any:
    """Return a module with the names of cuda.core. Its list *compiled* has what `Program` compiled."""
    core = types.ModuleType("cuda.core")
    core.__dict__.update(vars(cuda.core))
    started, compiled = list[Any](), list[Any]()

    class Program:
        def __init__(self, code: Any, code_type: str, options: Any = None) -> None:
            if not isinstance(code, str if code_type == "c++" else bytes) or not isinstance(
                options, cuda.core.ProgramOptions
            ):
                raise TypeError("Expected type str")
            started.append(code)
            self.code, self.options, self.is_destroyed = code, options, False

        @property
        def backend(self) -> str:
            return f"{'no ' if self.is_destroyed else ''}NVRTC"

        def compile(
            self, target_type: str, name_expressions: Any = (), logs: Any = None, *, cache: Any = None
        ) -> Any:
            if self.is_destroyed:
                raise RuntimeError("Program has been closed")
            if name_expressions and cache is not None:
                raise ValueError("cache= does not support name_expressions=")
            compiled.append((self.code, target_type, name_expressions, cache))
            if logs is not None:
                logs.write("compiled")
            return cuda.core.ObjectCode.from_cubin(b"compiled", name=self.options.name)

        def close(self) -> None:
            self.is_destroyed = True

        def __repr__(self) -> str:
            return f"<Program of {self.backend}>"

    core.__dict__.update(Program=Program, compiled=compiled, started=started)
    return core
