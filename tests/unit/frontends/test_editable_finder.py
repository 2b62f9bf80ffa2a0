"""Which editable wheels need a finder of ours, and what it finds."""

from __future__ import annotations

import json
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from hatch_cubin.frontends import editable_finder, repack
from tests.helpers import make_project, run


def finder(root: Path, lines: str, package: str = "demo") -> dict[str, bytes]:
    """Return what is added to an editable wheel whose .pth has these lines."""
    project = replace(make_project(root / "tree", {}), packages={package: "demo"})
    with zipfile.ZipFile(root / "x.whl", "w") as archive:
        archive.writestr("x.pth", lines.format(tree=project.root))
        archive.writestr("x.dist-info/RECORD", "")
    with repack.open_wheel(root / "x.whl") as wheel:
        files = editable_finder.finder_files(project, wheel)
        return {name: b"".join(content) for name, content in files.items()}  # type: ignore[arg-type]


def test_each_package_has_a_finder_of_its_own_whose_name_is_ascii(tmp_path: Path) -> None:
    names = {package: [*finder(tmp_path / package, "", package)] for package in ("a.b", "a_b", "demo", "é")}
    assert names == {
        package: [f"{module}.py", f"{module}.pth", f"{module}.start"]
        for package, module in {
            "a.b": "_cubins_of_a_b",
            "a_b": "_cubins_of_a__b",
            "demo": "_cubins_of_demo",
            "é": "_cubins_of__xe9",
        }.items()
    }


def test_a_python_that_ignores_import_lines_reads_the_start_file(tmp_path: Path) -> None:
    """Each line of a .start file names a function, which Python 3.15 calls without arguments (PEP 829)."""
    files = finder(tmp_path, "")
    (tmp_path / "_cubins_of_demo.py").write_bytes(files["_cubins_of_demo.py"])
    module, _colon, function = files["_cubins_of_demo.start"].decode().strip().partition(":")
    code = (
        f"import {module}, sys; before = len(sys.meta_path); {module}.{function}(); "
        "print(len(sys.meta_path) - before, sys.meta_path[0].name, sys.meta_path[0].folder)"
    )
    bundle = tmp_path / "tree/demo/_cubins"
    assert run(sys.executable, "-c", code, cwd=tmp_path).stdout == f"1 demo._cubins {bundle}\n"


@pytest.mark.skipif(sys.version_info < (3, 15), reason="Python 3.15 is the first that reads .start files")
def test_a_python_that_reads_the_start_file_starts_the_finder_once(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    for name, data in finder(tmp_path, "").items():
        (site / name).write_bytes(data)
    code = (
        f"import site, sys; before = len(sys.meta_path); site.addsitedir({str(site)!r}); "
        "print(len(sys.meta_path) - before)"
    )
    assert run(sys.executable, "-c", code, cwd=tmp_path).stdout == "1\n"


@pytest.mark.parametrize("lines", ["{tree}", "import x\n# x\n\n{tree}/../tree\n"])
def test_a_folder_on_the_path_is_enough(tmp_path: Path, lines: str) -> None:
    assert finder(tmp_path, lines) == {}


@pytest.mark.parametrize(
    "lines", ["", "import x; x.install()\n", "import\tx\n", "{tree}/demo\n", "/elsewhere\n"]
)
def test_without_one_a_finder_finds_the_bundle_alone(tmp_path: Path, lines: str) -> None:
    site = tmp_path / "site"
    site.mkdir()
    for name, data in finder(tmp_path, lines).items():
        (site / name).write_bytes(data)
    bundle = tmp_path / "tree/demo/_cubins"
    bundle.mkdir()
    (bundle / "__init__.py").write_text("from . import _editable\n")
    (bundle / "_editable.py").write_text("x = 7\n")
    code = (
        "import importlib.util, json, site, sys\n"
        f"site.addsitedir({str(site)!r})\n"
        "package = type(sys)('demo')\npackage.__path__ = []\nsys.modules['demo'] = package\n"
        "from demo import _cubins\n"
        f"import os; os.unlink({str(bundle / '__init__.py')!r})\n"
        "gone = [importlib.util.find_spec(name) for name in ('demo.other', 'demo._cubins2')]\n"
        "del sys.modules['demo._cubins'], package._cubins\n"
        "gone.append(importlib.util.find_spec('demo._cubins'))\n"
        "print(json.dumps([_cubins._editable.x, _cubins.__file__, gone]))\n"
    )
    found = json.loads(run(sys.executable, "-c", code, cwd=tmp_path).stdout)
    assert found == [7, str(bundle / "__init__.py"), [None, None, None]]
