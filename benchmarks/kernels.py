"""The kernels whose machine code is compared: sources of third parties, and small ones around their headers.

Nothing of a third party is in this repository. A source here only includes files of an unpacked sdist, or
headers of a wheel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

# name==version and the digest of its sdist
SDISTS = {
    "awkward==2.14.0": "f5bce2ddfd4b5ad5277462b01adf94fd6ca90c33a56949fb8c00490c30725737",
    "deepspeed==0.19.8": "9e491abd0827ea5c389dd702e15e11e13d83d904bac4a20d6c2a4cb37207a9af",
    "gptqmodel==7.7.0": "039874c39fb56ba75b750dd4870968e7fe83b6ca28890a53e94ad3c46be699d0",
    "httomolibgpu==5.4": "3fa5de3c50f27b66283ea10c9376909bae9380b64ea3dd198fdd073f05488dec",
    "sphericart==2.0.4": "1672460878d51e34a0edf25421c31390c183e91e26b8165072b816255c8e7a02",
    "thinc==9.1.1": "21fae2986d7777a6f050b9046dc9eab11852f1c9a997dcc9032f3ecc22784a4a",
    "vesin==0.6.2": "8fc5000d74a13131fa21cd81d5e22e50f4195b7105574b35959ebe1720a02ea1",
}

_TEMPLATE = re.compile(
    r"template\s*<([^<>]*)>\s*(?:static\s+)?__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\s*\("
)


@dataclass(frozen=True)
class Source:
    """A source to compile: what it includes, and the template instantiations that are its kernels."""

    name: str
    text: str
    kernels: Sequence[str] = ()
    includes: Sequence[str] = ()  # folders, below that of the sdists
    has_host_functions: bool = False  # which NVRTC takes as device code or not at all
    packages: Sequence[str] = ()  # the wheels of its headers

    def file_text(self) -> str:
        """Return the text for both compilers: NVRTC is told the instantiations, nvcc sees them used."""
        uses = "".join(f"  (const void *)&{kernel},\n" for kernel in self.kernels)
        used = f"#ifndef __CUDACC_RTC__\nextern const void *const kernels[] = {{\n{uses}}};\n#endif\n"
        return self.text + used * bool(uses)


# Some files define them in another way than the headers of the host do, which nvcc includes first.
_HOST_TYPES = [f"{sign}int{kind}_t" for kind, sign in product(("64", "_least64", "max"), ("", "u"))]
_HOST_TYPES += [f"{sign}int_fast{bits}_t" for bits, sign in product((16, 32, 64), ("", "u"))]
_OWN_TYPES = "".join(f"#define {name} own_{name}\n" for name in _HOST_TYPES)


def sources(sdists: Path) -> Iterator[Source]:
    """Yield every source; *sdists* is the folder that the sdists are unpacked in."""
    yield from _awkward(sdists)
    for name, folder, values in (
        ("httomolibgpu", "httomolibgpu-5.4/httomolibgpu/cuda_kernels", {"typename": ["float"], "int": ["5"]}),
        ("thinc", "thinc-9.1.1/thinc/backends", {"typename": ["float", "double"]}),
        ("vesin", "vesin-0.6.2/lib/src/cuda", {}),
        ("sphericart", "sphericart-2.0.4/sphericart/src", {}),
    ):
        for path in sorted((sdists / folder).glob("*.cu")):
            text = path.read_text("utf-8")
            if "<cupy/" in text:  # of a package that has to be built first
                continue
            kernels = _instantiations(text, values) if values else []
            text_ = f'{_OWN_TYPES * (name == "thinc")}#include "{path.name}"\n'
            yield Source(f"{name}_{path.stem}", text_, kernels, [folder, _HEADERS.get(name, folder)])
    yield _exllama()
    yield _deepspeed()
    yield from of_cub()
    yield _curand()
    yield from _cutlass()


_HEADERS = {"sphericart": "sphericart-2.0.4/sphericart/include"}


def _instantiations(text: str, values: Mapping[str, Sequence[str]]) -> list[str]:
    """Return instantiations of each kernel template in a text, by *values* for its kinds of parameters."""
    found = []
    for parameters, name in _TEMPLATE.findall(text):
        kinds = [each.split()[0] for each in parameters.split(",")]
        length = max(len(values.get(kind, ("1",))) for kind in kinds)
        for at in range(length):
            chosen = [
                values[kind][at % len(values[kind])] if kind in values else _VALUES[kind] for kind in kinds
            ]
            found.append(f"{name}<{', '.join(chosen)}>")
    return list(dict.fromkeys(found))


_VALUES = {"int": "4", "bool": "true"}


_AWKWARD = (
    "#define ERROR_BITS 8\n#define NO_ERROR 18446744073709551615ull\n"
    + _OWN_TYPES
    + '#include "cuda_common.cu"\n'
)


def _awkward(sdists: Path) -> Iterator[Source]:
    folder = "awkward-2.14.0/src/awkward/_connect/cuda/cuda_kernels"
    for path in sorted((sdists / folder).glob("awkward_*.cu")):
        if kernels := _instantiations(path.read_text("utf-8"), {"typename": ["long long", "int"]}):
            yield Source(f"array_{path.stem[8:]}", f'{_AWKWARD}#include "{path.name}"\n', kernels, [folder])


def _exllama() -> Source:
    folder = "gptqmodel-7.7.0/gptqmodel_ext/exllamav2/cuda"
    start = "#include <cuda_fp16.h>\n#include <cstdint>\n"
    start += "#ifdef __CUDACC_RTC__\n#define fprintf(...)\n#define exit(...)\n#endif\n"  # in util.cuh
    names = ("util", "matrix_view", *(f"quant/qdq_{bits}" for bits in (2, 3, 4, 5, 6, 8)))
    start += "".join(f'#include "{name}.cuh"\n' for name in names)
    start += "#define BLOCK_KN_SIZE 128\n#define MAX_GROUPS_IN_BLOCK (BLOCK_KN_SIZE / 32)\n"
    start += '#include "q_gemm_kernel.cuh"\n#include "q_gemm_kernel_gptq.cuh"\n'
    kernels = [
        f"{name}<{first}, {rows}>"
        for name in ("gemm_half_q_half_kernel", "gemm_half_q_half_gptq_kernel")
        for first, rows in product(("true", "false"), (1, 4, 8))
    ]
    return Source("exllamav2", start, kernels, [folder], has_host_functions=True)


def _deepspeed() -> Source:
    folder = "deepspeed-0.19.8/deepspeed/inference/v2/kernels/core_ops/cuda_linear/include"
    names = ("<cuda_fp16.h>", "<cstdint>", "<type_traits>", '"kernel_matmul.cuh"', '"kernel_reduction.cuh"')
    text = "".join(f"#include {name}\n" for name in names)
    kernels = [
        f"QUANT_GEMM_Kernel<TilingConfig<4, 1, {columns}>, {output}>"
        for columns, output in product((1, 2, 4, 8), ("half", "float"))
    ]
    return Source("deepspeed_fp6", text, kernels, [folder], has_host_functions=True)


_CUB = """\
#include <cub/block/block_load.cuh>
#include <cub/block/block_{header}.cuh>
#include <cub/block/block_store.cuh>
template <typename T, int BLOCK, int ITEMS, auto ALGORITHM>
__global__ void {header}(const T *from, T *to) {{
  using Block = cub::{type};
  __shared__ typename Block::TempStorage storage;
  T items[ITEMS];
  cub::LoadDirectStriped<BLOCK>(threadIdx.x, from + blockIdx.x * BLOCK * ITEMS, items);
  {call};
  cub::StoreDirectBlocked(threadIdx.x, to + blockIdx.x * BLOCK * ITEMS, items);
}}
"""
# header, type, call, algorithms
_BLOCKS = (
    (
        *("reduce", "BlockReduce<T, BLOCK, ALGORITHM>", "items[0] = Block(storage).Sum(items)"),
        ("cub::BLOCK_REDUCE_RAKING", "cub::BLOCK_REDUCE_WARP_REDUCTIONS"),
    ),
    (
        *("scan", "BlockScan<T, BLOCK, ALGORITHM>", "Block(storage).InclusiveSum(items, items)"),
        ("cub::BLOCK_SCAN_RAKING", "cub::BLOCK_SCAN_WARP_SCANS"),
    ),
    ("radix_sort", "BlockRadixSort<T, BLOCK, ITEMS>", "Block(storage).Sort(items)", ("0",)),
    ("exchange", "BlockExchange<T, BLOCK, ITEMS>", "Block(storage).StripedToBlocked(items, items)", ("0",)),
    ("shuffle", "BlockShuffle<T, BLOCK>", "Block(storage).Up(items, items)", ("0",)),
)


def of_cub() -> Iterator[Source]:
    """Yield the sources whose headers come with the toolkit itself."""
    for header, type_, call, algorithms in _BLOCKS:
        kinds = product(("float", "double", "int"), ("128, 4", "256, 9"), algorithms)
        kernels = [f"{header}<{scalar}, {sizes}, {algorithm}>" for scalar, sizes, algorithm in kinds]
        yield Source(f"cub_{header}", _CUB.format(header=header, type=type_, call=call), kernels)


_CURAND = """\
#include <curand_kernel.h>
template <typename State>
__global__ void random_start(State *states) { curand_init(7, threadIdx.x, 0, states + threadIdx.x); }
template <typename State>
__global__ void random_draw(State *states, float *flat, float2 *bell, unsigned *small, double *wide, int n) {
  State state = states[threadIdx.x];
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    flat[i] = curand_uniform(&state);
    bell[i] = curand_normal2(&state);
    small[i] = curand_poisson(&state, 3.5);
    wide[i] = curand_log_normal_double(&state, 0.0, 1.0);
  }
  states[threadIdx.x] = state;
}
"""


def _curand() -> Source:
    states = ("curandStateXORWOW_t", "curandStatePhilox4_32_10_t", "curandStateMRG32k3a_t")
    kernels = [f"{name}<{state}>" for name, state in product(("random_start", "random_draw"), states)]
    return Source("curand", _CURAND, kernels, packages=["nvidia-curand"])


_CUTLASS = """\
#include <cutlass/cutlass.h>
#include <cutlass/device_kernel.h>
#include <cutlass/epilogue/thread/linear_combination.h>
#include <cutlass/gemm/kernel/default_gemm.h>
template <int M, int N, int K>
using Shape = cutlass::gemm::GemmShape<M, N, K>;
using Rows = cutlass::layout::RowMajor;
using Columns = cutlass::layout::ColumnMajor;
template <typename A, typename B, typename C, typename Sum, typename Tile, typename Warp, typename Step,
          int ALIGN, typename Operator = cutlass::arch::OpMultiplyAdd>
