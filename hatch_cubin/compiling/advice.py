"""What to do about a source that does not compile: the cause in a sentence, and the line that mends it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from .diagnostics import Diagnostic

_FIXED_WIDTH = re.compile(r'identifier "u?int(?:8|16|32|64|ptr)_t" is undefined')
_OWN_FEATURE = re.compile(r"not supported on \.target 'sm_([0-9]+)'")
_MISSING = re.compile(r'cannot open source file "([^"]+)"')
_INSTANTIATION = re.compile(r"\s*#pragma nv_mangled_name (.*)")
_UNANNOTATED = re.compile(r"A function without execution space annotations")
_HOST = re.compile(
    r"explicitly marked as a __host__ function|kernel launch could not be processed"
    r'|namespace "std" has no member "(?:c(?:out|err)|endl|map|mutex|[io]?stringstream|runtime_error|string'
    r'|thread|unordered_map|vector)"'
    r'|identifier "(?:cuda(?:Malloc|Free|Mem|Stream|Event|Device|Get|Set|Launch|Func)\w*|std::\w+|at::\w+)"'
)

# The first letters of a header, and whose it is.
_HOST_LIBRARIES = {
    "torch/": "PyTorch's",
    "ATen/": "PyTorch's",
    "c10/": "PyTorch's",
    "pybind11/": "pybind11's",
    "nanobind/": "nanobind's",
    "Python.h": "Python's",
    "tensorflow/": "TensorFlow's",
    "tvm/": "TVM's",
    "jax": "JAX's",
    "xla/": "XLA's",
    "mpi.h": "MPI's",
    "nccl": "NCCL's",
    "cublas": "cuBLAS's",
    "cusparse": "cuSPARSE's",
    "cudnn": "cuDNN's",
    "cufft": "cuFFT's",
    "cusolver": "cuSOLVER's",
    "helper_": "the CUDA samples'",
    "opencv": "OpenCV's",
    "boost/": "Boost's",
    "gtest/": "GoogleTest's",
}
_HOST_STANDARD = frozenset(
    """
    cctype cerrno clocale condition_variable csetjmp csignal ctype.h cuchar cwchar deque dirent.h errno.h
    exception filesystem forward_list fstream future getopt.h iomanip ios iosfwd iostream istream list locale
    map memory_resource mutex omp.h ostream pthread.h queue regex set shared_mutex signal.h sstream stack
    stdexcept streambuf string strings.h sys/stat.h sys/time.h syncstream system_error thread
    typeindex typeinfo unistd.h unordered_map unordered_set vector windows.h
    """.split()
)
_HEADER_PACKAGES = {"cutlass/": "nvidia-cutlass", "cute/": "nvidia-cutlass", "curand": "nvidia-curand{cu}"}
_OF_TOOLKIT = ("cuda", "cub/", "thrust/", "nv/", "mma.h", "cooperative_groups", "vector_", "device_", "crt/")

_APART = (
    "keep kernels in a file of their own, or put the host's part between #ifndef __CUDACC_RTC__ and #endif"
)
_AS_DEVICE = "options = { device-as-default-execution-space = true } takes such functions as device code"


def advise(
    found: Sequence[Diagnostic],
    folder_of: Callable[[str], str | None],
    version: tuple[int, int],
    wanted: str | None,
) -> list[Diagnostic]:
    """Return the errors of a source that failed, with what to do; errors with one cause become one error.

    *folder_of* returns the folder of the project that has a header. *version* is the compiler's CUDA version,
    *wanted* the toolkit that the table names.
    """
    missing = [
        replace(each, hint=_about_header(match[1], folder_of, version, wanted))
        for each in found
        if (match := _MISSING.search(each.text))
    ]
    if missing:  # compilation ends there: whatever else was said follows from it
        return missing
    for pattern, advice in _CAUSES:
        like_it = [each for each in found if pattern.search(each.text)]
        if like_it:
            first = like_it[0]
            # An error in somebody else's header may come from one in the project's own code: show that too.
            own = [each for each in found if each.is_own and each not in like_it and not first.is_own]
            rest = len(found) - len(own) - 1
            more = (f"and {rest} more error{'s' * (rest > 1)} after it",) if rest else ()
            told = replace(first, context=(*first.context, *more), hint=advice(first))
            return [told, *_first_of_each_instantiation(own)]
    return _first_of_each_instantiation(found)


def about_target(text: str) -> str | None:
    """Return what to do about an instruction that only code for one GPU alone may have."""
    match = _OWN_FEATURE.search(text)
    return f'if it is one of that GPU alone: archs = ["sm_{match[1]}a"]' if match else None


def _first_of_each_instantiation(found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Keep one error for each entry of `instantiate`, without the directive that NVRTC makes of it."""
    kept, said = [], set()
    for each in found:
        match = _INSTANTIATION.match(each.context[0]) if each.context else None
        if match is None:
            kept.append(each)
        elif match[1] not in said:
            said.add(match[1])
            text = each.text.removeprefix("instantiate: ")
            kept.append(replace(each, text=f"instantiate: {match[1]!r}: {text}", context=()))
    return kept


def _about_header(
    name: str, folder_of: Callable[[str], str | None], version: tuple[int, int], wanted: str | None
) -> str:
    """Return what to do about a header that was not found."""
    if (folder := folder_of(name)) is not None:
        return f'include-dirs = ["{folder}"]'
    for start, owner in _HOST_LIBRARIES.items():
        if name.startswith(start):
            return f"that is {owner}, for host code, which NVRTC does not compile: {_APART}"
    if name in _HOST_STANDARD:
        return f"that is for host code, which NVRTC does not compile: {_APART}"
    for start, package in _HEADER_PACKAGES.items():
        if name.startswith(start):
            return f'header-packages = ["{package.format(cu="-cu12" if version[0] == 12 else "")}"]'
    if name.startswith(_OF_TOOLKIT):
        return _about_toolkit(version, wanted)
    return "no folder of 'include-dirs' has it, and no wheel of 'header-packages'"


def _about_toolkit(version: tuple[int, int], wanted: str | None) -> str:
    if wanted is None:
        return f'toolkit = "{version[0]}.{version[1]}" brings the toolkit\'s headers with the compiler'
    if wanted == "system":
        return "the toolkit in CUDA_HOME has no such header"
    return f'toolkit = "{wanted}" brings its headers where builds are isolated; elsewhere, install them'


def _about_unannotated(error: Diagnostic) -> str:
    return f"NVRTC compiles device code only: {_APART}; {_AS_DEVICE}" if error.is_own else _AS_DEVICE


def _about_host_code(_error: Diagnostic) -> str:
    return f"NVRTC compiles device code only: {_APART}"


def _about_fixed_width(_error: Diagnostic) -> str:
    return 'nvcc includes <cstdint> by itself, NVRTC does not: options = { pre-include = ["cstdint"] }'


_CAUSES = (
    (_FIXED_WIDTH, _about_fixed_width),
    (_UNANNOTATED, _about_unannotated),
    (_HOST, _about_host_code),
)
