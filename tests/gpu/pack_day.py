"""Pack what the day a GPU is there needs: bundles of every kind, the recipes, the script that runs them.

    python -m tests.gpu.pack_day FOLDER

The folder is then taken to the machine with the GPU, where `python3 FOLDER/day.py` needs nothing of this
project and no network. The kernels of CUDA 12 are compiled in an environment of their own, which takes a
package index.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path

from hatch_cubin.building import pipeline
from hatch_cubin.config import table_location
from hatch_cubin.config.config import parse_config
from hatch_cubin.project.project import Project
from tests.guide_recipes import RECIPES
from tests.helpers import REPOSITORY, SAXPY, make_project, pyproject, write_tree
from tests.standin import install

LARGEST = 64 << 20  # bytes, all together
SCALED = SAXPY.replace("a * x[i]", "TIMES * a * x[i]")
VARIANTS = f"""
[[tool.hatch.build.hooks.cubin.source]]
path = "**/saxpy.cu"
variants = {{ TIMES = {list(range(1, 33))} }}
"""
PTX = 'archs = ["compute_75"]'
PROJECTS = {  # package → its table
    "mypkg": 'archs = ["all-major"]',
    "many": f'archs = ["all-major"]{VARIANTS}',
    "suffixed": 'archs = ["sm_90a", "sm_100a", "sm_103a", "sm_120a"]',
}


def pack_day(folder: Path, *, cuda12: bool) -> int:
    """Write everything into *folder* and return how many bytes that are."""
    site = folder / "site"
    for package, options in PROJECTS.items():
        install(site / package, _built({"saxpy.cu": SCALED if package == "many" else SAXPY}, options))
    install(site / "translated", _built({"saxpy.ptx": _old_ptx()}, PTX))
    install(site / "waves", _example())
    left_out = shutil.ignore_patterns("_cubins", "__pycache__")  # of an install for editing
    shutil.copytree(
        REPOSITORY / "example_project/src/waves", site / "waves", ignore=left_out, dirs_exist_ok=True
    )
    if cuda12:
        _bring_cuda12(site)
    (folder / "recipes.json").write_text(json.dumps(RECIPES))
    shutil.copy(Path(__file__).with_name("day.py"), folder)
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _built(sources: dict[str, str], options: str) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as root:
        return dict(pipeline.build(make_project(Path(root), sources, options)))


def _old_ptx() -> str:
    """Return PTX that all drivers for CUDA 12 and 13 take: the compiler that is here may be newer."""
    text = _built({"saxpy.cu": SAXPY}, PTX)["saxpy.compute_75.ptx"].decode()
    return re.sub(r"^\.version .*", ".version 7.0", text, flags=re.MULTILINE)


def _example() -> dict[str, bytes]:
    """Return the bundle of the example project, by the toolkit that is here."""
    root = REPOSITORY / "example_project"
    table, place, _backend = table_location.find_table(root)
    config = replace(parse_config(table, place, {}), toolkit=None)
    return dict(pipeline.build(Project(root=root, packages={"waves": "src/waves"}, config=config)))


def _bring_cuda12(site: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        requires = f'"hatchling", "hatch-cubin @ {REPOSITORY.as_uri()}"'
        table = pyproject('toolkit = "12.9"\narchs = ["all-major"]', requires=requires, name="cuda12")
        write_tree(root, {"pyproject.toml": table, "cuda12/__init__.py": "", "cuda12/saxpy.cu": SAXPY})
        command = (sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", root / "dist", root)
        subprocess.run(command, check=True)
        (wheel,) = (root / "dist").glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)


def main() -> None:
    """Pack, and say how large it is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    size = pack_day(folder, cuda12=True)
    sys.stdout.write(f"{folder}: {size} bytes\n")
    if size > LARGEST:
        sys.exit(f"that is more than {LARGEST} bytes")


if __name__ == "__main__":
    main()
