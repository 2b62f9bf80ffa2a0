"""README's pictures of a terminal and of a page, made of two builds of the example project.

    hatch run bench:pictures

The second build has kernels with regressions in them, which `diff` finds. The page needs Chromium: on PATH as
`chromium`, or where `--browser` says. Nothing compares the pictures with what is committed.
"""

from __future__ import annotations

import argparse
import html
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
INTO = ROOT / "docs" / "pictures"

_FILTERS = """\
extern "C" __global__ void __launch_bounds__(1024, 2) blur(float *x) {
  float a[COUNT];
#pragma unroll
  for (int i = 0; i < COUNT; ++i) a[i] = x[i * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < COUNT; ++i) x[i * 1024 + threadIdx.x] = a[COUNT - 1 - i] * a[i * 7 % COUNT];
}
#if CONDITION
extern "C" __global__ void sharpen(float *x) { x[threadIdx.x] *= 2; }
#endif
"""
# A careless change: too much for its registers, and a condition that one arch does not meet.
_BEFORE = {"COUNT": "16", "CONDITION": "1"}
_AFTER = {"COUNT": "48", "CONDITION": "__CUDA_ARCH__ != 800"}
_WIDE, _LINE, _LEFT, _TOP = 8.4, 19, 18, 48
_STYLE = """\
text { font: 14px ui-monospace, "DejaVu Sans Mono", monospace; fill: #d7dde5; white-space: pre }
.typed { fill: #76b900; font-weight: 600 }
.wrong { fill: #ff8080 }
"""


def main() -> None:
    """Build both, and draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--browser", help="the path of Chromium")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pictures-") as name:
        folder = Path(name)
        environ = {**os.environ, "HATCH_CUBIN_CACHE_DIR": str(folder / "cache"), "HATCH_CUBIN_TOOLKIT": "13"}
        for each, words in (("released", _BEFORE), ("dist", _AFTER)):
            _build(folder / each, environ, words)
        wheels = [f"{each}/waves-1.0.0-py3-none-any.whl" for each in ("released", "dist")]
        shown: list[str] = []
        for asked in (("diff", *wheels), ("check", wheels[1])):
            said = _said(folder, asked)
            cut = said.index("size by arch, unpacked") if asked[0] == "diff" else len(said)
            shown += [f"$ hatch-cubin {' '.join(asked)}", *said[:cut], *["…", ""] * (cut < len(said))]
        (INTO / "terminal.svg").write_text(_drawn(shown), "utf-8")
        _said(folder, ("inspect", wheels[1], "--html", "page.html"))
        browser = arguments.browser or shutil.which("chromium") or sys.exit("there is no Chromium: --browser")
        size, picture = "--window-size=1200,1000", f"--screenshot={INTO / 'page.png'}"
        options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
        page = (folder / "page.html").as_uri()
        subprocess.run([browser, *options, size, picture, page], check=True, capture_output=True)


def _build(into: Path, environ: dict[str, str], words: dict[str, str]) -> None:
    """Build the example's wheel into a folder, with two kernels more."""
    project = into.parent / f"{into.name} project"
    shutil.copytree(ROOT / "example_project", project)
    text = _FILTERS
    for name, value in words.items():
        text = text.replace(name, value)
    (project / "src" / "waves" / "kernels" / "filters.cu").write_text(text, "utf-8")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)]
    subprocess.run(command, cwd=project, env=environ, check=True, capture_output=True)


def _said(folder: Path, words: tuple[str, ...]) -> list[str]:
    """Return what the command line prints, on whichever stream."""
    command = [sys.executable, "-m", "hatch_cubin", *words]
    done = subprocess.run(command, cwd=folder, check=False, stdout=-1, stderr=-2, text=True, env=_plain())
    return done.stdout.splitlines()


def _plain() -> dict[str, str]:
    return {**os.environ, "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}


def _drawn(lines: list[str]) -> str:
    """Return a terminal with these lines, as SVG."""
    width = _LEFT * 2 + round(_WIDE * max(map(len, lines)))
    height = _TOP + _LINE * len(lines)
    buttons = "".join(
        f'<circle cx="{22 + 20 * number}" cy="20" r="6" fill="{colour}"/>'
        for number, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    rows = "".join(
        f'<text{_class(line)} x="{_LEFT}" y="{_TOP + _LINE * number}">{html.escape(line)}</text>\n'
        for number, line in enumerate(lines)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">\n'
        "<title>hatch-cubin in a terminal</title>\n"
        f"<style>\n{_STYLE}</style>\n"
        f'<rect width="{width}" height="{height}" rx="10" fill="#15191f"/>{buttons}\n{rows}</svg>\n'
    )


def _class(line: str) -> str:
    if line.startswith("$ "):
        return ' class="typed"'
    return ' class="wrong"' if line.startswith("hatch-cubin: error:") else ""


if __name__ == "__main__":
    main()
