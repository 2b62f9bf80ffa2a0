"""The script of a compiler process, which runs NVRTC, ptxas and nvJitLink on tasks sent over a pipe.

`compiling/executor.py` runs it, and imports it only for its path and the format of messages. It needs
only `cuda.bindings`, so it starts fast. If a compiler crashes, hangs or takes all memory, it happens in this
process.
"""

from __future__ import annotations

import contextlib
import ctypes
import marshal
import os
import queue
import re
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

# Deep templates need a large stack; unused pages take no memory. The second size is for a small address
# space.
_STACK_BYTES = (256 << 20, 8 << 20)
_HEAP_BYTES = 1 << 30  # for precompiled headers: addresses only, since unused pages take no memory

SCRIPT = __file__  # it is run by its path, without the package

_WINDOW = 1 << 26  # the largest dictionary of a packer, which needs ten times as much memory

# An error at a line of the compiler's own PTX, which the user cannot see.
_REFUSED = re.compile(rb"ptxas application ptx input, line |^ptxas .* on line [0-9]", re.MULTILINE)
_LACKING = b"Unresolved extern"
_ERROR = re.compile(rb"^(?:@E@)?(error +: .*)$", re.MULTILINE)  # as nvlink words it
_LINEINFO = b"--generate-line-info"


class Outcome(NamedTuple):
    """The outcome of a compile: *output* is a cubin, *ptx* the PTX of C++, also if it cannot be assembled."""

    ok: bool
    output: bytes = b""
    log: bytes = b""
    symbols: Mapping[str, str] = {}
    ptx: bytes = b""


def framed(message: dict[str, Any]) -> bytes:
    """Return one message as it is sent: its length, then its bytes."""
    data = marshal.dumps(message)
    return len(data).to_bytes(8, "big") + data


def send(stream: BinaryIO, message: dict[str, Any]) -> None:
    """Write one message."""
    stream.write(framed(message))
    stream.flush()


def receive(stream: BinaryIO) -> dict[str, Any] | None:
    """Read one message; None at the end of the stream, also if the last message is incomplete."""
    size = int.from_bytes(stream.read(8), "big")
    data = stream.read(size)
    if not size or len(data) < size:
        return None
    return marshal.loads(data)  # type: ignore[no-any-return]  # noqa: S302 - both ends are this file


def compile_task(task: dict[str, Any]) -> dict[str, Any]:
    """Compile one task. In its result, `ok` says whether it succeeded, `log` is the compiler's output."""
    start = time.perf_counter()
    run = {"c++": _compile, "lto": _compile, "ptx": _assemble, "link": _link, "xz": _pack}[task["kind"]]
    if _unnamed and task["searches"]:
        run = _compile_unnamed
    shared = _with_precompiled_header(task) if task.get("precompiled_header") and run is _compile else None
    try:
        outcome = shared or run(task)
    except Exception as exc:  # noqa: BLE001 - NVRTC's and nvJitLink's errors share no base class
        outcome = Outcome(ok=False, log=f"{type(exc).__name__}: {exc}".encode())
    seconds = time.perf_counter() - start
    text = outcome.log.rstrip(b"\0").decode("utf-8", "replace").strip()
    return {
        **outcome._asdict(),
        "id": task["id"],
        "log": text,
        "seconds": seconds,
        "shared": shared is not None,
    }


def _with_precompiled_header(task: dict[str, Any]) -> Outcome | None:
    """Compile a task with its headers precompiled; None if a plain compile must be used."""
    with contextlib.suppress(Exception):  # the plain compile works, or reports the problem
        return _precompiled(task)
    return None


def _precompiled(task: dict[str, Any]) -> Outcome | None:
    number, includes, options, rest = task["precompiled_header"]
    head = includes + b"#pragma nv_hdrstop\n"
    if _header.number != number:
        _header.make(number, {**task, "code": head, "options": options, "instantiate": []})
    if _header.path is None:
        return None
    use = [*options, b"--use-pch=" + _header.path, b"--pch-messages=false"]
    outcome = _run({**task, "code": head + rest, "options": use})
    if outcome.ok and not outcome.log.strip(b" \0\n"):
        return outcome._replace(log=_header.log)
    _header.forget()  # other variants of the source will probably fail in the same way
    return None


