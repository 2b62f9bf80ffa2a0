"""The script of a worker process, which receives tasks over a pipe and runs NVRTC, ptxas and nvJitLink.

`compiling/executor.py` starts this file as a script, and imports the file only for its path and the message
format. The worker script imports only `cuda.bindings`, so the script starts fast. If a compiler crashes,
hangs or takes all memory, only the worker process is affected, and the build continues.
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

# Stack sizes for threads. The first size is large, because deeply nested templates need much stack; unused
# pages take no memory. A thread gets the second size if the address space is too small for the first size.
_STACK_BYTES = (256 << 20, 8 << 20)
# When a Python without a GIL starts, its allocator reserves this many bytes; unused pages take no memory.
_RESERVED_BYTES = (1 << 30) * ("t" in getattr(sys, "abiflags", ""))
_HEAP_BYTES = 1 << 30  # the size of the heap for precompiled headers; unused pages take no memory

SCRIPT = __file__  # executor.py starts the script by its path, without importing hatch_cubin

# In bytes: the largest dictionary for compression; the compression needs ten times as much memory.
_WINDOW = 1 << 26

# The form of ptxas's messages about a line of PTX that NVRTC has generated. After such a message, the task is
# compiled again with source lines, because the user cannot see the generated PTX.
_REFUSED = re.compile(rb"ptxas application ptx input, line |^ptxas .* on line [0-9]", re.MULTILINE)
_LACKING = b"Unresolved extern"
_ERROR = re.compile(rb"^(?:@E@)?(error +: .*)$", re.MULTILINE)  # the form of an error message of nvlink
_LINEINFO = b"--generate-line-info"


class Outcome(NamedTuple):
    """The outcome of a compile.

    *output* contains the cubin. *ptx* contains the PTX, also after ptxas has rejected the PTX.
    """

    ok: bool
    output: bytes = b""
    log: bytes = b""
    symbols: Mapping[str, str] = {}
    ptx: bytes = b""


def framed(message: dict[str, Any]) -> bytes:
    """Encode a message for the pipe between build and worker: the message's length, then its bytes."""
    data = marshal.dumps(message)
    return len(data).to_bytes(8, "big") + data


def send(stream: BinaryIO, message: dict[str, Any]) -> None:
    """Write one message to a pipe."""
    stream.write(framed(message))
    stream.flush()


def receive(stream: BinaryIO) -> dict[str, Any] | None:
    """Read one message from a pipe; return None at the end of the stream, or after an incomplete message."""
    size = int.from_bytes(stream.read(8), "big")
    data = stream.read(size)
    if not size or len(data) < size:
        return None
    return marshal.loads(data)  # type: ignore[no-any-return]  # noqa: S302 - only this file writes to the pipe


def compile_task(task: dict[str, Any]) -> dict[str, Any]:
    """Compile one task.

    The returned dict contains `ok` (whether the compile succeeded) and the compiler's `log`.
    """
    start = time.perf_counter()
    run = _runner(task["kind"])
    if _unnamed and task["searches"]:
        run = _compile_unnamed
    shared = _with_precompiled_header(task) if task.get("precompiled_header") and run is _compile else None
    try:
        outcome = shared or run(task)
    except Exception as exc:  # noqa: BLE001 - the errors of NVRTC and nvJitLink do not share a base class
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


def _runner(kind: str) -> Callable[[dict[str, Any]], Outcome]:
    """Return the function that runs tasks of a kind."""
    return {
        "c++": _compile,
        "lto": _compile,
        "tile": _compile_tile,
        "ptx": _assemble,
        "tileir": _assemble,
        "link": _link,
        "xz": _pack,
    }[kind]


def _with_precompiled_header(task: dict[str, Any]) -> Outcome | None:
    """Compile a task with precompiled headers; return None if the task must be compiled without them."""
    # After an error with a precompiled header, a compile without it works or reports the problem.
    with contextlib.suppress(Exception):
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
    _header.forget()  # the precompiled header would probably fail for other variants of the source too
    return None


