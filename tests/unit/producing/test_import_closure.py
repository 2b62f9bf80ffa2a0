"""The modules of the project that a producer can import."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.producing.import_closure import import_closure, module_name, packages_for
from hatch_cubin.project.source_roots import ProjectTree
from tests.helpers import write_tree

PACKAGES = {"demo": "src/demo", "other": "src/other"}


def closure(root: Path, script: str, files: dict[str, str]) -> list[str]:
    write_tree(root, files)
    packages = packages_for(PACKAGES, script)
    return sorted(import_closure(ProjectTree(root), packages, module_name(PACKAGES, script), script))


@pytest.mark.parametrize(
    ("script", "name"),
    [
        ("src/demo/gen.py", "demo.gen"),
        ("src/demo/kernels/gen.py", "demo.kernels.gen"),
        ("tools/gen-kernels.py", "gen-kernels"),
    ],
)
def test_a_script_has_the_name_that_it_has_in_its_package(script: str, name: str) -> None:
    assert module_name(PACKAGES, script) == name


def test_only_a_script_outside_of_packages_can_import_the_modules_beside_it() -> None:
    assert packages_for(PACKAGES, "src/demo/gen.py") == [("other", "src/other"), ("demo", "src/demo")]
    assert packages_for(PACKAGES, "tools/gen.py")[-1] == ("", "tools")


def test_imports_of_the_project_are_followed(tmp_path: Path) -> None:
    files = {
        "src/demo/__init__.py": "import never",
        "src/demo/gen.py": "from .kernels import parts, NAME\nimport other.deep.texts\nimport os, numpy\n",
        "src/demo/kernels/__init__.py": "",
        "src/demo/kernels/parts.py": "def f():\n    from ..more import *\n    from . import parts\n",
        "src/demo/more.py": "from demo import gen\n",
        "src/demo/unused.py": "",
        "src/other/deep/texts.py": "",
    }
    assert closure(tmp_path, "src/demo/gen.py", files) == [
        "src/demo/gen.py",
        "src/demo/kernels/parts.py",
        "src/demo/more.py",
        "src/other/deep/texts.py",
    ]


def test_a_script_outside_of_packages_imports_its_neighbours(tmp_path: Path) -> None:
    files = {
        "tools/gen.py": "import beside, package.inner, folder.no, demo.parts",
        "tools/beside.py": "",
        "tools/package/__init__.py": "",
        "tools/package/inner.py": "",
        "tools/folder/no.py": "",
        "src/demo/parts.py": "",
    }
    assert closure(tmp_path, "tools/gen.py", files) == [
        "src/demo/parts.py",
        "tools/beside.py",
        "tools/folder/no.py",
        "tools/gen.py",
        "tools/package/inner.py",
    ]


def test_a_text_that_is_not_python_imports_nothing(tmp_path: Path) -> None:
    files = {"src/demo/gen.py": "import demo.broken", "src/demo/broken.py": "import demo.gen, ("}
    assert closure(tmp_path, "src/demo/gen.py", files) == ["src/demo/broken.py", "src/demo/gen.py"]
