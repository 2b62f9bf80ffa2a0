"""The machine code of hatch-cubin, beside that of nvcc and ptxas of the same CUDA release.

    hatch run bench:code

Both sides build kernels of third parties, and PTX that Triton and pyptx write, for four archs. The table
says for how many kernels the registers, spills, stack, static shared memory and size of the code are equal,
better or worse. The list below it has the kernels that differ, and those that only one side has. `--release`
names another CUDA release, `--quick` takes few kernels and one arch, `--all` lists every kernel, `--json`
writes them. What is downloaded and compiled stays in `--folder`. NOTES.md has what was seen.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

import kernels
from commands import CORES
from measuring import environment
from projects import write_project

from hatch_cubin.cubin.elf import _ANNOTATIONS, _attributes, read_resources, read_sections
from hatch_cubin.wheels.cuobjdump import read_usage

ARCHS = ("sm_80", "sm_90a", "sm_100a", "sm_120")
_QUICK = ("array_localindex", "cub_shuffle", "thinc__murmur3", "triton_add", "ampere_softmax")
_REPOSITORY = Path(__file__).parent.parent
_TOOLKIT = "cuda-toolkit[cccl,crt,cudart,curand,nvcc,nvrtc,nvvm]=={release}"
_PACKAGES = ("cuda-bindings==13.*", "cuda-core>=1.2,<2", "nvidia-cuda-cuobjdump", "platformdirs")
_HEADERS = ("nvidia-curand", "nvidia-cutlass==4.2.0.0")
_WRITERS = ("pyptx==0.1.1", "triton==3.9.0")
_Unit = TypeVar("_Unit")
_LOAD, _STORE = 0x983, 0x387  # the opcodes LDL and STL, from sm_80 on


class Figures(NamedTuple):
    """What a kernel uses: less is better. Spills are counted in instructions, sizes in bytes."""

    registers: int
    loads: int
    stores: int
    stack: int
    shared: int
    size: int


class Row(NamedTuple):
    """One kernel for one arch: what both sides made of it, and the digests of both codes."""

    what: str  # "cu" or "ptx"
    source: str
    arch: str
    kernel: str
    ours: Figures | None
    theirs: Figures | None
    codes: tuple[str, str]

    @property
    def same(self) -> bool:
        """Whether the code is the same byte for byte."""
        return self.codes[0] == self.codes[1]

    @property
    def verdict(self) -> str:
        if not (self.ours and self.theirs):
            return "only ours" if self.ours else "only theirs"
        if any(mine > other for mine, other in zip(self.ours, self.theirs, strict=True)):
            return "worse"
        return "equal" if self.ours == self.theirs else "better"


class Tools(NamedTuple):
    """The environment of one CUDA release."""

    python: Path
    programs: Path

    def run(self, command: Sequence[str | Path], cwd: Path) -> bytes:
        """Run a program of the environment; RuntimeError says what it printed if it fails."""
        more = {"PYTHONPATH": str(_REPOSITORY), "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(command, cwd=cwd, env=environment(more), capture_output=True, check=False)
        if done.returncode:
            said = (done.stdout + done.stderr).decode("utf-8", "replace")
            raise RuntimeError(f"{' '.join(map(str, command))} ended with {done.returncode}\n{said}")
        return done.stdout


def tools(folder: Path, release: str) -> Tools:
    """Return the tools of a CUDA release, installed below *folder* at the first call."""
    place = folder / f"cuda-{release}"
    python = place / "bin/python"
    wanted = [_TOOLKIT.format(release=release), *_PACKAGES, *_HEADERS, *_WRITERS]
    noted = place / "installed.txt"
    if not noted.exists() or noted.read_text("utf-8") != "\n".join(wanted):
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", place], check=True)
        pip = [sys.executable, "-m", "pip", "--python", str(python)]
        subprocess.run([*pip, "install", "-q", *wanted], check=True)
        noted.write_text("\n".join(wanted), "utf-8")
    (nvcc,) = place.glob("lib/python*/site-packages/nvidia/*/bin/nvcc")
    return Tools(python, nvcc.parent)


def unpack_sdists(folder: Path) -> Path:
    """Return the folder with the unpacked sdists, which are downloaded at the first call."""
    archives, unpacked = folder / "archives", folder / "unpacked"
    pins = "".join(f"{pin} --hash=sha256:{digest}\n" for pin, digest in kernels.SDISTS.items())
    noted = unpacked / "requirements.txt"
    if not noted.exists() or noted.read_text("utf-8") != pins:
        shutil.rmtree(unpacked, ignore_errors=True)
        unpacked.mkdir(parents=True)
        (folder / "requirements.txt").write_text(pins, "utf-8")
        names = ",".join(pin.partition("==")[0] for pin in kernels.SDISTS)  # and no package that builds them
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", names]
        requirements = ["--require-hashes", "-r", f"{folder}/requirements.txt", "-d", str(archives)]
        subprocess.run([*command, *requirements], check=True)
        for pin in kernels.SDISTS:
            name, _, version = pin.partition("==")
            (archive,) = archives.glob(f"{name}-{version}.tar.gz")
            with tarfile.open(archive) as files:
                files.extractall(unpacked, filter="data")
        noted.write_text(pins, "utf-8")
    return unpacked


def _bundle(root: Path, tool: Tools) -> dict[str, bytes]:
    """Return the files that hatch-cubin makes of a project, by name."""
    tool.run([tool.python, "-m", "hatch_cubin", "bundle", "--into", "bench"], root)
    return {path.name: path.read_bytes() for path in (root / "bench/_cubins").iterdir() if path.is_file()}


def _new_project(root: Path, files: Mapping[str, str], archs: Sequence[str], more: str) -> Path:
    """Write a project anew, with the cache that it had."""
    shutil.rmtree(root / "bench", ignore_errors=True)
    return write_project(root, dict(files), tuple(archs), more)


def _table(path: str, **keys: object) -> str:
    """Return a table of the project's file for one source."""
    lines = "".join(f"{name.replace('_', '-')} = {json.dumps(value)}\n" for name, value in keys.items())
    return f'\n[[tool.hatch.build.hooks.cubin.source]]\npath = "bench/{path}"\n{lines}'


