"""Hints for sources and headers with host code, because NVRTC compiles only device code."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...config.toml_lines import setting as written
from ...project.source import without_comments
from ...toolkit.requirements import device_runtime
from ..diagnostics import Diagnostic, Explanation
from .failed_compile import FailedCompile
from .include_chain import Step

SEPARATE_THE_KERNELS = (
    "move the kernels into a separate file, or put the host code between #ifndef __CUDACC_RTC__ and #endif"
)
_ONLY_DEVICE = f"this is host code, but NVRTC compiles only device code: {SEPARATE_THE_KERNELS}"
_ONLY_HOSTS = (
    "only host code can contain this line: remove the line from the kernels; "
    f"or, if the line is in a host function, {SEPARATE_THE_KERNELS}"
)
_OF_TOOLKIT = re.compile(
    r"<(?:nvrtc|cuda)\b"
    # Matches headers of the CUDA toolkit. Those for device code compile without an extra option.
)
_UNANNOTATED = re.compile(r"A function without execution space annotations")
_VARIABLE = re.compile(r"variable without memory space annotations|static data member with non-const type")
_LAUNCHES = re.compile(r"kernel launch could not be processed")
_OF_RUNTIME = re.compile(r'identifier "cuda')
_OF_C = r"v?(?:f|sn?)printf|f(?:open|close|flush|puts|write|read)|std(?:in|out|err)|puts|getenv"
_CALLS = re.compile(
    r"explicitly marked as a __host__ function|kernel launch could not be processed"
    r'|namespace "std" has no member "(?:c(?:out|err)|endl|map|mutex|[io]?stringstream|runtime_error|string'
    r"|thread|unordered_(?:map|set)|vector|unique_ptr|shared_ptr|make_(?:unique|shared)|function|set|deque|list"
    r"|queue|stack|future|async|to_string|sto[idfl]|exception|invalid_argument|logic_error|out_of_range|cin"
    r'|[io]?fstream|getline|random_device)"'
    r'|identifier "(?:cuda(?:Malloc|Free|Mem|Stream|Event|Device|Get|Set|Launch|Func)\w*|std::\w+|at::\w+)"'
    rf'|identifier "(?:{_OF_C})"'
)

# Matches code that only host functions contain.
_OF_HOSTS = re.compile(
    r"<<<|\bint\s+main\s*\(|\bcuda(?:Malloc|Free|Mem|Stream|Event|Device|Get|Set|Launch|Func)\w*\s*\("
    r"|\bstd\s*::\s*(?:cout|cerr|string|vector|map|thread|unique_ptr|shared_ptr|runtime_error)\b|\b(?:torch|at|py)::"
)

# For each library that has only headers for host code: the folders and names of these headers.
_LIBRARIES = {
    "PyTorch": "torch/ ATen/ c10/",
    "pybind11": "pybind11/",
    "nanobind": "nanobind/",
    "Python": "Python.h",
    "NumPy": "numpy/",
    "TensorFlow": "tensorflow/",
    "TVM": "tvm/",
    "JAX": "jax/ jaxlib/",
    "XLA": "xla/",
    "GCC": "bits/",
    "MPI": "mpi.h",
    "NCCL": "nccl.h nccl_net.h",
    "cuBLAS": "cublas.h cublas_v2.h cublas_api.h cublasLt.h cublasXt.h",
    "cuSPARSE": "cusparse.h cusparse_v2.h cusparseLt.h",
    "cuRAND": "curand.h",
    "cuDNN": "cudnn.h cudnn_frontend.h",
    "cuFFT": "cufft.h cufftXt.h cufftw.h",
    "cuSOLVER": "cusolverDn.h cusolverSp.h cusolverRf.h cusolverMg.h cusolver_common.h",
    "NVTX": "nvToolsExt.h nvtx3/",
    "the CUDA profiler": "cuda_profiler_api.h cudaProfiler.h",
    "the CUDA samples": """
        helper_cuda.h helper_cuda_drvapi.h helper_cusolver.h helper_functions.h helper_gl.h helper_image.h
        helper_multiprocess.h helper_string.h helper_timer.h
    """,
    "OpenCV": "opencv/ opencv2/ opencv4/",
    "OpenGL": "GL/ GLES2/ GLES3/ GLFW/",
    "Boost": "boost/",
    "fmt": "fmt/",
    "GoogleTest": "gtest/ gmock/",
}
_OWNERS = {start: owner for owner, starts in _LIBRARIES.items() for start in starts.split()}
STANDARD = frozenset(
    """
    alloca.h any clocale complex.h condition_variable coroutine csetjmp csignal cwctype dirent.h
    exception execution fcntl.h filesystem format forward_list fstream future generator getopt.h iomanip
    ios iosfwd iostream istream list locale locale.h malloc.h map memory_resource mutex omp.h ostream
    poll.h print pthread.h queue regex sched.h scoped_allocator set setjmp.h shared_mutex signal.h
    spanstream sstream stack stacktrace stdatomic.h stdexcept stop_token streambuf string strings.h
    strstream syncstream sys/stat.h sys/time.h system_error tgmath.h thread typeindex typeinfo unistd.h
    unordered_map unordered_set valarray vector wctype.h windows.h
    """.split()
)
# Headers of CCCL that no release of NVRTC compiles, and their replacements.
_OF_CCCL = (
    (re.compile(r"thrust/complex\.h"), "use <cuda/std/complex> for device code"),
    (re.compile(r"thrust/.*"), f"use <cuda/std/…> and <cub/block/…> for device code; {SEPARATE_THE_KERNELS}"),
    (
        re.compile(r"cub/(?:cub\.cuh|device/.*)"),
        f"use the parts in <cub/block/…> and <cub/warp/…> for device code; {SEPARATE_THE_KERNELS}",
    ),
)


def with_exclusion(error: Diagnostic, failed: FailedCompile) -> Diagnostic:
    """Extend a hint to move the kernels into a separate file: say how to exclude the file with host code.

    The hint does not name the file, so that equal errors of many files are printed as one message.
    """
    path = failed.path
    is_here = error.where is not None and error.where.path == path
    if error.hint is None or not is_here or failed.module.source.produced is not None:
        return error
    kernels = "move the kernels into a separate file"
    leave_out = "move the kernels into a separate file and add the file with the host code to 'exclude'"
    # The key 'exclude' does not apply to [[module]] tables, and an excluded path in 'sources' is an error.
    if failed.module.part_of or any(f"/{path}".endswith(f"/{each}") for each in failed.config.sources):
        leave_out = (
            "move the kernels into a separate file, "
            "and change 'sources' so that it matches the separate file instead of the file with the host code"
        )
    return replace(error, hint=error.hint.replace(kernels, leave_out))


def about_header(name: str) -> str | None:
    """Return a hint if a header is for host code; None for any other header."""
    owner = _OWNERS.get(name) or _OWNERS.get(f"{name.partition('/')[0]}/")
    if owner is None and name not in STANDARD:
        return None
    if owner is None:
        return f"this header is for host code, which NVRTC does not compile: {SEPARATE_THE_KERNELS}"
    return f"this header of {owner} is for host code, which NVRTC does not compile: {SEPARATE_THE_KERNELS}"


def included_for_hosts(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """If an included header is for host code, report only this, and not the errors in the header."""
    places = dict.fromkeys(each.where.path for each in found if each.where and not each.is_own)
    entries = {path: _entry(failed.include_chains.get(path, ())) for path in places}
    for name in entries.values():
        hint = next((hint for pattern, hint in _OF_CCCL if pattern.fullmatch(name)), None)
        if hint is not None:
            like_it = [each for each in found if each.where and entries.get(each.where.path) == name]
            others = [each for each in found if each not in like_it]
            about = f"<{name}> is for host code, which NVRTC does not compile: {hint}"
            return replace(like_it[0], hint=about).followed_by(len(like_it) - 1), others
    return None


def _entry(way: Sequence[Step]) -> str:
    """Return the first header outside the project in a chain of includes that begins in the project."""
    return next((step.name for step in reversed(way) if step.is_own), "")


def is_c_function(name: str) -> bool:
    """Return whether host code calls this function of the C library, and device code cannot."""
    return re.fullmatch(_OF_C, name) is not None


def unannotated(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report functions without a specifier such as __device__."""
    pasted = failed.pasted("options", {"device-as-default-execution-space": True})
    as_device = f"to compile functions without an annotation as device code:{pasted}"

    def about(first: Diagnostic) -> str:
        path = first.where.path if first.where else failed.path
        if not first.is_own and not _OF_TOOLKIT.match(path):
            return as_device
        if not first.is_own or _OF_HOSTS.search(without_comments(failed.text_of(path))):
            return _ONLY_DEVICE
        return (
            "mark kernels with __global__, and the functions that they call with __device__; "
            f"if the file has host code, {SEPARATE_THE_KERNELS}; {as_device}"
        )

    like_it = [each for each in found if _UNANNOTATED.search(each.text) and not _is_marked(each)]
    return _as_one(like_it, found, about)