class _Header:
    """The precompiled header of this process. Only this process can use it, because of its addresses."""

    def __init__(self) -> None:
        self.folder = ""
        self.number: int | None = None
        self.path: bytes | None = None
        self.log = b""
        self._descriptor: int | None = None

    def make(self, number: int, task: dict[str, Any]) -> None:
        """Precompile the headers of a task. If that fails, it raises, or `path` stays None."""
        from cuda.bindings import nvrtc

        self.forget()
        if self.number is None:
            nvrtc.nvrtcSetPCHHeapSize(_HEAP_BYTES)
        self.number = number
        place = os.fsencode(self._place)
        options = [*task["options"], b"--create-pch=" + place, b"--pch-messages=false"]
        try:
            outcome = _run({**task, "options": options}, precompiles=True)
            self.log = outcome.log
            if outcome.ok:
                self._descriptor = os.open(place, os.O_RDONLY)
                self.path = b"/proc/self/fd/%d" % self._descriptor
        finally:
            self._remove()  # only the open file is needed, and it vanishes with this process

    @property
    def _place(self) -> str:
        return os.path.join(self.folder, f"{os.getpid()}.pch")

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._place)

    def forget(self) -> None:
        """Close the precompiled header, which frees its space."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self.path = self._descriptor = None

    def leave(self) -> None:
        """Remove a header that is being made, and the folder if it is empty: the front end may be gone."""
        if self.folder:
            self._remove()
            with contextlib.suppress(OSError):
                os.rmdir(self.folder)


_header = _Header()


def _compile(task: dict[str, Any]) -> Outcome:
    """Compile C++. If ptxas refuses its PTX, compile again with source lines in the PTX."""
    outcome = _run(task)
    if outcome.ok or not outcome.ptx or b"\t.loc\t" in outcome.ptx:
        return outcome
    told = _run({**task, "options": [*task["options"], _LINEINFO]})
    return told if told.ptx and not told.ok else outcome


def _run(task: dict[str, Any], *, precompiles: bool = False) -> Outcome:
    from cuda.bindings import nvrtc

    def call(result: tuple[Any, ...]) -> Any:
        code, *values = result
        if int(code) != 0:
            raise RuntimeError(nvrtc.nvrtcGetErrorString(code)[1].decode())
        return values[0] if values else None

    def text(size: Any, get: Any) -> bytes:
        length: int = call(size(program))
        buffer = bytes(length + 1)  # NVRTC writes into it: never one of the interpreter's shared objects
        call(get(program, buffer))
        return buffer[:length]

    program = call(nvrtc.nvrtcCreateProgram(task["code"], task["name"], 0, [], []))
    try:
        for expression in task["instantiate"]:
            call(nvrtc.nvrtcAddNameExpression(program, expression))
        (status,) = nvrtc.nvrtcCompileProgram(program, len(task["options"]), task["options"])
        log = text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
        if int(status) != 0:
            refused = text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX) if _REFUSED.search(log) else b""
            reason = nvrtc.nvrtcGetErrorString(status)[1]
            return Outcome(ok=False, log=log if log.strip(b" \0\n") else reason, ptx=refused.rstrip(b"\0"))
        if precompiles:
            call(nvrtc.nvrtcGetPCHCreateStatus(program))
            return Outcome(ok=True, log=log)
        size, get = nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN
        if task["kind"] == "lto":
            size, get = nvrtc.nvrtcGetLTOIRSize, nvrtc.nvrtcGetLTOIR
        output = text(size, get)
        ptx = text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX).rstrip(b"\0") if task.get("ptx") else b""
        symbols = {
            expression.decode(): call(nvrtc.nvrtcGetLoweredName(program, expression)).decode()
            for expression in task["instantiate"]
        }
        return Outcome(ok=True, output=output, log=log, symbols=symbols, ptx=ptx)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


# Folders whose numbers are above the limit of open files: their two other names.
_unnamed: dict[int, tuple[str, str]] = {}


def _compile_unnamed(task: dict[str, Any]) -> Outcome:
    """Compile a task with two other names of its folders. If both results are equal, they contain no name."""
    by_number, by_path = (_renamed(task, which) for which in (0, 1))
    outcome = _compile(by_number)
    if outcome.ok and by_path != task and _results(_compile(by_path)) != _results(outcome):
        what = (
            f"the result holds names of folders that take {max(_unnamed) + 1} open files, more than are "
            "allowed here ('ulimit -n 1024' raises that, for containers '--ulimit nofile=1024')"
        )
        return Outcome(ok=False, log=f"fatal: {what}".encode())
    log, ptx = outcome.log, outcome.ptx
    for number, (name, _path) in _unnamed.items():
        shown, meant = f"{name}/".encode(), b"/proc/self/fd/%d/" % number
        log, ptx = log.replace(shown, meant), ptx.replace(shown, meant)
    return outcome._replace(log=log, ptx=ptx)


def _results(outcome: Outcome) -> tuple[bytes, bytes]:
    return outcome.output, outcome.ptx


def _renamed(task: dict[str, Any], which: int) -> dict[str, Any]:
    def renamed(text: bytes) -> bytes:
        return re.sub(rb"^(|--include-path=|--pre-include=)/proc/self/fd/(\d+)", named, text)

    def named(match: re.Match[bytes]) -> bytes:
        names = _unnamed.get(int(match[2]))
        return match[0] if names is None else match[1] + os.fsencode(names[which])

    return {**task, "name": renamed(task["name"]), "options": [*map(renamed, task["options"])]}


class _Assembler:
    """The ptxas that this process runs, one at a time."""

    def __init__(self) -> None:
        self.program = ""
        self.scratch = ""
        self._running: subprocess.Popen[bytes] | None = None
        self._starts = threading.Lock()

    def run(self, task: dict[str, Any]) -> Outcome:
        """Assemble the PTX of a task."""
        # Debug information has the names of these files, and errors have the first: they are always the same.
        os.makedirs(self._folder, exist_ok=True)
        with open(os.path.join(self._folder, "source.ptx"), "wb") as text:
            text.write(task["code"])
        options = [option.decode() for option in task["options"]]
        with self._starts:
            self._running = subprocess.Popen(  # noqa: S603 - the toolkit's own program
                [self.program, *options, "source.ptx", "-o", "source.cubin"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
            )
            running = self._running
        log, _nothing = running.communicate()
        code = running.returncode
        if (
            code < 0 and self._running is not None
        ):  # The front end handles crashes of this process, so it crashes too.
            os.kill(os.getpid(), -code)
        if code:
            return Outcome(ok=False, log=log or b"fatal: ptxas ended with exit code %d" % code)
        with open(os.path.join(self._folder, "source.cubin"), "rb") as cubin:
            return Outcome(ok=True, output=cubin.read(), log=log)

    @property
    def _folder(self) -> str:
        return os.path.join(self.scratch, f"ptxas-{os.getpid()}")

    def leave(self) -> None:
        """End a ptxas that still runs, and remove its files: the front end may be gone."""
        with self._starts:
            if self._running is not None:
                self._running.kill()
                self._running = None
        for name in ("source.ptx", "source.cubin"):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self._folder, name))
        with contextlib.suppress(OSError):
            os.rmdir(self._folder)


_assembler = _Assembler()


def _assemble(task: dict[str, Any]) -> Outcome:
    return _assembler.run(task)


def _link(task: dict[str, Any]) -> Outcome:
    """Link the inputs of a task to a cubin, and to PTX if requested. The PTX must be valid."""
    options = task["options"]
    if twice := _defined_by_lto(task) if task["code"] else []:
        return Outcome(ok=False, log="\n".join(f"Multiple definition of '{name}'" for name in twice).encode())
    outcome = _linked(options, task["inputs"])
    if not outcome.ok or _LACKING in outcome.log:  # nvJitLink only warns about undefined variables
        return outcome._replace(ok=False, symbols=_declarations(task))
    if not task["ptx"]:
        return outcome
    text = _linked([*options, b"-ptx"], task["inputs"])
    if not text.ok:
        return text
    arch = [option for option in options if option.startswith(b"-arch=")]
    assembled = _linked(arch, [("ptx", task["name"], text.output)])
    return outcome._replace(ptx=text.output.rstrip(b"\0")) if assembled.ok else assembled


def _defined_by_lto(task: dict[str, Any]) -> list[str]:
    """Return symbols that both LTO-IR and other inputs define: nvJitLink does not report them.

    LTO-IR has no readable symbols. Its PTX has variables and kernels, but not its own functions. So other
    LTO-IR that calls the functions is linked with it: functions that it does not define are external then.
    """
    arch = [option for option in task["options"] if option.startswith(b"-arch=")]
    probe = {**task, "kind": "lto", "options": [*arch, b"-dlto"], "instantiate": [], "ptx": False}
    compiled = _run(probe)
    inputs = [each for each in task["inputs"] if each[0] == "lto"]
    asked = [*inputs, ("lto", b"probe", compiled.output)]
    outcome = _linked([*task["options"], b"-ptx"], asked) if compiled.ok else compiled
    if not outcome.ok:  # the link reports the problem
        return []
    text = outcome.output.decode("utf-8", "replace")
    lines = {how: "\n".join(line for line in text.splitlines() if line.startswith(how)) for how in _DECLARED}
    twice = []
    for name in (each.decode() for each in task["instantiate"]):
        if re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", lines[".extern"]):
            continue
        is_function = f" {name}();".encode() in task["code"]
        if is_function or re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", lines[".visible"]):
            twice.append(name)
    return twice


def _declarations(task: dict[str, Any]) -> dict[str, str]:
    """Return the declarations of each LTO-IR input, by its name, and under "" those of all together.

    They are read from its PTX, in which undefined symbols are external.
    """
    inputs = [each for each in task["inputs"] if each[0] == "lto"]
    found = {}
    for name, own in [("", inputs), *((each[1].decode(), [each]) for each in inputs)] if inputs else ():
        outcome = _linked([*task["options"], b"-ptx"], own)
        lines = outcome.output.decode("utf-8", "replace").splitlines() if outcome.ok else []
        found[name] = "\n".join(f"{line};" for line in lines if line.startswith(_DECLARED))
    return found


def _linked(options: list[bytes], inputs: list[tuple[str, bytes, bytes]]) -> Outcome:
    """Link inputs, each of which has a kind, a name and its bytes.

    If inputs disagree about a symbol, nvJitLink prints nvlink's error (with LTO, it logs the error), and
    links them anyway.
    """
    with _caught_stderr() as printed:
        outcome = _linked_anyway(options, inputs)
    log = b"" if outcome.ok else outcome.log
    errors = _ERROR.findall(printed + b"\n" + (outcome.log if outcome.ok else b""))
    return outcome._replace(ok=False, log=b"\n".join([*errors, log])) if errors else outcome


@contextlib.contextmanager
def _caught_stderr() -> Iterator[bytearray]:
    """Catch the standard error of libraries in this process, and print it when they are done."""
    printed = bytearray()
    if not hasattr(os, "memfd_create"):  # as on Windows: a library may have separate streams
        yield printed
        return
    before, caught = os.dup(2), os.memfd_create("stderr")
    try:
        os.dup2(caught, 2)
        yield printed
    finally:
        os.dup2(before, 2)
        printed += os.pread(caught, os.fstat(caught).st_size, 0)
        os.close(caught)
        with open(before, "wb") as stream:
            stream.write(printed)


def _linked_anyway(options: list[bytes], inputs: list[tuple[str, bytes, bytes]]) -> Outcome:
    from cuda.bindings import nvjitlink

    handle = nvjitlink.create(len(options), [option.decode() for option in options])
    makes_ptx = b"-ptx" in options

    def log(size: Any, get: Any) -> bytes:
        buffer = bytearray(size(handle))
        if buffer:
            get(handle, buffer)
        return bytes(buffer).rstrip(b"\0")

    try:
        try:
            for kind, name, data in inputs:
                number = getattr(nvjitlink.InputType, _INPUTS[kind])
                nvjitlink.add_data(handle, number, data, len(data), name.decode())
            nvjitlink.complete(handle)
        except nvjitlink.nvJitLinkError as exc:
            said = log(nvjitlink.get_error_log_size, nvjitlink.get_error_log)
            return Outcome(ok=False, log=said or str(exc).encode())
        if makes_ptx:
            output = bytearray(nvjitlink.get_linked_ptx_size(handle))
            nvjitlink.get_linked_ptx(handle, output)
        else:
            output = bytearray(nvjitlink.get_linked_cubin_size(handle))
            nvjitlink.get_linked_cubin(handle, output)
        said = log(nvjitlink.get_info_log_size, nvjitlink.get_info_log)
        errors = log(nvjitlink.get_error_log_size, nvjitlink.get_error_log)
        return Outcome(ok=True, output=bytes(output), log=errors + said)
    finally:
        nvjitlink.destroy(handle)


def _pack(task: dict[str, Any]) -> Outcome:
    return Outcome(ok=True, output=packed(task["code"]))


def packed(data: bytes) -> bytes:
    """Return bytes packed as a block of a bundle: in one call, so that all versions of lzma give the same.

    ImportError if this Python has no lzma.
    """
    import lzma

    window = min(1 << max(len(data) - 1, 1 << 12).bit_length(), _WINDOW)
    how = {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": window}
    return lzma.compress(data, check=lzma.CHECK_CRC32, filters=[how])


_DECLARED = (".extern", ".visible", ".weak")
_INPUTS = {"lto": "LTOIR", "cubin": "CUBIN", "ptx": "PTX", "fatbin": "FATBIN", "library": "LIBRARY"}


def _serve(tasks: queue.SimpleQueue[dict[str, Any]], results: BinaryIO) -> None:
    while True:
        send(results, compile_task(tasks.get()))


def _open_folders(folders: dict[int, str]) -> None:
    """Open folders under these descriptor numbers. Folders above the limit of open files get other names."""
    most = _allow_descriptors(max(folders) + 1)
    for number, folder in folders.items():
        descriptor = os.open(folder, os.O_RDONLY)
        if number < most:
            os.dup2(descriptor, number)
            os.close(descriptor)
        else:
            _unnamed[number] = (f"/proc/self/fd/{descriptor}", folder)


def _allow_descriptors(count: int) -> int:
    """Raise the limit of open files to *count* if that is allowed, and return the limit."""
    import resource  # Windows has neither this module nor such descriptors

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return count
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return count if hard == resource.RLIM_INFINITY else hard


def _limit_memory(size: int) -> None:
    """Limit the memory of this process to *size* and the size of the stack, which is mostly untouched."""
    import resource  # not on Windows: workers there have no limit

    most = size + _STACK_BYTES[0]
    _soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or most < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _start_thread(target: Callable[[], None]) -> None:
    """Start a thread with as large a stack as there is room for."""
    for size in _STACK_BYTES:
        threading.stack_size(size)
        with contextlib.suppress(RuntimeError, MemoryError):
            threading.Thread(target=target, daemon=True).start()
            return
    sys.exit("it cannot start a thread here (ulimit -u, ulimit -v)")


def main() -> None:
    """Serve tasks from standard input until it ends."""
    requests = sys.stdin.buffer
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # the output of compilers must not be mixed with the messages
    setup = receive(requests)
    if setup is None:
        return
    if setup["folders"]:
        _open_folders(setup["folders"])
    sys.path[:] = setup["sys_path"]
    _header.folder = _assembler.scratch = setup["scratch"]
    _assembler.program = setup.get("assembler", "")
    if setup.get("memory"):
        _limit_memory(setup["memory"])
    os.chdir("/")  # debug information holds the working directory
    for library in setup["libraries"]:
        ctypes.CDLL(library)
    tasks: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    _start_thread(lambda: _serve(tasks, results))
    send(results, {"ready": True})
    with contextlib.suppress(ConnectionError):  # the front end has ended without reading all results
        while (task := receive(requests)) is not None:
            tasks.put(task)
    _assembler.leave()
    _header.leave()
    os._exit(0)  # the front end is gone or done: a running compile must not hold the process


if __name__ == "__main__":
    main()
