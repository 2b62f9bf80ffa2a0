"""Hints about host code, which NVRTC does not compile: in the source itself, and in headers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...config.toml_lines import setting as written
from ...project.source import without_comments
from ...toolkit.requirements import device_runtime
from ..diagnostics import Diagnostic, Explanation
from . import cub
from .failed_compile import FailedCompile
from .include_chain import Step
from .similar_names import did_you_mean

APART = (
    "keep kernels in a file of their own, or put the host's part between #ifndef __CUDACC_RTC__ and #endif"
)
_UNANNOTATED = re.compile(r"A function without execution space annotations")
_VARIABLE = re.compile(r"variable without memory space annotations|static data member with non-const type")
_MARK = re.compile(r"\b(?:_+[a-z]+_+|__[a-z]+|[a-z]+__)\b")
_MARKS = ("__global__", "__device__", "__constant__", "__shared__", "__managed__", "__forceinline__")
_NOT_VARIABLES = (
    (re.compile(r"\bglobal\s+void\b"), "did you mean __global__?"),
    (re.compile(r"^\s*(?:import|include)\s*[\"<]"), "did you mean #include?"),
)
_LAUNCHES = re.compile(r"kernel launch could not be processed")
_OF_RUNTIME = re.compile(r'identifier "cuda')
_CALLS = re.compile(
    r"explicitly marked as a __host__ function|kernel launch could not be processed"
    r'|namespace "std" has no member "(?:c(?:out|err)|endl|map|mutex|[io]?stringstream|runtime_error|string'
    r"|thread|unordered_(?:map|set)|vector|unique_ptr|shared_ptr|make_(?:unique|shared)|function|set|deque|list"
    r"|queue|stack|future|async|to_string|sto[idfl]|exception|invalid_argument|logic_error|out_of_range|cin"
    r'|[io]?fstream|getline|random_device)"'
    r'|identifier "(?:cuda(?:Malloc|Free|Mem|Stream|Event|Device|Get|Set|Launch|Func)\w*|std::\w+|at::\w+)"'
)

_OF_LAMBDA = re.compile(r"annotation on lambda is not allowed|execution space for the lambda closure class")
_IN_KERNEL = "NVRTC takes a lambda in device code without it: leave the __device__ of the lambda out"
_OUTSIDE = (
    "a lambda outside of functions is the host's: write it in the kernel, "
    "or a struct with a __device__ operator()"
)
# Functions that are missing from device code, and their replacements.
_INSTEAD = tuple(
    (
        re.compile(rf'identifier "(?:{names})" is undefined|namespace "std" has no member "(?:{names})"'),
        instead,
    )
    for names, instead in (
        ("_?exit|quick_exit|abort", "__trap() ends the kernel with an error, and return ends one thread"),
        ("s?rand|rand_r|random|drand48", "cuRAND has random numbers for device code, in <curand_kernel.h>"),
        ("fprintf|s?n?printf|f?puts|putchar|fflush", "device code prints with printf alone"),
        ("u?sleep|nanosleep", "device code waits with __nanosleep, for a millisecond at most"),
        (
            "(?:stable_)?sort|qsort",
            "device code sorts with <cub/block/block_radix_sort.cuh>, or its own loop",
        ),
        (
            "time|gettimeofday|clock_gettime",
            "device code counts the cycles of its multiprocessor with clock64()",
        ),
    )
)
# Calls of the CUDA runtime in kernels, and their replacements.
_INSTEAD_OF_RUNTIME = tuple(
    (re.compile(rf'identifier "cuda{names}" is undefined'), instead)
    for names, instead in (
        ("Memcpy[A-Za-z]*", "a kernel copies with an assignment or memcpy; cudaMemcpy is for the host"),
        ("Memset[A-Za-z]*", "a kernel fills memory with an assignment or memset; cudaMemset is for the host"),
        (
            "Malloc[A-Za-z]*",
            "a kernel gets memory from the host, as a pointer, or from malloc; cudaMalloc is for the host",
        ),
        ("Free[A-Za-z]*", "a kernel frees memory of its own malloc with free; cudaFree is for the host"),
        (
            "(?:Device|Stream|Thread)Synchronize",
            "a kernel waits for the threads of its block with __syncthreads(); the host waits for kernels",
        ),
    )
)

# Names that device code never uses: a function with one of them is host code.
_OF_HOSTS = re.compile(
    r"<<<|\bint\s+main\s*\(|\bcuda(?:Malloc|Free|Mem|Stream|Event|Device|Get|Set|Launch|Func)\w*\s*\("
    r"|\bstd\s*::\s*(?:cout|cerr|string|vector|map|thread|unique_ptr|shared_ptr|runtime_error)\b|\b(?:torch|at|py)::"
)

# The owners of headers for hosts, by folder or by the header's name.
_LIBRARIES = {
    "PyTorch's": "torch/ ATen/ c10/",
    "pybind11's": "pybind11/",
    "nanobind's": "nanobind/",
    "Python's": "Python.h",
    "NumPy's": "numpy/",
    "TensorFlow's": "tensorflow/",
    "TVM's": "tvm/",
    "JAX's": "jax/ jaxlib/",
    "XLA's": "xla/",
    "GCC's": "bits/",
    "MPI's": "mpi.h",
    "NCCL's": "nccl.h nccl_net.h",
    "cuBLAS's": "cublas.h cublas_v2.h cublas_api.h cublasLt.h cublasXt.h",
    "cuSPARSE's": "cusparse.h cusparse_v2.h cusparseLt.h",
    "cuRAND's": "curand.h",
    "cuDNN's": "cudnn.h cudnn_frontend.h",
    "cuFFT's": "cufft.h cufftXt.h cufftw.h",
    "cuSOLVER's": "cusolverDn.h cusolverSp.h cusolverRf.h cusolverMg.h cusolver_common.h",
    "NVTX's": "nvToolsExt.h nvtx3/",
    "the CUDA profiler's": "cuda_profiler_api.h cudaProfiler.h",
    "the CUDA samples'": """
        helper_cuda.h helper_cuda_drvapi.h helper_cusolver.h helper_functions.h helper_gl.h helper_image.h
        helper_multiprocess.h helper_string.h helper_timer.h
    """,
    "OpenCV's": "opencv/ opencv2/ opencv4/",
    "OpenGL's": "GL/ GLES2/ GLES3/ GLFW/",
    "Boost's": "boost/",
    "fmt's": "fmt/",
    "GoogleTest's": "gtest/ gmock/",
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
    (re.compile(r"thrust/complex\.h"), "<cuda/std/complex> has the same for device code"),
    (re.compile(r"thrust/swap\.h"), "<cuda/std/utility> has the same for device code"),
    (re.compile(r"thrust/.*"), f"<cuda/std/…> and <cub/block/…> are for device code; {APART}"),
    (re.compile(r"cub/device/.*"), f"<cub/block/…> and <cub/warp/…> are for device code; {APART}"),
)


def about_header(name: str) -> str | None:
    """Return a hint if a header is for host code; None for any other header."""
    owner = _OWNERS.get(name) or _OWNERS.get(f"{name.partition('/')[0]}/")
    if owner is None and name not in STANDARD:
        return None
    whose = "" if owner is None else f" {owner},"
    return f"that is{whose} for host code, which NVRTC does not compile: {APART}"


def included_for_hosts(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report a header for host code, instead of the compiler's errors in everything that it includes."""
    places = dict.fromkeys(each.where.path for each in found if each.where and not each.is_own)
    entries = {path: _entry(failed.include_chains.get(path, ())) for path in places}
    for name in entries.values():
        hint = next((hint for pattern, hint in _OF_CCCL if pattern.fullmatch(name)), None)
        hint = cub.about_whole(failed) if name == cub.WHOLE else hint
        if hint is not None:
            like_it = [each for each in found if each.where and entries.get(each.where.path) == name]
            others = [each for each in found if each not in like_it]
            about = f"<{name}> is for host code, which NVRTC does not compile: {hint}"
            return replace(like_it[0], hint=about).followed_by(len(like_it) - 1), others
    return None