def compile_sources(
    root: Path, sdists: Path, tool: Tools, archs: Sequence[str], wanted: Callable[[str], bool]
) -> tuple[list[Row], dict[str, bytes]]:
    """Compile every source by hatch-cubin and by nvcc; return the rows, and the PTX that NVRTC wrote."""
    chosen = [each for each in kernels.sources(sdists) if wanted(each.name)]
    third = root / "third"
    if not third.exists():
        root.mkdir(parents=True, exist_ok=True)
        shutil.copytree(sdists, third)
    more = f"header-packages = {json.dumps(_HEADERS)}\n"
    for source in chosen:
        folders = [f"third/{folder}" for folder in dict.fromkeys(source.includes)]
        more += _table(f"{source.name}.cu", instantiate=list(source.kernels), include_dirs=folders)
        if source.has_host_functions:
            more += 'options = { device-as-default-execution-space = true, pre-include = ["type_traits"] }\n'
    texts = [arch.replace("sm_", "compute_") for arch in archs]
    files = {f"bench/{source.name}.cu": source.file_text() for source in chosen}
    made = _bundle(_new_project(root, files, [*archs, *texts], more), tool)
    cutlass = tool.python.parent.parent.glob("lib/python*/site-packages/cutlass_library/source/include")
    shared = [f"-I{folder}" for folder in cutlass]

    def nvcc(unit: tuple[kernels.Source, str]) -> bytes:
        source, arch = unit
        folders = [f"-Ithird/{folder}" for folder in source.includes]
        what = ["-cubin", f"-arch={arch}", *folders, *shared, f"bench/{source.name}.cu"]
        digest = hashlib.sha256(repr((what, source.file_text())).encode()).hexdigest()
        result = root / f"nvcc/{source.name}.{arch}.{digest[:16]}.cubin"
        if not result.exists():  # it takes a second at least
            result.parent.mkdir(exist_ok=True)
            tool.run([tool.programs / "nvcc", "-w", *what, "-o", f"{result}.new"], root)
            os.replace(f"{result}.new", result)
        return result.read_bytes()

    units = [(source, arch) for source in chosen for arch in archs]
    names = [(source.name, arch) for source, arch in units]
    rows = _rows("cu", names, made, _each(nvcc, units))
    return rows, {name: data for name, data in made.items() if name.endswith(".ptx")}


