"""The page of the documentation that shows the results of adopt.py. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

PAGE = "docs/reference/adopters.md"

_TEXT = """\
# Real libraries, built with hatch-cubin

`hatch run adopters` adds hatch-cubin to real libraries, with [small patches](../../adopters/patches). The
libraries are sdists from the package index, with a fixed version and digest. For each library, the script
does the following, and writes this page:

1. The library's own build backend makes the original wheel, and makes the wheel with hatch-cubin twice:
   with an empty cache, and with a filled cache. Each build is a `pip wheel` in an isolated environment.
2. `hatch-cubin check` and `hatch-cubin verify --rebuild` check the wheel.
3. The wheel is installed in an environment without NVRTC, and the package is imported there. For each of the
   capabilities 8.6, 9.0, 10.3 and 12.0, the loader must find machine code of every kernel that the original
   library compiles at run time.

The machine had no GPU, so no kernel has run. The script replaced those functions of CuPy that need a GPU by
functions that report GPUs of the four capabilities.

## Results

{results}

- Lines: the lines that the patch adds and removes.
- Kernels: the kernels that the original library compiles at run time.
- Units: the compiled files. A unit is a module (one text, with all its kernels) for one arch. There are
  four archs.
- Compile: the sum of the compile times of all units.
- Build: the time of `pip wheel` without hatch-cubin, with an empty cache, and with a filled cache. The
  build times contain the download and the installation of build requirements.
- Wheel: the size of the wheel without and with hatch-cubin.

The machine has two cores, which other programs used too, so the times are rough.

## What the libraries still compile at run time

{missing}

## Versions

{versions}
"""

_FIGURES = (
    *("library", "kind of build", "result", "lines", "kernels", "units"),
    *("compile, s", "build, s", "wheel, KiB"),
)


def text(libraries: Iterable[Mapping[str, Any]], results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page for the rows of libraries.toml and their results."""
    tried = [(row, results[row["name"]]) for row in libraries if row["name"] in results]
    done = [(row["name"], result) for row, result in tried if "failed" not in result]
    return _TEXT.format(
        results=_table(_FIGURES, (_figures(row, result) for row, result in tried)),
        missing="\n".join(f"- {row['name']}: {row['missing']}." for row, _ in tried),
        versions=_table(
            ("library", "date", "Python", "hatch-cubin", "NVRTC", "cuda-core"),
            ((name, result["date"], *_versions(result)) for name, result in done),
        ),
    )


def _figures(row: Mapping[str, Any], result: Mapping[str, Any]) -> Sequence[object]:
    named = (f"{row['name']} {row['version']}", row["kind"])
    if "failed" in result:
        return (*named, f"failed: {result['failed']}", *[""] * 6)
    added, removed = result["lines"]
    seconds = " · ".join(f"{each:.0f}" for each in result["seconds"])
    before, after = (f"{size / 1024:,.0f}".replace(",", " ") for size in result["bytes"])
    figures = (f"+{added}, -{removed}", result["kernels"], result["units"], f"{result['compiling']:.1f}")
    return (*named, "all found", *figures, seconds, f"{before} · {after}")


def _versions(result: Mapping[str, Any]) -> Sequence[str]:
    tools = result["toolchain"]
    return result["python"], tools["hatch-cubin"], tools["nvrtc"], tools["cuda_core"]


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    cells = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in cells)