using Gemm = typename cutlass::gemm::kernel::DefaultGemm<
    A, Rows, ALIGN, B, Columns, ALIGN, C, Rows, Sum,
    cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80, Tile, Warp, Step,
    cutlass::epilogue::thread::LinearCombination<C, 128 / cutlass::sizeof_bits<C>::value, Sum, Sum>,
    cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<>, 3, false, Operator>::GemmKernel;
"""
_HALF, _BF16, _TF32 = "cutlass::half_t", "cutlass::bfloat16_t", "cutlass::tfloat32_t"
# A, B, C, sum, tile, warp, step, alignment, and the operator where it is another one
_GEMMS = {
    "half": (_HALF, _HALF, _HALF, "float", "128, 128, 32", "64, 64, 32", "16, 8, 16", "8"),
    "half_small": (_HALF, _HALF, _HALF, _HALF, "64, 64, 32", "32, 32, 32", "16, 8, 16", "8"),
    "half_large": (_HALF, _HALF, "float", "float", "256, 128, 32", "64, 64, 32", "16, 8, 16", "8"),
    "half_huge": (_HALF, _HALF, "float", "float", "256, 256, 32", "64, 128, 32", "16, 8, 16", "8"),  # spills
    "bf16": (_BF16, _BF16, "float", "float", "128, 64, 32", "64, 32, 32", "16, 8, 16", "8"),
    "tf32": (_TF32, _TF32, "float", "float", "128, 128, 16", "64, 64, 16", "16, 8, 8", "4"),
    "double": ("double", "double", "double", "double", "64, 64, 16", "32, 32, 16", "8, 8, 4", "1"),
    "double_large": (*["double"] * 4, "128, 128, 16", "64, 64, 16", "8, 8, 4", "1"),  # spills
    "int8": ("int8_t", "int8_t", "int", "int", "128, 128, 64", "64, 64, 64", "16, 8, 32", "16"),
    "int4": (*["cutlass::int4b_t"] * 2, "int", "int", "128, 128, 128", "64, 64, 128", "16, 8, 64", "32"),
}


def _cutlass() -> Iterator[Source]:
    for name, (*scalars, tile, warp, step, align) in _GEMMS.items():
        shapes = [f"Shape<{shape}>" for shape in (tile, warp, step)]
        operator = ["cutlass::arch::OpMultiplyAddSaturate"] * name.startswith("int")
        gemm = f"using Product = Gemm<{', '.join([*scalars, *shapes, align, *operator])}>;\n"
        kernels = ["cutlass::Kernel<Product>"]
        packages = ["nvidia-cutlass==4.2.0.0"]
        yield Source(f"cutlass_{name}", _CUTLASS + gemm, kernels, has_host_functions=True, packages=packages)