def assemble(
    root: Path, written: Mapping[str, bytes], tool: Tools
) -> tuple[list[Row], int, dict[str, bytes]]:
    """Assemble PTX by hatch-cubin and by ptxas; return the rows, how many whole files are equal, and ours."""
    texts = {name.removesuffix(".ptx").replace(".", "_"): data.decode() for name, data in written.items()}
    targets = {}
    for name, text in texts.items():
        if not (match := re.search(r"^\.target\s+(sm_\w+)", text, re.MULTILINE)):
            raise RuntimeError(f"{name} has no .target")
        targets[name] = match[1]
    more = "".join(_table(f"{name}.ptx", archs=[arch]) for name, arch in targets.items())
    files = {f"bench/{name}.ptx": text for name, text in texts.items()}
    made = _bundle(_new_project(root, files, [*ARCHS], more), tool)

    def ptxas(unit: tuple[str, str]) -> bytes:
        name, arch = unit
        result = root / f"{name}.cubin"
        tool.run([tool.programs / "ptxas", f"-arch={arch}", f"bench/{name}.ptx", "-o", result], root)
        return result.read_bytes()

    units = list(targets.items())
    theirs = _each(ptxas, units)
    equal = sum(
        made[f"{name}.{arch}.cubin"] == data for (name, arch), data in zip(units, theirs, strict=True)
    )
    return _rows("ptx", units, made, theirs), equal, made


def _each(action: Callable[[_Unit], bytes], units: Iterable[_Unit]) -> list[bytes]:
    with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
        return list(pool.map(action, units))


def figures(data: bytes) -> dict[str, tuple[Figures, str]]:
    """Return what each kernel of a cubin uses, and the digest of its code, by symbol."""
    sections = read_sections(data)
    code = {
        name.removeprefix(".text."): inside for name, _size, inside in sections if name.startswith(".text.")
    }
    notes = {name.removeprefix(".nv.info."): inside for name, _size, inside in sections}
    found = {}
    for symbol, uses in read_resources(data).items():
        spilling = [code[symbol][at : at + 2] for at in _spills(notes[symbol])]
        opcodes = Counter(int.from_bytes(each, "little") & 0xFFF for each in spilling)
        if set(opcodes) - {_LOAD, _STORE} or opcodes.total() != uses["spills"]:
            raise ValueError(f"{symbol} has spills of another kind: {opcodes}, {uses}")
        own = Figures(
            uses["registers"],
            opcodes[_LOAD],
            opcodes[_STORE],
            uses["stack"],
            uses["shared"],
            len(code[symbol]),
        )
        found[symbol] = (own, hashlib.sha256(code[symbol]).hexdigest())
    return found


def _spills(notes: bytes) -> Iterator[int]:
    """Yield where in a kernel's code the instructions are that spill or refill a register."""
    for attribute, value in _attributes(notes):
        if attribute == _ANNOTATIONS:
            yield from (offset for _kind, offset in struct.iter_unpack("<II", value))


def _rows(
    what: str, units: Sequence[tuple[str, str]], ours: Mapping[str, bytes], theirs: Sequence[bytes]
) -> list[Row]:
    rows = []
    for (source, arch), other in zip(units, theirs, strict=True):
        left, right = figures(ours[f"{source}.{arch}.cubin"]), figures(other)
        for kernel in sorted(left.keys() | right.keys()):
            (mine, code), (its, other_code) = (side.get(kernel, (None, "")) for side in (left, right))
            rows.append(Row(what, source, arch, kernel, mine, its, (code, other_code)))
    return rows


def check(tool: Tools, cubins: Mapping[str, bytes], every: int) -> tuple[int, list[str]]:
    """Compare figures of some cubins with cuobjdump; return the number of kernels, and the differences."""
    count, other = 0, []
    for name in sorted(name for name in cubins if name.endswith(".cubin"))[::every]:
        said = read_usage(str(tool.programs / "cuobjdump"), cubins[name])
        read = {kernel: found for kernel, (found, _code) in figures(cubins[name]).items()}
        count += len(read)
        for kernel in said.keys() | read.keys():
            uses, own = said.get(kernel), read.get(kernel)
            its = own and {"registers": own.registers, "shared": own.shared, "stack": own.stack}
            if uses != its:
                other.append(f"{name}: {kernel}: {its}, cuobjdump says {uses}")
    return count, other


