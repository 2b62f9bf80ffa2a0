"""Wheels of many kernels, made without a compiler, with chosen resources."""

from __future__ import annotations

import base64
import hashlib
import random
import struct
from collections.abc import Mapping
from pathlib import Path

from hatch_cubin.bundle import layout, sbom
from tests.cubins import FUNC, KERNEL, bill_for, elf, inside, make_wheel
from tests.helpers import bundle, made

Kernel = tuple[str, str]  # its name, which is its module's too, and an arch

INFO = "demo-1.0.dist-info"
METADATA = b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"
_ATTRIBUTES = 0x70000000


def code(
    kernel: str, *, registers: int = 32, spills: int = 0, stack: int = 0, shared: int = 0, size: int = 64
) -> bytes:
    """Return a cubin whose one kernel uses that much; its code is different for each name."""
    said = struct.pack("<BBHII", 4, 0x2F, 8, 1, registers) + struct.pack("<BBHII", 4, 0x11, 8, 1, stack)
    annotations = b"".join(struct.pack("<II", 1, 16 * number) for number in range(spills))
    about = struct.pack("<BBH", 4, 0x55, len(annotations)) + annotations if spills else b""
    return elf(
        (kernel, FUNC, KERNEL, 2),
        more=[
            (f".text.{kernel}", 1, random.Random(kernel).randbytes(size), 0),  # noqa: S311
            (".nv.info", _ATTRIBUTES, said, 0),
            (f".nv.info.{kernel}", _ATTRIBUTES, about, 2),
            (f".nv.shared.{kernel}", 8, bytes(shared), 2),
        ],
    )


def units(kernels: Mapping[Kernel, bytes]) -> list[layout.BuiltUnit]:
    """Return a unit for each kernel and arch."""
    ordered = sorted(kernels.items(), key=lambda item: item[0][0])  # those of a module stand together
    return [made(name, arch, data=data) for (name, arch), data in ordered]


def whole_wheel(folder: Path, files: Mapping[str, bytes], tag: str = "py3-none-any", **more: bytes) -> Path:
    """Return a wheel as a build makes it, with a bundle in `demo`; *more* replaces files of the metadata."""
    folder.mkdir(parents=True, exist_ok=True)
    metadata = {"WHEEL": f"Wheel-Version: 1.0\nTag: {tag}\n".encode(), "METADATA": METADATA, **more}
    members = {
        "demo/__init__.py": b"",
        **inside("demo/_cubins", files),
        f"{INFO}/sboms/{sbom.NAME}": bill_for(files),
        **{f"{INFO}/{name}": data for name, data in metadata.items()},
    }
    lines = [f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in members.items()]
    members[f"{INFO}/RECORD"] = f"{''.join(lines)}{INFO}/RECORD,,\n".encode()
    return make_wheel(folder / f"demo-1.0-{tag}.whl", members)


def wheel_of(folder: Path, kernels: Mapping[Kernel, bytes]) -> Path:
    """Return a whole wheel of these kernels."""
    return whole_wheel(folder, bundle(*units(kernels)))


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
