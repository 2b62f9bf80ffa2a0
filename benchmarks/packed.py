"""What packing gives, and what it costs to read: one table for a folder of cubins, whoever made them.

    python benchmarks/packed.py FOLDER

Files are called `NAME.ARCH.cubin`, as in an unzipped wheel, or as `cuobjdump -xelf all` writes them. Both
bundles are made of the same cubins. "First" is the first read in a new process, of each block once: median,
slowest, and how much more memory the process took at most. "Repeated" is the best mean of reads again,
within an unpacked block and of a file. NOTES.md has what was seen.
"""

from __future__ import annotations

import hashlib
import json
import re
import statistics
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from hatch_cubin.bundle import loader_files, manifest, packs
from hatch_cubin.cache.entries import Compiled
from hatch_cubin.toolkit import worker

Cubins = Mapping[tuple[str, str], bytes]  # by name and arch

_NAME = re.compile(r"(.+)\.(sm_[0-9]+[af]?)\.cubin")
_CODE = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
import bundle as cubins

def peak():
    with open("/proc/self/status") as file:
        return int(next(line for line in file if line.startswith("VmHWM")).split()[1]) / 1024

name, cc = sys.argv[2], (int(sys.argv[3]) // 10, int(sys.argv[3]) % 10)
cubins.find(name, cc=cc)
before, start = peak(), time.perf_counter()
cubins.read(name, cc=cc)
first, more = time.perf_counter() - start, peak() - before
means = []
for _ in range(5):
    start = time.perf_counter()
    for _ in range(200):
        cubins.read(name, cc=cc)
    means.append((time.perf_counter() - start) / 200)
print(json.dumps([first * 1000, more, min(means) * 1e6]))
"""


def read_folder(folder: Path) -> Cubins:
    """Return the cubins of a folder."""
    matches = ((path, _NAME.fullmatch(path.name)) for path in sorted(folder.iterdir()))
    return {(match[1], match[2]): path.read_bytes() for path, match in matches if match}


def write_bundle(folder: Path, cubins: Cubins, packed: packs.PackedBlocks | None) -> None:
    """Write a bundle of cubins with a file for each, or with the blocks of all."""
    folder.mkdir()
    modules: dict[str, list[dict[str, Any]]] = {}
    for (name, arch), data in cubins.items():
        digest = hashlib.sha256(data).hexdigest()
        place: Mapping[str, str | int] = {"file": f"{name}.{arch}.cubin"}
        if packed is None:
            (folder / f"{name}.{arch}.cubin").write_bytes(data)
        else:
            place = packed.slots[arch, digest]._asdict()
        known: dict[str, Any] = {
            "arch": arch,
            "kind": "cubin",
            "size": len(data),
            "sha256": digest,
            "min_driver": 12000,
        }
        modules.setdefault(name, []).append({**known, **place})
    header: dict[str, Any] = {"format": 1, "generator": {"name": "bench", "version": "0"}, "toolchain": {}}
    if packed is not None:
        header |= {"format": 2, "blocks": packed.manifest_entries}
        for name, content in packed.files.items():
            (folder / name).write_bytes(b"".join(content if isinstance(content, list) else ()))
    lines = [
        manifest.module_line(
            name,
            {"source": "x.cu", "variant": {}, "kernels": {name: name}, "options": {}, "entries": entries},
        )
        for name, entries in modules.items()
    ]
    index = {name: [name] for name in modules}
    (folder / "manifest.json").write_bytes(b"".join(manifest.write_manifest(header, index, lines)))
    for name in loader_files.needed_by(units=0, packed=True, split=False):
        (folder / name).write_bytes(loader_files.read(name))


def pack(cubins: Cubins) -> packs.PackedBlocks:
    """Return the blocks of cubins, as a build packs them."""
    data = {hashlib.sha256(each).hexdigest(): each for each in cubins.values()}
    pieces = [
        packs.Piece(name, name, arch, hashlib.sha256(each).hexdigest(), len(each))
        for (name, arch), each in cubins.items()
    ]
    blocks = packs.plan_blocks(pieces)
    code = {block.key: b"".join(data[piece.sha256] for piece in block.pieces) for block in blocks}
    done = {
        key: worker.compile_task({"id": 0, "kind": "xz", "code": each, "searches": False})["output"]
        for key, each in code.items()
    }
    return packs.assemble_blocks(blocks, {key: Compiled(output, {}) for key, output in done.items()})


def measure(folder: Path, name: str, arch: str) -> list[float]:
    """Return what a first read takes, in ms and MiB, and a repeated one, in µs."""
    capability = "".join(filter(str.isdigit, arch))
    command = [sys.executable, "-S", "-c", _CODE, str(folder), name, capability]
    found: list[float] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return found


def _spread(found: list[float], digits: str, unit: str) -> str:
    return f"{statistics.median(found):{digits}} {unit}, at most {max(found):{digits}}"


def main() -> None:
    """Print the table."""
    cubins = read_folder(Path(sys.argv[1]))
    total = sum(map(len, cubins.values()))
    alone = sum(len(zlib.compress(data)) for data in {*cubins.values()})
    packed = pack(cubins)
    size = sum(int(block["packed"]) for block in packed.manifest_entries.values())
    first: dict[str, tuple[str, str]] = {}
    for (name, arch), data in cubins.items():
        first.setdefault(packed.slots[arch, hashlib.sha256(data).hexdigest()].block, (name, arch))
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "a").mkdir()
        (Path(place) / "b").mkdir()
        write_bundle(Path(place) / "a/bundle", cubins, None)
        write_bundle(Path(place) / "b/bundle", cubins, packed)
        files = [measure(Path(place) / "a", *each) for each in first.values()]
        blocks = [measure(Path(place) / "b", *each) for each in first.values()]
    repeated = [ours[2] / theirs[2] for ours, theirs in zip(blocks, files, strict=True)]
    shown = (
        ("cubins", f"{len(cubins)} in {len(packed.files)} blocks, {total / 2**20:.1f} MiB"),
        ("deflated one by one", f"{alone / total:.3f} of that"),
        ("blocks", f"{size / total:.3f}, {size / alone:.3f} × deflated"),
        ("first read of a file", f"{statistics.median(each[0] for each in files):.1f} ms"),
        ("first read of a block", _spread([each[0] for each in blocks], ".1f", "ms")),
        ("more memory", _spread([each[1] for each in blocks], ".1f", "MiB")),
        ("repeated read", _spread(repeated, ".2f", "× that of a file")),
    )
    print(*(f"{what:24}{value}" for what, value in shown), sep="\n")


if __name__ == "__main__":
    main()