def of_both_kinds(rows: Sequence[Row]) -> tuple[int, int, int]:
    """Return how many kernels are there as .cu and NVRTC's PTX, with equal registers, and with equal code."""
    sources = {(row.source, row.arch, row.kernel): row for row in rows if row.what == "cu" and row.ours}
    pairs = []
    for row in rows:
        source, _, text = row.source.rpartition("_compute_")
        if row.what == "ptx" and row.ours and text and row.arch == f"sm_{text}":
            pairs.append((row, sources[source, row.arch, row.kernel]))
    registers = sum(
        text.ours.registers == source.ours.registers for text, source in pairs if text.ours and source.ours
    )
    return len(pairs), registers, sum(text.codes[0] == source.codes[0] for text, source in pairs)


def totals(rows: Iterable[Row]) -> str:
    """Return the table of totals, in Markdown."""
    lines = [
        "| from | arch | kernels | same code | equal | better | worse | one side |",
        "| --- | --- |" + " ---: |" * 6,
    ]
    rows = list(rows)
    for what, arch in dict.fromkeys((row.what, row.arch) for row in rows):
        own = [row for row in rows if (row.what, row.arch) == (what, arch)]
        counts = Counter(row.verdict for row in own)
        one_side = counts["only ours"] + counts["only theirs"]
        shown = (
            len(own),
            sum(row.same for row in own),
            counts["equal"],
            counts["better"],
            counts["worse"],
            one_side,
        )
        lines.append(f"| .{what} | {arch} | {' | '.join(map(str, shown))} |")
    return "\n".join(lines)


def listed(rows: Iterable[Row]) -> str:
    """Return the kernels side by side, in Markdown."""
    names = ("registers", "spill loads", "spill stores", "stack", "shared", "code")
    lines = [f"| kernel | arch | | {' | '.join(names)} |", "| --- | --- | --- |" + " ---: |" * len(names)]
    for row in rows:
        sides = zip(row.ours or "------", row.theirs or "------", strict=True)
        cells = [f"{mine}" if mine == other else f"{mine}, {other}" for mine, other in sides]
        lines.append(f"| {row.source}: `{row.kernel}` | {row.arch} | {row.verdict} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Build, compare, print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser.add_argument("--release", default="13.0.2", help="of CUDA, by default 13.0.2")
    parser.add_argument("--quick", action="store_true", help="few kernels, one arch")
    parser.add_argument("--all", action="store_true", help="list equal kernels too")
    parser.add_argument("--folder", type=Path, default=home / "hatch-cubin-bench", help="for what is kept")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write every kernel there")
    arguments = parser.parse_args()
    folder = arguments.folder.absolute()
    tool = tools(folder, arguments.release)
    archs = ARCHS[:1] if arguments.quick else ARCHS

    def wanted(name: str) -> bool:
        return not arguments.quick or any(each in name for each in _QUICK)

    root = folder / f"projects-{arguments.release}"
    rows, texts = compile_sources(root / "cu", unpack_sdists(folder), tool, archs, wanted)
    written = folder / f"written-{arguments.release}"
    if not written.exists():
        new = folder / "written.new"
        new.mkdir(exist_ok=True)
        tool.run(
            [tool.python, Path(__file__).parent / "written_ptx.py", new, tool.programs / "ptxas"], folder
        )
        new.rename(written)
    made = {path.name: path.read_bytes() for path in written.iterdir() if wanted(path.name)}
    more, equal, ours = assemble(root / "ptx", texts | made, tool)
    print(
        totals(rows + more),
        "",
        listed(row for row in rows + more if arguments.all or row.verdict != "equal"),
        sep="\n",
    )
    print(f"\nOf {len(texts | made)} .ptx files {equal} gave the same file as ptxas does, byte for byte.")
    count, registers, codes = of_both_kinds(rows + more)
    print(
        f"Of {count} kernels as .cu and as NVRTC's PTX, {registers} have equal registers, {codes} equal code."
    )
    count, other = check(tool, ours, 10)
    print(f"cuobjdump -res-usage says the same of {count - len(other)} of {count} kernels.", *other, sep="\n")
    if arguments.json:
        arguments.json.write_text(json.dumps([row._asdict() for row in rows + more], indent=1), "utf-8")


if __name__ == "__main__":
    main()