class _Header:
    """The precompiled header of this worker process, which thus compiles the same headers only once.

    A precompiled header contains memory addresses, so no other process can use it.
    """

    def __init__(self) -> None:
        self.folder = ""
        self.number: int | None = None
        self.path: bytes | None = None
        self.log = b""
        self._descriptor: int | None = None

    def make(self, number: int, task: dict[str, Any]) -> None:
        """Precompile the headers of a task (a compile that the build has sent to this process).

        The method sets the attribute `path` to the path of the precompiled header, or to None if NVRTC
        reports an error in the headers.
        """
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
            self._remove()  # NVRTC needs only the open file, which disappears when this process ends

    @property
    def _place(self) -> str:
        return os.path.join(self.folder, f"{os.getpid()}.pch")

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._place)

    def forget(self) -> None:
        """Close the file of the precompiled header; the file is deleted, so closing frees its disk space."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self.path = self._descriptor = None

    def leave(self) -> None:
        """Remove an incomplete precompiled header, and its folder if the folder is empty.

        The worker itself removes its files, because the build process may have ended before it could remove
        them.
        """
        if self.folder:
            self._remove()
            with contextlib.suppress(OSError):
                os.rmdir(self.folder)


_header = _Header()


def _compile(task: dict[str, Any]) -> Outcome:
    """Compile C++; if ptxas rejects the generated PTX, compile again with source lines in the PTX."""
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
        # NVRTC writes into this bytes object, so the interpreter must not share the object
        buffer = bytes(length + 1)
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
        if task["kind"] == "tile":
            size, get = nvrtc.nvrtcGetTileIRSize, nvrtc.nvrtcGetTileIR
        output = text(size, get)
        ptx = text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX).rstrip(b"\0") if task.get("ptx") else b""
        symbols = {
            expression.decode(): call(nvrtc.nvrtcGetLoweredName(program, expression)).decode()
            for expression in task["instantiate"]
        }
        return Outcome(ok=True, output=output, log=log, symbols=symbols, ptx=ptx)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


# The folders whose number cannot be their file descriptor, because the number is above the limit of open
# files. The keys are these numbers. The values are other names of each folder: a path with another
# descriptor, and the folder's real path.
_unnamed: dict[int, tuple[str, str]] = {}


def _compile_unnamed(task: dict[str, Any]) -> Outcome:
    """Compile a task twice, each time with different names for the task's folders.

    If both results are equal, the result does not depend on the folders' names.
    """
    by_number, by_path = (_renamed(task, which) for which in (0, 1))
    run = _runner(task["kind"])
    outcome = run(by_number)
    if outcome.ok and by_path != task and _results(run(by_path)) != _results(outcome):
        what = (
            f"the compile needs {max(_unnamed) + 1} open files, which is more than the limit, "
            "because hatch-cubin opens each folder to keep the folder's name out of the compiled code: "
            "use 'ulimit -n 1024', or '--ulimit nofile=1024' for containers"
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
    """Runs ptxas and tileiras for the tasks of this worker process, one task after another."""

    def __init__(self) -> None:
        self.programs = {"ptx": "", "tileir": ""}
        self.scratch = ""
        self._running: subprocess.Popen[bytes] | None = None
        self._starts = threading.Lock()

    def run(self, kind: str, code: bytes, options: list[bytes]) -> Outcome:
        """Assemble PTX with ptxas, or Tile IR with tileiras."""
        # The names of these files never change, because debug information and error messages contain the
        # names.
        os.makedirs(self._folder, exist_ok=True)
        with open(os.path.join(self._folder, f"source.{kind}"), "wb") as text:
            text.write(code)
        with self._starts:
            self._running = subprocess.Popen(  # noqa: S603 - the toolkit's own program
                [self.programs[kind], *map(bytes.decode, options), f"source.{kind}", "-o", "source.cubin"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                env=self._environment(),
            )
            running = self._running
        log, _nothing = running.communicate()
        status = running.returncode
        # If the program crashed, this process exits with the same signal, because the build already handles
        # crashes of workers.
        if status < 0 and self._running is not None:
            os.kill(os.getpid(), -status)
        if status:
            name = os.path.basename(self.programs[kind])
            return Outcome(ok=False, log=log or f"fatal: {name} ended with exit code {status}".encode())
        with open(os.path.join(self._folder, "source.cubin"), "rb") as cubin:
            return Outcome(ok=True, output=cubin.read(), log=log)

    def _environment(self) -> dict[str, str]:
        """Return the environment variables for a program, without the variables that would change its result.

        tileiras reads CUDA_HOME, and writes its temporary files into a folder that a variable names.
        """
        own = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
        return {**own, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), self._folder)}

    @property
    def _folder(self) -> str:
        return os.path.join(self.scratch, f"assembler-{os.getpid()}")

    def leave(self) -> None:
        """Kill a ptxas process that is still running, and remove the files of this process.

        The worker itself removes its files, because the build process may have ended before it could remove
        them.
        """
        with self._starts:
            if self._running is not None:
                self._running.kill()
                self._running = None
        with contextlib.suppress(OSError):
            for name in os.listdir(self._folder):  # a killed tileiras leaves temporary files
                os.unlink(os.path.join(self._folder, name))
            os.rmdir(self._folder)


_assembler = _Assembler()


def _assemble(task: dict[str, Any]) -> Outcome:
    return _assembler.run(task["kind"], task["code"], task["options"])


def _compile_tile(task: dict[str, Any]) -> Outcome:
    """Compile C++ with tile kernels to Tile IR, and Tile IR to a cubin."""
    outcome = _run(task)
    if not outcome.ok:
        return outcome
    made = _assembler.run("tileir", outcome.output, task["tile_flags"])
    return made._replace(log=outcome.log.rstrip(b"\0") + made.log, symbols=outcome.symbols, ptx=outcome.ptx)


def _link(task: dict[str, Any]) -> Outcome:
    """Link the inputs of a task to a cubin, and also to PTX if the task requests PTX.

    The linked PTX is assembled once, to check that the PTX is valid.
    """
    options = task["options"]
    if twice := _defined_by_lto(task) if task["code"] else []:
        return Outcome(ok=False, log="\n".join(f"Multiple definition of '{name}'" for name in twice).encode())
    outcome = _linked(options, task["inputs"])
    # an undefined variable is an error, although nvJitLink only warns about it
    if not outcome.ok or _LACKING in outcome.log:
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
    """Return the symbols that LTO-IR and another input both define. nvJitLink does not report such symbols.

    The symbols of LTO-IR cannot be read directly. The PTX made from LTO-IR shows variables and kernels, but
    not functions. To find functions that the LTO-IR defines, the LTO-IR is linked with a probe, which is code
    that calls every function of the other inputs. In the PTX that results from the link, each called function
    that the LTO-IR does not define is declared as `.extern`.
    """
    arch = [option for option in task["options"] if option.startswith(b"-arch=")]
    probe = {**task, "kind": "lto", "options": [*arch, b"-dlto"], "instantiate": [], "ptx": False}
    compiled = _run(probe)
    inputs = [each for each in task["inputs"] if each[0] == "lto"]
    asked = [*inputs, ("lto", b"probe", compiled.output)]
    outcome = _linked([*task["options"], b"-ptx"], asked) if compiled.ok else compiled
    if not outcome.ok:  # the link of all inputs will report the same problem
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
    """Map the name of each LTO-IR input to the declarations in the PTX that is made from the input.

    The name "" stands for all inputs together, linked into one PTX.

    The linker makes PTX from the LTO-IR, because PTX, unlike LTO-IR, shows a declaration with `.extern` for
    each undefined symbol.
    """
    inputs = [each for each in task["inputs"] if each[0] == "lto"]
    found = {}
    for name, own in [("", inputs), *((each[1].decode(), [each]) for each in inputs)] if inputs else ():
        outcome = _linked([*task["options"], b"-ptx"], own)
        lines = outcome.output.decode("utf-8", "replace").splitlines() if outcome.ok else []
        found[name] = "\n".join(f"{line};" for line in lines if line.startswith(_DECLARED))
    return found


def _linked(options: list[bytes], inputs: list[tuple[str, bytes, bytes]]) -> Outcome:
    """Link *inputs*; each input consists of a kind, a name and bytes.

    If two inputs declare a symbol differently, nvJitLink succeeds, although it writes an error of nvlink to
    stderr (or, in a link with LTO, to the log). This function makes the link fail if stderr or the log
    contains an error of nvlink.
    """
    with _caught_stderr() as printed:
        outcome = _linked_anyway(options, inputs)
    log = b"" if outcome.ok else outcome.log
    errors = _ERROR.findall(printed + b"\n" + (outcome.log if outcome.ok else b""))
    return outcome._replace(ok=False, log=b"\n".join([*errors, log])) if errors else outcome


@contextlib.contextmanager
def _caught_stderr() -> Iterator[bytearray]:
    """Collect the standard error of libraries in this process, and print it after the `with` block."""
    printed = bytearray()
    # On Windows, the standard error of a library may differ from that of this process.
    if not hasattr(os, "memfd_create"):
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
    """Return *data* compressed with xz, in a single call, so that all versions of lzma give the same bytes.

    Raise ImportError if this Python does not have the module lzma.
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
    """Open folders under fixed file descriptors: *folders* maps each file descriptor to a folder.

    If the limit of open files is too low for one of the file descriptors in *folders*, the function stores
    two paths of this descriptor's folder in `_unnamed`. For folders in `_unnamed`, `_compile_unnamed`
    compiles twice, each time with a different path of the folder, and compares the results.
    """
    most = _allow_descriptors(max(folders) + 1)
    for number, folder in folders.items():
        descriptor = os.open(folder, os.O_RDONLY)
        if number < most:
            os.dup2(descriptor, number)
            os.close(descriptor)
        else:
            _unnamed[number] = (f"/proc/self/fd/{descriptor}", folder)