def _is_marked(error: Diagnostic) -> bool:
    """Return whether the code line of an error has `__global__` or `__device__` before the error's column."""
    code, mark = (*error.context[:2], "", "")[:2]
    return error.is_own and re.search(r"\b__(?:global|device)__(?!\w)", code[: mark.find("^")]) is not None


def variables(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report variables without a specifier for the memory space, such as __device__.

    The function skips a line that also has an error about something else, because the line is perhaps not the
    declaration of a variable.
    """
    like_it = [each for each in found if each.is_own and _VARIABLE.search(each.text)]
    wrong = {each.where for each in found if each not in like_it}
    sure = [each for each in like_it if each.where not in wrong]
    if not sure:
        return None
    pasted = failed.pasted("options", {"device-as-default-execution-space": True})
    hint = f"to compile all such variables as __device__:{pasted}"
    if "data member" not in sure[0].text:
        hint = f"mark the variable with __device__ or __constant__; {hint}"
    others = [each for each in found if each not in sure]
    return replace(sure[0], hint=hint).followed_by(len(sure) - 1), others


def calls(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report calls of functions that only host code can call."""
    like_it = [each for each in found if _CALLS.search(each.text)]
    # With `device-as-default-execution-space`, a host function with a kernel launch is compiled as device
    # code.
    is_kernels = not failed.module.options.get("device_as_default_execution_space")

    def about(_first: Diagnostic) -> str:
        return _with_runtime(failed) if is_kernels and _launches(like_it, failed) else _ONLY_HOSTS

    return _as_one(like_it, found, about)


def _launches(found: Sequence[Diagnostic], failed: FailedCompile) -> bool:
    """Return whether a kernel in the source launches other kernels."""
    if any(_LAUNCHES.search(each.text) for each in found):
        return True
    # If a kernel launches another kernel, the compiler may report only undefined functions of the CUDA
    # runtime.
    has_launch = "<<<" in without_comments(failed.module.source.text)
    return has_launch and all(_OF_RUNTIME.search(each.text) for each in found)


def _with_runtime(failed: FailedCompile) -> str:
    """Return a hint with a [[module]] table that links the source with CUDA's device runtime."""
    rule: dict[str, object] = {"name": failed.module.base, "sources": [failed.path], "mode": "rdc"}
    targets = failed.module.targets
    # CUDA's device runtime cannot be linked into PTX.
    if any(each.arch.is_ptx and each.named for each in targets):
        rule["archs"] = [*dict.fromkeys(str(each.arch.real) for each in targets)]
    rule["link"] = [device_runtime(failed.version[0])]
    lines = (written(key, value) for key, value in rule.items())
    table = "".join(f"\n    {line}" for line in (failed.config.place.tables("module"), *lines))
    return f"a kernel that launches kernels needs CUDA's device runtime: link it with this table:{table}"


def _as_one(
    like_it: Sequence[Diagnostic], found: Sequence[Diagnostic], about: Callable[[Diagnostic], str]
) -> Explanation | None:
    """Report one of the errors *like_it*, which have one cause; prefer an error in the project's code."""
    if not like_it:
        return None
    first = next((each for each in like_it if each.is_own), like_it[0])
    # If an error is in a header outside the project, the mistake may be in the project's own code.
    met = not all(each.is_own for each in like_it)
    others = [each for each in found if met and each.is_own and each not in like_it]
    return replace(first, hint=about(first)).followed_by(len(found) - len(others) - 1), others
