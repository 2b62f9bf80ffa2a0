"""Hints about sources in another language for GPUs, such as HIP or OpenCL C."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ..diagnostics import Diagnostic, Explanation
from .failed_compile import FailedCompile

_THREAD = "blockIdx.x * blockDim.x + threadIdx.x"
# Patterns for the compiler's message or its source line, the language, and the equivalent in CUDA.
_LANGUAGES = (
    (
        (
            r'source file "(?:hip|hipcub|hiprand|rocprim|rocrand|rocwmma)/'
            r"|\bhip(?:ThreadIdx|BlockIdx|BlockDim|GridDim|Malloc|Free|Memcpy|Launch|Stream|Device|Error)\w*"
        ),
        "HIP",
        "leave out HIP's headers, and write threadIdx.x for hipThreadIdx_x",
    ),
    (
        (
            r'source file "(?:CL/(?!sycl)|OpenCL/)|\b__kernel\b|\bget_(?:global|local|group)_(?:id|size)\b'
            r"|\bget_num_groups\b|\bCLK_\w+|\bkernel\s+void\s+\w+\s*\([^)]*\bglobal\b"
        ),
        "OpenCL C",
        f'write extern "C" __global__ void for __kernel void, and {_THREAD} for get_global_id(0)',
    ),
    (
        r'source file "(?:CL/)?sycl|\bsycl::',
        "SYCL",
        f"write kernels as functions, and {_THREAD} for an item's id",
    ),
    (
        r'source file "metal_|\[\[(?:buffer\(|thread\w*_in_\w+\]\])|\bkernel\s+void\b',
        "Metal",
        f'write extern "C" __global__ void for kernel void, and {_THREAD} for thread_position_in_grid',
    ),
    (
        r"\[numthreads\(|\bSV_\w+ID\b|\bRWStructuredBuffer\b",
        "HLSL",
        f'write extern "C" __global__ void, and {_THREAD} for SV_DispatchThreadID',
    ),
    (
        r"\blayout\s*\(\s*(?:local_size_|std430|binding)|\bgl_\w+ID\b|#\s*version\s+\d",
        "GLSL",
        f'write extern "C" __global__ void, and {_THREAD} for gl_GlobalInvocationID',
    ),
)


def other_language(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report another language at the first error that shows it, instead of all errors."""
    for each in found:
        shown = "\n".join((each.text, *each.context[:1]))
        for pattern, language, instead in _LANGUAGES:
            if each.is_own and re.search(pattern, shown):
                hint = f"this is {language}, not CUDA C++: {instead}"
                if failed.sources.keys() != {failed.path}:
                    hint = f"{hint}; or leave the source out: {failed.line('exclude', [failed.path])}"
                return replace(each, hint=hint).followed_by(len(found) - 1), []
    return None
