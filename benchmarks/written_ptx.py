"""Write PTX with Triton and pyptx into a folder: `python written_ptx.py FOLDER PTXAS`.

It runs where both are installed. Neither needs a GPU for that. Triton asks ptxas which PTX it takes.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from unittest.mock import MagicMock

os.environ |= {"TRITON_PTXAS_PATH": sys.argv[2], "TRITON_PTXAS_BLACKWELL_PATH": sys.argv[2]}
os.environ |= {"TRITON_DISABLE_LINE_INFO": "1", "TRITON_DEFAULT_FP_FUSION": "1"}

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * columns + at, at < columns, -float("inf"))
    power = tl.exp(row - tl.max(row, 0))
    tl.store(out + tl.program_id(0) * columns + at, power / tl.sum(power, 0), at < columns)


@triton.jit
def layer_norm(x, weight, bias, out, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * columns + at, at < columns, 0.0).to(tl.float32)
    mean = tl.sum(row, 0) / columns
    off = tl.where(at < columns, row - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(off * off, 0) / columns + 1e-5)
    even = off * scale * tl.load(weight + at, at < columns) + tl.load(bias + at, at < columns)
    tl.store(out + tl.program_id(0) * columns + at, even, at < columns)


@triton.jit
def scan(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.cumsum(tl.load(x + at), 0))


@triton.jit
def sort(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.sort(tl.load(x + at)))


@triton.jit
def dropout(x, out, n, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kept = tl.rand(seed, at) > 0.1
    tl.store(out + at, tl.where(kept, tl.load(x + at, at < n) / 0.9, 0.0), at < n)


@triton.jit
def matmul(a, b, c, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns = tl.program_id(0) * M + tl.arange(0, M), tl.program_id(1) * N + tl.arange(0, N)
    depth = tl.arange(0, K)
    left, right = a + rows[:, None] * k + depth[None, :], b + depth[:, None] * n + columns[None, :]
    total = tl.zeros((M, N), tl.float32)
    for done in range(0, k, K):
        some, more = (
            tl.load(left, depth[None, :] < k - done, 0.0),
            tl.load(right, depth[:, None] < k - done, 0.0),
        )
        total = tl.dot(some, more, total)
        left += K
        right += K * n
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(c.dtype.element_ty), inside)


@triton.jit
def matmul_int4(a, b, scales, c, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns = tl.program_id(0) * M + tl.arange(0, M), tl.program_id(1) * N + tl.arange(0, N)
    depth = tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    scale = tl.load(scales + columns)
    for done in range(0, k, K):
        some = tl.load(a + rows[:, None] * k + done + depth[None, :])
        packed = tl.load(b + (done + depth[:, None]) // 8 * n + columns[None, :])
        values = ((packed >> (depth[:, None] % 8 * 4)) & 15) - 8
        total = tl.dot(some, (values * scale[None, :]).to(tl.float16), total)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.float16))


@triton.jit
def attention(q, k, v, out, length, scale, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    rows, depth = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, D)
    base = tl.program_id(1) * length * D
    query = tl.load(q + base + rows[:, None] * D + depth[None, :])
    best, weight = tl.full((M,), -float("inf"), tl.float32), tl.zeros((M,), tl.float32)
    total = tl.zeros((M, D), tl.float32)
    for start in range(0, length, N):
        columns = start + tl.arange(0, N)
        scores = tl.dot(query, tl.load(k + base + columns[None, :] * D + depth[:, None])) * scale
        larger = tl.maximum(best, tl.max(scores, 1))
        power, fade = tl.exp2(scores - larger[:, None]), tl.exp2(best - larger)
        weight = weight * fade + tl.sum(power, 1)
        value = tl.load(v + base + columns[:, None] * D + depth[None, :])
        total = tl.dot(power.to(tl.float16), value, total * fade[:, None])
        best = larger
    tl.store(out + base + rows[:, None] * D + depth[None, :], (total / weight[:, None]).to(tl.float16))


# kernel, types of its arguments, its constants, warps
_TRITON = (
    (add, "*fp32 *fp32 *fp32 i32", {"BLOCK": 1024}, 4),
    (softmax, "*fp32 *fp32 i32", {"BLOCK": 2048}, 8),
    (layer_norm, "*fp16 *fp32 *fp32 *fp16 i32", {"BLOCK": 4096}, 8),
    (scan, "*fp32 *fp32", {"BLOCK": 1024}, 4),
    (sort, "*i32 *i32", {"BLOCK": 256}, 4),
    (dropout, "*fp32 *fp32 i32 i32", {"BLOCK": 1024}, 4),
    (matmul, "*fp16 *fp16 *fp16 i32 i32 i32", {"M": 64, "N": 64, "K": 32}, 4),
    (matmul, "*bf16 *bf16 *fp32 i32 i32 i32", {"M": 128, "N": 128, "K": 64}, 8),
    (matmul, "*fp32 *fp32 *fp32 i32 i32 i32", {"M": 128, "N": 64, "K": 32}, 4),
    (matmul_int4, "*fp16 *i32 *fp32 *fp16 i32 i32", {"M": 64, "N": 64, "K": 64}, 4),
    (attention, "*fp16 *fp16 *fp16 *fp16 i32 fp32", {"M": 64, "N": 64, "D": 64}, 4),
    (attention, "*fp16 *fp16 *fp16 *fp16 i32 fp32", {"M": 128, "N": 64, "D": 128}, 4),
)
# module of pyptx.examples, function, its arguments
_PYPTX = (
    ("ampere.gemm", "build_gemm", (512, 512, 512)),
    ("ampere.gemm_pipelined", "build_gemm_pipelined", (512, 512, 512)),
    ("ampere.gemm_highperf_ampere", "build_gemm_highperf", (512, 512, 512)),
    ("ampere.layer_norm", "build_layer_norm", (256, 4096)),
    ("ampere.rms_norm", "build_rms_norm", (256, 4096)),
    ("ampere.softmax", "build_softmax", (256, 4096)),
    ("ampere.swiglu", "build_fused_silu_mul", (256, 4096)),
    ("hopper.grouped_gemm", "build_grouped_gemm", (4, 512, 512, 512)),
    ("hopper.layer_norm", "build_layer_norm", (256, 4096)),
    ("hopper.rms_norm", "build_rms_norm", (256, 4096)),
    ("hopper.softmax", "build_softmax", (256, 4096)),
    ("hopper.swiglu", "build_fused_silu_mul", (256, 4096)),
    ("blackwell.grouped_gemm", "build_grouped_gemm", (4, 512, 512, 512)),
    ("blackwell.gemm_highperf_blackwell", "build_gemm", (4096, 4096, 4096)),
)


def main() -> None:
    """Write every kernel's PTX."""
    folder = Path(sys.argv[1])
    for capability in (80, 90, 100, 120):
        for number, (kernel, types_, constants, warps) in enumerate(_TRITON):
            names = [name for name in kernel.arg_names if name not in constants]
            source = ASTSource(kernel, dict(zip(names, types_.split(), strict=True)), constants)
            made = triton.compile(source, GPUTarget("cuda", capability, 32), {"num_warps": warps})
            (folder / f"triton_{kernel.__name__}_{number}_{capability}.ptx").write_text(made.asm["ptx"])
    jax = MagicMock()  # the examples compute their expected results with it
    sys.modules |= {"jax": jax, "jax.numpy": jax.numpy}
    for module, function, arguments in _PYPTX:
        made = getattr(importlib.import_module(f"pyptx.examples.{module}"), function)(*arguments)
        (folder / f"pyptx_{module.replace('.', '_')}.ptx").write_text(made.ptx())


if __name__ == "__main__":
    main()
