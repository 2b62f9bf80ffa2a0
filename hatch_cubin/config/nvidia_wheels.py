"""The names of NVIDIA's wheels for each major version of CUDA, and wheels without headers. Pure."""

from __future__ import annotations

import re

from ..common.distribution_names import comparable_name

# Parts of the CUDA toolkit: the names of their wheels end in -cu12 for CUDA 12, and have no suffix for CUDA
# 13. Other libraries (cuDNN, NCCL, cuSPARSELt …): the names of their wheels end in -cu12 or -cu13.
_PARTS = frozenset(
    {
        *(f"cuda-{part}" for part in ("cccl", "cupti", "nvcc", "nvrtc", "profiler-api", "runtime")),
        *("cublas", "cufft", "cufile", "curand", "cusolver", "cusparse"),
        *("npp", "nvfatbin", "nvjitlink", "nvjpeg", "nvml-dev", "nvtx"),
    }
)
_NVIDIA = re.compile(r"nvidia-(.+?)(?:-cu([0-9]{2}))?")
_CUPY = re.compile(r"cupy-cuda[0-9]{2}x")
_DEVICE_RUNTIME = re.compile(r"cudadevrt|(nvidia-)?cuda-runtime")
_WITH_TOOLKIT = "the CUDA toolkit already contains these headers: remove the entry"
_HOST = "kernels cannot include these headers, which are for the host's compiler"
# Libraries whose headers are in a distribution with a different name, or not in a distribution.
_LIBRARIES = {
    **dict.fromkeys(("cutlass", "cute"), "did you mean 'nvidia-cutlass'?"),
    **dict.fromkeys(
        ("cub", "thrust", "libcudacxx", "libcu++", "cccl", "cuda-cccl", "cooperative-groups"), _WITH_TOOLKIT
    ),
    **dict.fromkeys(("cuda-toolkit", "cuda-core", "cuda-bindings", "cuda-python"), _WITH_TOOLKIT),
    **dict.fromkeys(("nvidia-cub", "nvidia-thrust", "nvidia-libcudacxx", "nvidia-cccl"), _WITH_TOOLKIT),
    **dict.fromkeys(("torch", "pytorch", "libtorch", "numpy", "pybind11", "nanobind"), _HOST),
    **{name: f"did you mean 'nvidia-{name}'?" for name in ("curand", "cublas", "cufft", "cusparse", "npp")},
    **dict.fromkeys(("cufftdx", "cublasdx", "curanddx", "mathdx"), "did you mean 'nvidia-mathdx'?"),
    "flashinfer": "did you mean 'flashinfer-python'?",
}
_WITH_HEADERS = ("flashinfer-python", "nvidia-cutlass", "nvidia-mathdx")
_NEARLY = 0.9  # minimum similarity between a misspelled name and the name of a wheel
HOST_LIBRARY = (
    "a library for the host, such as cuBLAS, cannot be linked into a kernel: remove the entry, and call the "
    "library from the host; 'link' takes files with device code, such as \"lib/helpers.ptx\""
)
# Libraries such as cuSOLVERDx have device code.
_HOST_LIBRARY = re.compile(
    r"(?!.*dx)(?:-[lL].*|(?:lib)?(?:cu(?:blas|dart|dnn|fft|rand|solver|sparse)|nccl|npp)\w*"
    r"|lib.*\.so(?:\.[0-9.]+)?|.*\.dll)"
)


def without_headers(name: str) -> str | None:
    """Return a hint for a distribution without headers for kernels, or None for any other distribution."""
    import difflib  # lazy import: slow to import, and few projects name wheels with headers

    known = comparable_name(name)
    close = difflib.get_close_matches(known, (*_LIBRARIES, *_WITH_HEADERS), n=1, cutoff=_NEARLY)
    meant = close[0] if close and known not in _WITH_HEADERS else ""
    return _LIBRARIES.get(meant) or (f"did you mean {meant!r}?" if meant else None)


def requires_cuda_python(name: str) -> bool:
    """Return whether a wheel with headers requires cuda-python, but does not say which version."""
    return comparable_name(name) == "nvidia-cutlass"


def for_major(name: str, major: int) -> str:
    """Return the name of a wheel for a major version of CUDA.

    The result is *name* itself if the wheel is for all versions.
    """
    if _CUPY.fullmatch(comparable_name(name)):
        return f"cupy-cuda{major}x"
    match = _NVIDIA.fullmatch(comparable_name(name))
    if match is None or not (match[2] or match[1] in _PARTS):
        return name
    return f"nvidia-{match[1]}{'' if match[1] in _PARTS and major >= 13 else f'-cu{major}'}"


def is_for_major(name: str, major: int) -> bool:
    """Return whether a wheel can be used with a major version of CUDA."""
    return comparable_name(for_major(name, major)) == comparable_name(name)


def device_runtime(major: int) -> str:
    """Return the entry of `link` for the device runtime, which kernels need to launch other kernels."""
    return f"{for_major('nvidia-cuda-runtime', major)}:**/libcudadevrt.a"


def may_be_host_library(entry: str) -> bool:
    """Return whether an entry of `link` probably means a library for the host, such as `-lcublas`."""
    return any(map(_HOST_LIBRARY.fullmatch, (entry, entry.rpartition("/")[2])))


def may_be_device_runtime(entry: str) -> bool:
    """Return whether an entry of `link` probably means CUDA's device runtime, such as `-lcudadevrt`."""
    return _DEVICE_RUNTIME.search(comparable_name(entry)) is not None
