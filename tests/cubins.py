"""Cubins, wheels and a source with kernels of each kind, written by hand."""

from __future__ import annotations

import struct
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from hatch_cubin.bundle import loader_files, sbom
from hatch_cubin.bundle.manifest import read_manifest
from hatch_cubin.wheels.reading.bundles import open_wheel
from hatch_cubin.wheels.reading.survey import BundleFacts, survey
from tests.helpers import COPY_PTX, bundle, made, sha256, write_tree

OTHERS = len([*loader_files.OF_EVERY, "stub", "manifest", "keys", "bill"])  # files beside the units
PTX = COPY_PTX.encode()
FUNC, OBJECT, KERNEL, SECTION = 0x12, 0x11, 0x10, 5
REGISTERS = (".nv.info", 0x70000000, bytes.fromhex("042f080001000000") + (40).to_bytes(4, "little"), 0)


def elf(
    *symbols: tuple[str, int, int, int], kind: int = 2, more: Sequence[tuple[str, int, bytes, int]] = ()
) -> bytes:
    """Return a 64-bit ELF file whose *symbols* are (name, info, other, section).

    *more* are sections from number 2 on: (name, type, contents, what it is about).
    """
    names, table = b"\0", struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0)
    for name, info, other, section in symbols:
        table += struct.pack("<IBBHQQ", len(names), info, other, section, 0, 0)
        names += name.encode() + b"\0"
    rows, body = [], table
    for name, section_kind, contents, about in more:
        rows.append((len(names), section_kind, 64 + len(body), len(contents), about))
        names += name.encode() + b"\0"
        body += contents
    sections = struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, 64, len(table), 1, 0, 8, 24)
    sections += struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, 64 + len(body), len(names), 0, 0, 1, 0)
    for name_at, section_kind, at, size, about in rows:
        sections += struct.pack("<IIQQQQIIQQ", name_at, section_kind, 0, 0, at, size, 0, about, 1, 0)
    header = b"\x7fELF\x02\x01" + bytes(10) + struct.pack("<HHIQ", kind, 190, 1, 0)
    header += struct.pack("<QQIHHHHHH", 0, 64 + len(body) + len(names), 0, 64, 0, 0, 64, 2 + len(rows), 1)
    return header + body + names + sections


def cubin(kernel: str, registers: int = 40) -> bytes:
    """Return code whose one kernel uses so many registers."""
    said = REGISTERS[2][:8] + registers.to_bytes(4, "little")
    return elf((kernel, FUNC, KERNEL, 7), more=[(".nv.info", 0x70000000, said, 0)])


USING = """
    extern "C" __global__ void plain(float *x) { x[threadIdx.x] *= 2; }
    extern "C" __global__ void shares(float *x) {
      __shared__ float s[300];
      s[threadIdx.x] = x[threadIdx.x]; __syncthreads(); x[threadIdx.x] = s[299 - threadIdx.x];
    }
    extern "C" __global__ void stacks(int *x, int n) {
      int a[100];
      for (int i = 0; i < n; ++i) a[x[i] % 100] = i;
      x[0] = a[n];
    }
    extern "C" __global__ void __launch_bounds__(1024, 2) spills(float *x) {
      float a[64];
      #pragma unroll
      for (int i = 0; i < 64; ++i) a[i] = x[i * 1024 + threadIdx.x];
      __syncthreads();
      #pragma unroll
      for (int i = 0; i < 64; ++i) x[i * 1024 + threadIdx.x] = a[63 - i] * a[i * 7 % 64];
    }
"""

FILES = bundle(made("k"))


def in_wheel(wheel: str | Path, text: str) -> str:
    """Return a message with places as the wheel itself has them, if it is about a wheel."""
    return text.replace(f"{wheel}/", "") if str(wheel).endswith(".whl") else text


DATE = (2020, 2, 2, 0, 0, 0)  # as of builds that are made again to the byte


def make_wheel(path: Path, files: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, DATE), data, zipfile.ZIP_DEFLATED)
    return path


def inside(folder: str, files: Mapping[str, bytes] = FILES) -> dict[str, bytes]:
    return {f"{folder}/{name}": data for name, data in files.items()}


def bill_for(files: Mapping[str, bytes], package: str = "demo") -> bytes:
    """Return the bill of materials that fits a bundle's manifest."""
    manifest = read_manifest(files["manifest.json"])
    sources = {module.source for module in manifest.modules}
    parts = [sbom.file_part(source, sha256(source.encode())) for source in sources]
    tools = sbom.tools(manifest.generator[1], manifest.toolchain)
    return sbom.write_bill(sbom.bundle_part(package, {}), [*tools, *parts])


def facts_of(tmp_path: Path, files: Mapping[str, bytes]) -> BundleFacts:
    with open_wheel(str(write_tree(tmp_path / "_cubins", files))) as opened:
        return survey(opened.bundles[0])


def compiled(text: str, *options: str, headers: Mapping[str, str] = MappingProxyType({})) -> bytes | None:
    """Return the cubin that NVRTC itself makes of a text; None if it refuses the text."""
    from cuda.bindings import nvrtc

    contents, names = [each.encode() for each in headers.values()], [each.encode() for each in headers]
    _status, program = nvrtc.nvrtcCreateProgram(text.encode(), b"k.cu", len(names), contents, names)
    given = [b"-arch=sm_90", *(each.encode() for each in options)]
    try:
        if int(nvrtc.nvrtcCompileProgram(program, len(given), given)[0]):
            return None
        data = bytes(nvrtc.nvrtcGetCUBINSize(program)[1])
        nvrtc.nvrtcGetCUBIN(program, data)
        return data
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def assembled(folder: Path, text: bytes, *options: str) -> bytes | None:
    """Return the cubin that ptxas itself makes of a text; None if it refuses the text."""
    from hatch_cubin.toolkit.toolkit import Toolkit

    toolkit = Toolkit(None)
    (folder / "source.ptx").write_bytes(text)
    command = [toolkit.assembler, "-arch=sm_90", *options, "source.ptx", "-o", "source.cubin"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    return None if done.returncode else (folder / "source.cubin").read_bytes()
