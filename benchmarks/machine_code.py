"""The machine code of hatch-cubin, beside that of nvcc and ptxas of the same CUDA release.

    hatch run bench:code

Both sides build kernels of third parties, and PTX that Triton and pyptx write, for four archs. The table
says for how many kernels the registers, spills, stack, static shared memory and size of the code are equal,
better or worse. The list below it has the kernels that differ, and those that only one side has. `--release`
names another CUDA release, `--only` takes some sources, `--all` lists every kernel, `--json` writes them.
`--quick` downloads nothing: it takes CUB's kernels, one arch, and the toolkit of this environment. What is
downloaded and compiled stays in `--folder`. NOTES.md has what was seen.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import operator
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
from projects import tools as programs
from projects import write_project

from hatch_cubin.cubin.elf import _ANNOTATIONS, _attributes, read_resources, read_sections
from hatch_cubin.wheels.reading.cuobjdump import read_usage

ARCHS = ("sm_80", "sm_90a", "sm_100a", "sm_120")
_REPOSITORY = Path(__file__).parent.parent
_TOOLKIT = "cuda-toolkit[cccl,crt,cudart,curand,nvcc,nvrtc,nvvm]=={release}"
_PACKAGES = ("cuda-bindings==13.*", "cuda-core>=1.2,<2", "hatchling", "nvidia-cuda-cuobjdump", "platformdirs")
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


def tools_here() -> Tools:
    """Return the tools of this environment."""
    nvcc = next(each for each in programs("nvcc") if "site-packages" in each)
    return Tools(Path(sys.executable), Path(nvcc).parent)


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


class Built(NamedTuple):
    """What both sides made of some units, each a source and an arch."""

    what: str
    units: Sequence[tuple[str, str]]
    made: Mapping[str, bytes]  # ours: the files by name
    theirs: Sequence[bytes]  # for each unit

    @property
    def ours(self) -> list[bytes]:
        """Our cubin of each unit."""
        return [self.made[f"{source}.{arch}.cubin"] for source, arch in self.units]

    def rows(self) -> Iterator[Row]:
        """Yield the row of each kernel."""
        for (source, arch), mine, other in zip(self.units, self.ours, self.theirs, strict=True):
            left, right = figures(mine), figures(other)
            for kernel in sorted(left.keys() | right.keys()):
                (own, code), (its, other_code) = (side.get(kernel, (None, "")) for side in (left, right))
                yield Row(self.what, source, arch, kernel, own, its, (code, other_code))


def compile_sources(root: Path, chosen: Sequence[kernels.Source], tool: Tools, archs: Sequence[str]) -> Built:
    """Compile sources by hatch-cubin and by nvcc."""
    packages = sorted({each for source in chosen for each in source.packages})
    more = f"header-packages = {json.dumps(packages)}\n"
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
    return Built("cu", [(source.name, arch) for source, arch in units], made, _each(nvcc, units))


def write_ptx(folder: Path, tool: Tools) -> dict[str, bytes]:
    """Return the PTX that Triton and pyptx write, by file name; it stays in *folder*."""
    if not folder.exists():
        new = folder.with_name(f"{folder.name}.new")
        new.mkdir(exist_ok=True)
        script = Path(__file__).parent / "written_ptx.py"
        tool.run([tool.python, script, new, tool.programs / "ptxas"], folder.parent)
        new.rename(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def assemble(root: Path, written: Mapping[str, bytes], tool: Tools) -> Built:
    """Assemble PTX by hatch-cubin and by ptxas."""
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
    return Built("ptx", units, made, _each(ptxas, units))


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


def check(tool: Tools, cubins: Sequence[bytes]) -> tuple[int, list[str]]:
    """Compare figures of cubins with cuobjdump's; return the number of kernels, and the differences."""
    count, other = 0, []
    for cubin in cubins:
        said = read_usage(str(tool.programs / "cuobjdump"), cubin)
        read = {kernel: found for kernel, (found, _code) in figures(cubin).items()}
        count += len(read)
        for kernel in said.keys() | read.keys():
            uses, own = said.get(kernel), read.get(kernel)
            its = own and {"registers": own.registers, "shared": own.shared, "stack": own.stack}
            if uses != its:
                other.append(f"{kernel}: {its}, cuobjdump says {uses}")
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
    parser.add_argument("--quick", action="store_true", help="few kernels, nothing downloaded")
    parser.add_argument("--only", metavar="REGEX", default="", help="only sources whose name it matches")
    parser.add_argument("--all", action="store_true", help="list equal kernels too")
    parser.add_argument("--folder", type=Path, default=home / "hatch-cubin-bench", help="for what is kept")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write every kernel there")
    arguments = parser.parse_args()
    folder = arguments.folder.absolute()
    archs: Sequence[str] = ARCHS
    if arguments.quick:
        tool, release, chosen, archs = tools_here(), "here", [*kernels.of_cub()][-2:], ARCHS[:1]
    else:
        tool, release = tools(folder, arguments.release), arguments.release
        sources = kernels.sources(unpack_sdists(folder))
        chosen = [each for each in sources if re.match(arguments.only, each.name)]
        shutil.copytree(folder / "unpacked", folder / f"projects-{release}/cu/third", dirs_exist_ok=True)
    root = folder / f"projects-{release}"
    compiled = compile_sources(root / "cu", chosen, tool, archs)
    texts = {name: data for name, data in compiled.made.items() if name.endswith(".ptx")}
    if not arguments.quick:
        written = write_ptx(folder / f"written-{release}", tool)
        texts |= {name: data for name, data in written.items() if re.match(arguments.only, name)}
    assembled = assemble(root / "ptx", texts, tool)
    rows = [*compiled.rows(), *assembled.rows()]
    print(totals(rows), "", sep="\n")
    print(listed(row for row in rows if arguments.all or row.verdict != "equal"), "", sep="\n")
    equal = sum(map(operator.eq, assembled.ours, assembled.theirs))
    print(f"Of {len(texts)} .ptx files {equal} gave the same file as ptxas does, byte for byte.")
    count, registers, codes = of_both_kinds(rows)
    print(f"Of {count} kernels as .cu and NVRTC's PTX, {registers} have equal registers, {codes} equal code.")
    count, other = check(
        tool, [each for side in (*_sides(compiled), *_sides(assembled)) for each in side[::10]]
    )
    print(f"cuobjdump -res-usage says the same of {count - len(other)} of {count} kernels.", *other, sep="\n")
    if arguments.json:
        arguments.json.write_text(json.dumps([row._asdict() for row in rows], indent=1), "utf-8")


def _sides(built: Built) -> tuple[Sequence[bytes], Sequence[bytes]]:
    return built.ours, built.theirs


if __name__ == "__main__":
    main()