def _allow_descriptors(count: int) -> int:
    """Raise the limit of open files to *count*, or as high as the system allows; return the new limit."""
    import resource  # Windows does not have the module resource, and does not need these file descriptors

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return count
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return count if hard == resource.RLIM_INFINITY else hard


def _limit_memory(size: int) -> None:
    """Limit the memory of this process to *size* bytes plus the sizes reserved for stack and allocator."""
    import resource  # Windows does not have this module, so the memory of workers is not limited there

    most = size + _STACK_BYTES[0] + _RESERVED_BYTES
    _soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard == resource.RLIM_INFINITY or most < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _start_thread(target: Callable[[], None]) -> None:
    """Start a thread with the large stack, or with the small stack if the address space is too small."""
    for size in _STACK_BYTES:
        threading.stack_size(size)
        with contextlib.suppress(RuntimeError, MemoryError):
            threading.Thread(target=target, daemon=True).start()
            return
    sys.exit("the compiler process cannot start a thread: check the limits 'ulimit -u' and 'ulimit -v'")


def main() -> None:
    """Read tasks from standard input and run the tasks, until standard input ends."""
    requests = sys.stdin.buffer
    results = os.fdopen(os.dup(1), "wb")
    # The output of compilers goes to standard error, so that the output does not mix with the messages.
    os.dup2(2, 1)
    setup = receive(requests)
    if setup is None:
        return
    if setup["folders"]:
        _open_folders(setup["folders"])
    sys.path[:] = setup["sys_path"]
    _header.folder = _assembler.scratch = setup["scratch"]
    _assembler.programs = {"ptx": setup.get("assembler", ""), "tileir": setup.get("tile_assembler", "")}
    if setup.get("memory"):
        _limit_memory(setup["memory"])
    os.chdir("/")  # a fixed working folder, because debug information contains the path of the working folder
    for library in setup["libraries"]:
        ctypes.CDLL(library)
    tasks: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    _start_thread(lambda: _serve(tasks, results))
    send(results, {"ready": True})
    with contextlib.suppress(ConnectionError):  # the build process has ended without reading all results
        while (task := receive(requests)) is not None:
            tasks.put(task)
    _assembler.leave()
    _header.leave()
    os._exit(0)  # the process exits at once, because a running compile must not delay the exit


if __name__ == "__main__":
    main()