def _entry(way: Sequence[Step]) -> str:
    """Return the outside header that the project includes first on the chain of includes."""
    return next((step.name for step in reversed(way) if step.is_own), "")


def unannotated(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report functions without a mark such as __device__."""
    pasted = failed.pasted("options", {"device-as-default-execution-space": True})
    as_device = f"to take such functions as device code:{pasted}"

    def about(first: Diagnostic) -> str:
        if not first.is_own:
            return as_device
        text = without_comments(failed.text_of(first.where.path if first.where else failed.path))
        only = f"NVRTC compiles device code only: {APART}"
        return only if _OF_HOSTS.search(text) else f"{only}; {as_device}"

    like_it = [each for each in found if _UNANNOTATED.search(each.text) and not _is_marked(each)]
    return _as_one(like_it, found, about)


def _is_marked(error: Diagnostic) -> bool:
    """Return whether a function is marked as device code, but an earlier error hides the mark."""
    code, mark = (*error.context[:2], "", "")[:2]
    return error.is_own and re.search(r"\b__(?:global|device)__(?!\w)", code[: mark.find("^")]) is not None


def variables(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report a variable that is not marked with its memory space, or a misspelt mark of a function."""
    for each in found:
        if each.hint is None and each.is_own and _VARIABLE.search(each.text):
            line = "".join(each.context[:1])
            if "__global__" in line:  # a kernel whose parameters the compiler cannot read
                continue
            marks = _MARK.findall(line)
            meant = next(filter(None, (did_you_mean(mark, _MARKS) for mark in marks)), None)
            meant = meant or next((hint for form, hint in _NOT_VARIABLES if form.search(line)), None)
            if meant is not None:  # the other errors in its line follow from it
                others = [other for other in found if other.where != each.where]
                return replace(each, hint=meant).followed_by(len(found) - len(others) - 1), others
            return _variable(each, failed), [other for other in found if other is not each]
    return None


def _variable(error: Diagnostic, failed: FailedCompile) -> Diagnostic:
    text = "a variable outside of functions is the host's unless it says that it is the device's"
    pasted = failed.pasted("options", {"device-as-default-execution-space": True})
    if "data member" in error.text:
        return replace(error, text=text, hint=f"to take all such members as __device__:{pasted}")
    marked = "write __device__ before its type, or __constant__ if kernels only read it"
    return replace(error, text=text, hint=f"{marked}; to take all such variables as __device__:{pasted}")


def calls(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report calls that only a host can make."""
    # A function for the host was reported already, unless it is compiled as device code.
    is_kernels = not failed.module.options.get("device_as_default_execution_space")
    if is_kernels and "<<<" not in without_comments(failed.module.source.text):
        for each in found:
            instead = next((text for pattern, text in _INSTEAD_OF_RUNTIME if pattern.search(each.text)), None)
            if instead is not None and each.is_own:
                others = [other for other in found if other.where != each.where]
                return replace(each, hint=instead).followed_by(len(found) - len(others) - 1), others

    like_it = [each for each in found if _CALLS.search(each.text)]

    def about(_first: Diagnostic) -> str:
        if is_kernels and _launches(like_it, failed):
            return _with_runtime(failed)
        return f"NVRTC compiles device code only: {APART}"

    return _as_one(like_it, found, about)


def lambdas(found: Sequence[Diagnostic], _failed: FailedCompile) -> Explanation | None:
    """Report lambdas marked `__device__` or `__host__` (nvcc has an option for them) or outside functions."""
    lines = {each.where for each in found if each.is_own and _OF_LAMBDA.search(each.text)}
    like_it = [each for each in found if each.where in lines]
    is_outside = any("closure class" in each.text for each in like_it)
    return _as_one(like_it, found, lambda _first: _OUTSIDE if is_outside else _IN_KERNEL)


def functions(found: Sequence[Diagnostic], _failed: FailedCompile) -> Explanation | None:
    """Report a function of the C or C++ library that is missing from device code, with its replacement."""
    for each in found:
        instead = next((text for pattern, text in _INSTEAD if pattern.search(each.text)), None)
        if instead is not None and each.is_own and each.hint is None:
            return replace(each, hint=instead), [other for other in found if other is not each]
    return None


def _launches(found: Sequence[Diagnostic], failed: FailedCompile) -> bool:
    """Return whether a kernel launches kernels; the compiler may report only its calls of the runtime."""
    if any(_LAUNCHES.search(each.text) for each in found):
        return True
    has_launch = "<<<" in without_comments(failed.module.source.text)
    return has_launch and all(_OF_RUNTIME.search(each.text) for each in found)


def _with_runtime(failed: FailedCompile) -> str:
    """Return the table that links a source with CUDA's device runtime; such a link cannot produce PTX."""
    rule: dict[str, object] = {"name": failed.module.base, "sources": [failed.path], "mode": "rdc"}
    targets = failed.module.targets
    if any(each.arch.is_ptx and each.named for each in targets):
        rule["archs"] = [*dict.fromkeys(str(each.arch.real) for each in targets)]
    rule["link"] = [device_runtime(failed.version[0])]
    lines = (written(key, value) for key, value in rule.items())
    table = "".join(f"\n    {line}" for line in (failed.config.place.tables("module"), *lines))
    return f"a kernel that launches kernels needs CUDA's device runtime, which this links:{table}"


def _as_one(
    like_it: Sequence[Diagnostic], found: Sequence[Diagnostic], about: Callable[[Diagnostic], str]
) -> Explanation | None:
    """Report the first error, in the project's own code if possible, instead of all that follow from it."""
    if not like_it:
        return None
    first = next((each for each in like_it if each.is_own), like_it[0])
    # An error in an outside header may only follow from a mistake in the project's own code.
    met = not all(each.is_own for each in like_it)
    others = [each for each in found if met and each.is_own and each not in like_it]
    return replace(first, hint=about(first)).followed_by(len(found) - len(others) - 1), others
