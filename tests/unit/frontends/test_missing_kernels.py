"""What leaves kernels out of wheels without an error is told by the command line."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from hatch_cubin.frontends import open_project as door
from tests.helpers import SAXPY, pyproject, write_tree

pytestmark = pytest.mark.counted

FILES = {"demo/__init__.py": "", "demo/saxpy.cu": SAXPY}
WHEEL = "[tool.hatch.build.targets.wheel]\n"


def warned(root: Path, text: str, files: dict[str, str] = FILES, **environ: str) -> list[str]:
    """Return what is warned of before anything is compiled."""
    write_tree(root, {"pyproject.toml": text, **files})
    stream = io.StringIO()
    door.check_build(door.open_project(str(root), environ, stream, verbose=False))
    return stream.getvalue().splitlines()


def other(backend: str, requires: str = '"hatch-cubin"', more: str = "") -> str:
    """Return the pyproject.toml of a project with another build backend."""
    return f'[build-system]\nrequires = [{requires}]\nbuild-backend = "{backend}"\n{more}[tool.hatch-cubin]\n'


@pytest.mark.parametrize(
    "text",
    [
        pyproject(""),
        pyproject("").replace("hatch.build.hooks", "hatch.build.targets.wheel.hooks"),
        other("setuptools.build_meta"),
        other("hatch_cubin.backend") + 'backend = "flit_core.buildapi"\n',
        other("own", more='backend-path = ["."]\n'),
    ],
    ids=["hatchling", "the wheel's hook", "setuptools", "the wrapper", "one of the project's own"],
)
def test_a_backend_that_builds_kernels_is_no_matter(tmp_path: Path, text: str) -> None:
    assert warned(tmp_path, text) == []


BACKENDS = ("scikit_build_core.build", "flit_core.buildapi", "uv_build", "poetry.core.masonry.api", "maturin")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backend_that_builds_none_is_told_with_what_to_write(tmp_path: Path, backend: str) -> None:
    what, hint = warned(tmp_path, other(backend))
    assert what.startswith(f"hatch-cubin: warning: pyproject.toml:3: the build backend {backend!r} ")
    assert 'build-backend = "hatch_cubin.backend"' in hint
    followed = other("hatch_cubin.backend") + f'backend = "{backend}"\n'
    assert warned(tmp_path, followed) == []


def test_so_is_that_a_build_would_not_have_hatch_cubin(tmp_path: Path) -> None:
    assert 'requires = ["uv-build", "hatch-cubin"]' in warned(tmp_path, other("uv_build", '"uv-build"'))[1]
    assert (
        'requires = ["hatch-cubin"]' in warned(tmp_path, other("uv_build").replace("requires", "require"))[1]
    )


def test_a_bundle_in_the_package_is_what_such_a_backend_packs(tmp_path: Path) -> None:
    files = {**FILES, "demo/_cubins/__init__.py": "# by hatch-cubin"}
    assert warned(tmp_path, other("uv_build"), files) == []


def test_a_hook_that_hatchling_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = pyproject("enable-by-default = false\n")
    line = text.split("\n").index("enable-by-default = false") + 1
    assert warned(tmp_path, text)[0].startswith(
        f"hatch-cubin: warning: pyproject.toml:{line}: hatchling does not"
    )
    for switch in ("HATCH_BUILD_HOOK_ENABLE_CUBIN", "HATCH_BUILD_HOOKS_ENABLE"):
        with monkeypatch.context() as patched:
            patched.setenv(switch, "1")
            assert warned(tmp_path, text) == []
    monkeypatch.setenv("HATCH_BUILD_NO_HOOKS", "1")
    assert "unset HATCH_BUILD_NO_HOOKS" in warned(tmp_path, pyproject(""))[1]


def test_a_build_that_is_told_to_build_none(tmp_path: Path) -> None:
    (line,) = warned(tmp_path, pyproject(""), HATCH_CUBIN_SKIP="1")
    assert "HATCH_CUBIN_SKIP" in line


@pytest.mark.parametrize("selected", ['packages = ["other"]\n', 'only-include = ["other"]\n'])
def test_sources_of_a_package_that_is_not_in_the_wheel(tmp_path: Path, selected: str) -> None:
    files = {
        **FILES,
        "other/__init__.py": "",
        "other/k.cu": SAXPY,
        "tests/__init__.py": "",
        "tests/t.cu": SAXPY,
    }
    text = pyproject("") + WHEEL + selected
    assert warned(tmp_path, text, files)[0].startswith(
        "hatch-cubin: warning: demo/saxpy.cu: is not compiled, because the package "
    )
    files |= {"demo/copy.ptx": ""}
    assert "demo/copy.ptx: is one of 2 sources that are not compiled" in warned(tmp_path, text, files)[0]
    named = pyproject('sources = ["other/*.cu"]\n') + WHEEL + selected
    assert warned(tmp_path, named, files) == []
    assert warned(tmp_path / "without", text, {"demo/__init__.py": "", "other/__init__.py": ""}) == []
