"""The same kernels through setuptools: wheels, sdists, editable installs, requirements, errors."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.errors import ConfigError
from hatch_cubin.frontends import setuptools
from tests.helpers import COPY_PTX, REPOSITORY, SAXPY, found, refusal, run, wheel_files, write_tree

from .conftest import Venv
from .projects import BILL, LOADER, NOTES, ONE_ARCH, SETUPTOOLS, build, compiled, demo, in_bundle, unpack

pytestmark = pytest.mark.usefixtures("warm")

MISNAMED = "[tool.hatch_cubin]"
TABLE = "[tool.hatch-cubin]\n"
FILES: dict[str, str | bytes] = {
    "src/demo/__init__.py": "",
    "src/demo/saxpy.cu": '#include "near.cuh"\n#include <far.cuh>\n' + SAXPY,
    "src/demo/near.cuh": "#pragma once\n",
    "src/demo/kernels/copy.ptx": COPY_PTX,
    "include/far.cuh": "#pragma once\n",
}
OPTIONS = 'archs = ["sm_90", "compute_90"]\ninclude-dirs = ["include"]\n'
UNITS = ("saxpy.sm_90.cubin", "saxpy.compute_90.ptx", "copy.sm_90.cubin", "copy.compute_80.ptx")
FLAT: dict[str, str | bytes] = {"demo/__init__.py": "", "demo/saxpy.cu": SAXPY}
PLAIN = {f"demo-1.0.dist-info/{name}" for name in ("METADATA", "RECORD", "WHEEL", "top_level.txt")}
METADATA = {*PLAIN, BILL}
EGG_INFO = {
    f"{name}.egg-info/{file}"
    for name in ("demo", "src/demo")
    for file in ("PKG-INFO", "SOURCES.txt", "dependency_links.txt", "top_level.txt")
}


def project(
    root: Path,
    options: str = ONE_ARCH,
    files: Mapping[str, str | bytes] = FLAT,
    more: str = "",
) -> Path:
    """Write a setuptools project around *files*; *more* ends its pyproject.toml."""
    return write_tree(root, {"pyproject.toml": f"{SETUPTOOLS}{TABLE}{options}\n{more}", **files})


def ask(root: Path, hook: str, *arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Call a hook of setuptools' as front ends do: alone in a process, in the project's folder."""
    call = f"{hook}({', '.join(map(repr, arguments))})"
    code = f"import json\nfrom setuptools.build_meta import {hook}\nprint(json.dumps({call}))"
    return run(sys.executable, "-c", code, cwd=root, check=check)


def answer(root: Path, hook: str, *arguments: object) -> Any:
    return json.loads(ask(root, hook, *arguments).stdout.splitlines()[-1])


def wheel(root: Path) -> dict[str, bytes]:
    """Return every file of a newly built wheel."""
    return wheel_files(root / "dist" / answer(root, "build_wheel", "dist"))


def sdist(root: Path, into: Path) -> Path:
    """Return the folder that a newly built sdist was unpacked to."""
    return unpack(root / "dist" / answer(root, "build_sdist", "dist"), into)


def names(folder: Path) -> set[str]:
    """Return the names of a folder's files, but for what setuptools writes into every sdist."""
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    return found - EGG_INFO - {"PKG-INFO", "setup.cfg", "pyproject.toml"}


# Wheels


@pytest.mark.nvrtc
def test_the_bundle_is_the_one_that_hatch_makes(tmp_path: Path) -> None:
    hatch = demo(tmp_path / "hatch", OPTIONS, FILES)
    by_hatch = wheel_files(build(hatch))
    by_setuptools = wheel(project(tmp_path / "setuptools", OPTIONS, FILES))
    assert by_setuptools.keys() == {"demo/__init__.py", *in_bundle(*UNITS), *METADATA}
    bundle = {*in_bundle(*UNITS), BILL}
    assert {name: by_setuptools[name] for name in bundle} == {name: by_hatch[name] for name in bundle}
    assert b"Root-Is-Purelib: true\nTag: py3-none-any\n" in by_setuptools["demo-1.0.dist-info/WHEEL"]


@pytest.mark.nvrtc
@pytest.mark.usefixtures("isolated")
def test_front_ends_install_what_the_toolkit_asks_for_and_make_the_same_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_CACHE_DIR", str(tmp_path / "cache"))
    front_ends = {
        "pip wheel": ("pip", "wheel", "--no-deps", "--wheel-dir", "{out}", "."),
        # Makes the sdist first, and the wheel from that, in a folder of its own.
        "python -m build": ("build", "--installer", "uv", "--outdir", "{out}"),
    }
    counts, bundles = {}, {}
    for name, command in front_ends.items():
        root = project(tmp_path / name / "project", f'toolkit = "12.9"\n{OPTIONS}', FILES)
        out, report = tmp_path / name / "out", tmp_path / name / "report.json"
        monkeypatch.setenv("HATCH_CUBIN_REPORT", str(report))
        run(sys.executable, "-m", *(part.format(out=out) for part in command), cwd=root)
        counts[name] = compiled(report)
        files = wheel_files(out / "demo-1.0-py3-none-any.whl")
        bundles[name] = {path: files[path] for path in in_bundle(*UNITS)}
    assert counts == {"pip wheel": 4, "python -m build": 0}
    assert bundles["pip wheel"] == bundles["python -m build"]
    manifest = json.loads(bundles["pip wheel"]["demo/_cubins/manifest.json"])
    assert manifest["toolchain"]["nvrtc"].startswith("12.9.")


@pytest.mark.nvrtc
def test_the_guides_project_builds(tmp_path: Path) -> None:
    guide = (REPOSITORY / "docs/guides/setuptools.md").read_text("utf-8")
    (text,) = re.findall(r"```toml\n(.*?)```", guide, re.DOTALL)
    files = {"pyproject.toml": text, "mypkg/__init__.py": "", "mypkg/saxpy.cu": SAXPY}
    units = ("saxpy.sm_80.cubin", "saxpy.sm_90.cubin", "saxpy.compute_90.ptx")
    assert in_bundle(*units, package="mypkg") < wheel(write_tree(tmp_path, files)).keys()


@pytest.mark.nvrtc
def test_nothing_of_an_earlier_build_ships(tmp_path: Path) -> None:
    files = {**FLAT, "demo/gone.cu": SAXPY.replace("saxpy", "gone"), "demo/gpu/__init__.py": ""}
    root = project(tmp_path, files=files)
    in_demo = {"demo/__init__.py", "demo/gpu/__init__.py", *METADATA}
    assert wheel(root).keys() == in_demo | in_bundle("saxpy.sm_90.cubin", "gone.sm_90.cubin")
    (root / "demo/gone.cu").unlink()
    assert wheel(root).keys() == in_demo | in_bundle("saxpy.sm_90.cubin")
    project(root, ONE_ARCH + 'package = "demo.gpu"', files={})
    assert wheel(root).keys() == in_demo | in_bundle("saxpy.sm_90.cubin", package="demo/gpu")


EVERYTHING = '[tool.setuptools.package-data]\n"*" = ["**/*"]\n'


@pytest.mark.counted
@pytest.mark.nvrtc
@pytest.mark.parametrize("ships", [False, True])
@pytest.mark.parametrize("more", ["", EVERYTHING, "[tool.setuptools]\ninclude-package-data = false\n"])
def test_sources_ship_where_that_is_asked_for(tmp_path: Path, more: str, *, ships: bool) -> None:
    options = f"{OPTIONS}ship-sources = {str(ships).lower()}\n"
    shipped = {name.removeprefix("src/") for name in FILES if name.startswith("src/")}
    assert wheel(project(tmp_path, options, FILES, more)).keys() == {
        *(shipped if ships else {"demo/__init__.py"}),
        *in_bundle(*UNITS),
        *METADATA,
    }


@pytest.mark.counted
@pytest.mark.nvrtc
def test_a_wheel_holds_nothing_that_is_only_for_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HATCH_CUBIN_CACHE_DIR")
    root = project(tmp_path, f'{ONE_ARCH}cache-dir = "demo/cache"\n', more=EVERYTHING)
    write_tree(root, {"demo/_cubins/old.sm_70.cubin": "", "demo/cache/notes.txt": ""})
    expected = {"demo/__init__.py", "demo/cache/notes.txt", *in_bundle("saxpy.sm_90.cubin"), *METADATA}
    assert wheel(root).keys() == expected
    assert (root / "demo/cache/entries").is_dir()
    assert wheel(root).keys() == expected


@pytest.mark.nvrtc
def test_commands_of_the_projects_own_are_no_obstacle(tmp_path: Path) -> None:
    helper = "from setuptools.command.build import build\n\n\nclass Build(build):\n    pass\n"
    more = '[tool.setuptools]\npackages = ["demo"]\n[tool.setuptools.cmdclass]\nbuild = "helper.Build"\n'
    root = write_tree(project(tmp_path, more=more), {"helper.py": helper})
    assert in_bundle("saxpy.sm_90.cubin") < wheel(root).keys()


@pytest.mark.counted
def test_a_wheel_without_kernels_where_none_are_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_SKIP", "1")
    root = project(tmp_path)
    assert answer(root, "get_requires_for_build_wheel") == []
    done = ask(root, "build_wheel", "dist")
    assert (
        "hatch-cubin: warning: HATCH_CUBIN_SKIP is set, so the wheel will not contain kernels" in done.stderr
    )
    assert wheel_files(next((root / "dist").iterdir())).keys() == {
        *("demo/__init__.py", *in_bundle(), *PLAIN)
    }


TWO_SOURCES: dict[str, str | bytes] = {
    "src/demo/__init__.py": "",
    "src/demo/kernels/__init__.py": "",
    "src/demo/kernels/saxpy.cu": SAXPY,
    "src/demo/table.bin": "",
}


@pytest.mark.counted
@pytest.mark.parametrize(
    ("options", "more", "named"),
    [
        (
            "",
            '[tool.setuptools.package-data]\ndemo = ["kernels/*.cu"]',
            [("pyproject.toml:12", "kernels/*.cu")],
        ),
        ("", '[tool.setuptools.package-data]\n"demo.kernels" = ["*.cu"]', [("pyproject.toml:12", "*.cu")]),
        ("", '[tool.setuptools.package-data]\n"*" = ["*.cu"]', [("pyproject.toml:12", "*.cu")]),
        ("", '[tool.setuptools.package-data]\ndemo = ["kernels/*", "*.bin"]', []),
        ("ship-sources = true", '[tool.setuptools.package-data]\ndemo = ["kernels/*.cu"]', []),
    ],
    ids=["a glob", "a package inside", "all packages", "a folder", "ship-sources"],
)
def test_package_data_that_names_a_left_out_source_is_reported_with_its_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: str,
    more: str,
    named: list[tuple[str, str]],
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_SKIP", "1")
    done = ask(project(tmp_path, options, TWO_SOURCES, more), "build_wheel", "dist")
    found = re.findall(
        r"warning: (\S+): package_data: '(.*)' matches src/demo/kernels/saxpy.cu, ", done.stderr
    )
    assert found == named, done.stderr


def test_package_data_outside_pyproject_that_names_a_left_out_source_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_SKIP", "1")
    root = project(tmp_path, "", TWO_SOURCES)
    (root / "setup.cfg").write_text("[options.package_data]\n* = *.cu\n")
    stderr = ask(root, "build_wheel", "dist").stderr
    assert "warning: package_data: '*.cu' matches src/demo/kernels/saxpy.cu, " in stderr


@pytest.mark.parametrize(
    ("platform", "tag", "expected"),
    [
        ("linux", ("py3", "none", "any"), ("py3", "none", "any")),
        ("win32", ("py3", "none", "any"), ("py3", "none", "win_amd64")),
        ("win32", ("cp312", "cp312", "win_arm64"), ("cp312", "cp312", "win_arm64")),
    ],
)
def test_what_a_wheel_runs_on(
    monkeypatch: pytest.MonkeyPatch, platform: str, tag: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    from setuptools import Command, Distribution

    from hatch_cubin.frontends import setuptools_commands

    class BdistWheel(Command):  # type: ignore[misc]
        user_options = ()

        def initialize_options(self) -> None:
            pass

        def get_tag(self) -> tuple[str, ...]:
            return tag

    command = setuptools_commands._extended(lambda _name: BdistWheel, "bdist_wheel")(Distribution())
    monkeypatch.setattr(sys, "platform", platform)
    assert command.get_tag() == expected


# What a build needs


@pytest.mark.parametrize("hook", ["get_requires_for_build_wheel", "get_requires_for_build_editable"])
def test_a_front_end_is_told_which_compiler_to_install(tmp_path: Path, hook: str) -> None:
    root = project(tmp_path, 'toolkit = "12.9"\nheader-packages = ["nvidia-cutlass"]')
    assert answer(root, hook) == [
        *("cuda-core>=1.2,<2", "cuda-bindings==12.*", "cuda-python>=12.8,<13"),
        "cuda-toolkit[nvrtc,cudart,cccl,nvcc]==12.9.*",
        "nvidia-cutlass",
    ]


@pytest.mark.parametrize("hook", ["get_requires_for_build_wheel", "get_requires_for_build_editable"])
def test_ptx_in_packages_that_setuptools_discovers_needs_ptxas(tmp_path: Path, hook: str) -> None:
    """setuptools discovers packages only when it finalizes its commands."""
    with_ptx, without = (
        answer(project(tmp_path / name, 'toolkit = "13.0"', files), hook)
        for name, files in (("ptx", FLAT | {"demo/copy.ptx": COPY_PTX}), ("no ptx", FLAT))
    )
    assert {*with_ptx} - {*without} == {"cuda-toolkit[nvrtc,cudart,cccl,crt,nvcc]==13.0.*"}


def test_an_sdist_needs_no_compiler(tmp_path: Path) -> None:
    assert answer(project(tmp_path, 'toolkit = "12.9"'), "get_requires_for_build_sdist") == []


# Projects that are none of ours


WITHOUT: dict[str, dict[str, str | bytes]] = {
    "no pyproject.toml": {"setup.cfg": "[metadata]\nname = demo\nversion = 1.0\n"},
    "no table": {"pyproject.toml": SETUPTOOLS.replace(', "hatch-cubin"', "")},
    "not UTF-8": {"pyproject.toml": SETUPTOOLS.encode() + b"# \xff\n"},
    "no TOML": {"pyproject.toml": SETUPTOOLS + "[tool.hatch-cubin\n"},
}
LOOK = """
import sys
from setuptools import Distribution
before = set(sys.modules)
from hatch_cubin.frontends.setuptools import finalize
distribution = Distribution.__new__(Distribution)
distribution.src_root = None
finalize(distribution)
print(vars(distribution), sorted(set(sys.modules) - before))
"""


@pytest.mark.counted
@pytest.mark.parametrize("case", WITHOUT)
def test_a_project_without_the_table_is_left_alone(tmp_path: Path, case: str) -> None:
    root = write_tree(tmp_path, WITHOUT[case])
    attributes, _, modules = run(sys.executable, "-c", LOOK, cwd=root).stdout.partition("} ")
    assert attributes == "{'src_root': None"
    light = case in ("no pyproject.toml", "no table", "not UTF-8")
    alone = "['hatch_cubin', 'hatch_cubin.frontends', 'hatch_cubin.frontends.setuptools']\n"
    assert (modules == alone) is light


@pytest.mark.counted
@pytest.mark.parametrize("hook", ["get_requires_for_build_wheel", "build_wheel", "build_sdist"])
@pytest.mark.parametrize(
    ("table", "hint"),
    [
        ("", "'hatch-cubin init' adds the table"),
        (
            f"{MISNAMED}\n",
            f"rename {MISNAMED} to [tool.hatch-cubin]: the build backend does not read {MISNAMED}",
        ),
    ],
    ids=["none", "misnamed"],
)
def test_a_project_that_requires_hatch_cubin_and_has_no_table_is_not_built(
    tmp_path: Path, hook: str, table: str, hint: str
) -> None:
    root = write_tree(tmp_path, {"pyproject.toml": SETUPTOOLS + table, **FLAT})
    done = ask(root, hook, *(["dist"] if hook.startswith("build") else []), check=False)
    assert done.returncode == 1
    assert done.stderr.endswith(
        "hatch-cubin: error: pyproject.toml: there is no table [tool.hatch-cubin] [no-table]\n"
        f"  hint: {hint}\nhatch-cubin: 1 error, nothing was built\n"
    )


def test_the_wheel_of_a_project_without_the_table_is_setuptools_own(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {**WITHOUT["no table"], **FLAT})
    assert wheel(root).keys() == {"demo/__init__.py", *PLAIN}


def test_inside_of_our_own_backend_setuptools_makes_no_bundle(tmp_path: Path) -> None:
    text = SETUPTOOLS.replace("setuptools.build_meta", "hatch_cubin.backend")
    inner = f'{text}{TABLE}backend = "setuptools.build_meta"\ntoolkit = "12.9"\n'
    root = write_tree(tmp_path, {"pyproject.toml": inner, **FLAT})
    assert answer(root, "get_requires_for_build_wheel") == []
    assert wheel(root).keys() == {"demo/__init__.py", *PLAIN}
    assert setuptools.packages_of(root) == {"demo": "demo"}


# Sdists


@pytest.mark.parametrize("template", ["", "global-exclude *.cu *.cuh\nprune include\n"])
def test_an_sdist_holds_every_source_and_header(tmp_path: Path, template: str) -> None:
    root = project(tmp_path / "project", OPTIONS, FILES)
    write_tree(root, {"MANIFEST.in": template} if template else {})
    assert names(sdist(root, tmp_path / "out")) == {*FILES, *(["MANIFEST.in"] if template else [])}


@pytest.mark.nvrtc
def test_an_sdist_holds_nothing_that_was_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HATCH_CUBIN_CACHE_DIR")
    root = project(tmp_path / "project", ONE_ARCH + 'cache-dir = "demo/cache"', more=EVERYTHING)
    write_tree(root, {"MANIFEST.in": "graft demo\n"})
    answer(root, "build_editable", str(tmp_path))
    assert (root / "demo/_cubins/manifest.json").is_file()
    assert (root / "demo/cache/entries").is_dir()
    unpacked = sdist(root, tmp_path / "out")
    assert names(unpacked) == {*FLAT, "MANIFEST.in"}
    listed = (unpacked / "demo.egg-info/SOURCES.txt").read_text().splitlines()
    assert [path for path in listed if not (unpacked / path).is_file()] == []


@pytest.mark.nvrtc
def test_an_sdist_builds_to_the_wheel_of_its_project(tmp_path: Path) -> None:
    root = project(tmp_path / "project", OPTIONS, FILES)
    ours, theirs = wheel(root), wheel(sdist(root, tmp_path / "out"))
    assert theirs == ours


# Editable installs

EDITED = SAXPY.replace("+= a", "-= a")
USE = "from demo import _cubins as cubins\nprint(len(cubins.read('saxpy', cc=(9, 0))))\nprint(cubins.names())"
MODES = ["lenient", "strict", "compat"]


def use(site: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Read a kernel of the editable wheel that was unpacked into *site*, where the builder is installed."""
    code = f"import site; site.addsitedir({str(site)!r})\n{USE}"
    return run(sys.executable, "-W", "always", "-c", code, cwd=site, check=False, **environ)


@pytest.mark.nvrtc
@pytest.mark.usefixtures("isolated")
@pytest.mark.parametrize("mode", MODES)
def test_an_editable_install_has_the_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, venv: Venv, mode: str
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_CACHE_DIR", str(tmp_path / "cache"))  # so that each build needs ptxas
    root = project(tmp_path / "project", OPTIONS, FILES)
    venv.uv("install", "--no-deps", "-C", f"editable_mode={mode}", "--editable", root)
    bundle = root / "src/demo/_cubins"
    assert {path.name for path in bundle.iterdir()} == {*LOADER, *NOTES, *UNITS}
    where = "from demo import _cubins; print(_cubins.find('saxpy', cc=(9, 0)).path)"
    linked = root / "build/__editable__.demo-1.0-py3-none-any/demo/_cubins"
    folder = linked if mode == "strict" else bundle
    assert venv.run("-c", where).strip() == str(folder / "saxpy.sm_90.cubin")
    assert venv.run("-W", "error", "-c", USE).splitlines()[1] == "('copy', 'saxpy')"


@pytest.mark.nvrtc
@pytest.mark.parametrize("mode", ["lenient", "strict"])
def test_an_editable_install_notices_edits_and_builds_again(tmp_path: Path, mode: str) -> None:
    root, site = project(tmp_path / "project"), tmp_path / "site"
    name = answer(root, "build_editable", str(tmp_path), {"editable_mode": mode})
    write_tree(site, wheel_files(tmp_path / name))
    assert use(site).stderr == ""
    write_tree(root, {"demo/saxpy.cu": EDITED, "demo/more.cu": SAXPY.replace("saxpy", "more")})
    assert "before these files changed: demo/saxpy.cu, demo/more.cu (new); " in use(site).stderr
    again = use(site, HATCH_CUBIN_REBUILD="1")
    assert (again.stderr, again.stdout.splitlines()[1]) == ("", "('more', 'saxpy')")
    (root / "demo/more.cu").unlink()
    write_tree(root, {"demo/saxpy.cu": "oops\n"})
    failed = use(site, HATCH_CUBIN_REBUILD="1")
    assert "could not be rebuilt:\n" in failed.stderr
    assert "hatch-cubin: error: demo/saxpy.cu:1: " in failed.stderr
    write_tree(root, {"demo/saxpy.cu": SAXPY})
    healed = use(site, HATCH_CUBIN_REBUILD="1")
    assert (healed.stderr, healed.stdout.splitlines()[1]) == ("", "('saxpy',)")


# Mistakes


def fails(root: Path, hook: str, *arguments: object) -> list[str]:
    """Return the lines that a failing hook says of ours."""
    done = ask(root, hook, *arguments, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return [line for line in done.stderr.splitlines() if line.startswith(("hatch-cubin: ", "  "))]


def test_a_source_in_ext_modules_is_told_before_setuptools_fails(tmp_path: Path) -> None:
    extension = 'Extension("demo.fast", ["fast.c", "demo/saxpy.cu"])'
    own = "from setuptools.command.build_ext import build_ext\nclass Own(build_ext): pass\n"
    script = f"from setuptools import Extension, setup\n{own}setup(ext_modules=[{extension}]{{}})\n"
    root = project(tmp_path, files={**FLAT, "fast.c": "", "setup.py": script.format("")})
    error, hint, last = fails(root, "build_wheel", "dist")
    assert error.startswith("hatch-cubin: error: demo/saxpy.cu: the extension 'demo.fast' in 'ext_modules' ")
    assert error.endswith(" [cuda-source-in-extension]")
    assert hint.startswith("  hint: remove the source from 'ext_modules', ")
    assert last == "hatch-cubin: 1 error, nothing was built"
    write_tree(root, {"setup.py": script.format(', cmdclass={"build_ext": Own}')})
    metadata = ask(root, "prepare_metadata_for_build_wheel", ".")  # the project's own command may compile it
    assert "cuda-source-in-extension" not in metadata.stderr


@pytest.mark.counted
def test_only_setuptools_own_compiler_cannot_compile_a_source_in_ext_modules() -> None:
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    from hatch_cubin.frontends import setuptools_commands

    class OtherCompiler(build_ext):  # type: ignore[misc]
        """Like PyTorch's BuildExtension, which runs nvcc."""

    modules = [Extension("demo.fast", ["fast.c", "demo/saxpy.cu"])]
    check = setuptools_commands._refuse_cuda_extensions
    error = refusal(ConfigError, check, Distribution({"ext_modules": modules}))
    assert found(error) == [("cuda-source-in-extension", "demo/saxpy.cu")]
    check(Distribution({"ext_modules": modules, "cmdclass": {"build_ext": OtherCompiler}}))
    check(Distribution())


@pytest.mark.counted
@pytest.mark.parametrize(
    ("hook", "arguments"),
    [
        ("get_requires_for_build_wheel", ()),
        ("prepare_metadata_for_build_wheel", (".",)),
        ("build_wheel", ("dist",)),
        ("build_sdist", ("dist",)),
        ("build_editable", ("dist",)),
    ],
)
def test_a_mistake_in_the_table_is_told_with_its_line(
    tmp_path: Path, hook: str, arguments: tuple[str, ...]
) -> None:
    assert fails(project(tmp_path, "jobs = 0\narch = []\n"), hook, *arguments)[:4] == [
        (
            "hatch-cubin: error: pyproject.toml:10: jobs must be a whole number from 1 to 1024, not 0 "
            "[invalid-value]"
        ),
        "  hint: remove 'jobs': without this key, a build compiles on all cores of the processor",
        "hatch-cubin: error: pyproject.toml:11: 'arch' is not an option of [tool.hatch-cubin] [unknown-key]",
        "  hint: did you mean 'archs'?",
    ]


# Which packages a project has

CFG = "[options]\npackages = find:\n[options.packages.find]\nwhere = a\n"
SETUP = "from setuptools import setup\nprint('hello')\nsetup(name='demo', packages={}, package_dir={})\n"


def layout(*packages: str) -> dict[str, str | bytes]:
    return {f"{package}/__init__.py": "" for package in packages}


@pytest.mark.parametrize(
    ("files", "more", "packages"),
    [
        pytest.param(layout("demo", "demo/gpu", "tests"), "", {"demo": "demo"}, id="flat"),
        pytest.param(
            {**layout("src/demo", "src/demo/_cubins"), "src/demo/kernels/k.cu": ""},
            "",
            {"demo": "src/demo"},
            id="src",
        ),
        pytest.param(layout("src/one", "src/two"), "", {"one": "src/one", "two": "src/two"}, id="two"),
        pytest.param(layout("src/space/demo"), "", {"space.demo": "src/space/demo"}, id="in a namespace"),
        pytest.param(
            layout("lib/demo", "lib/other"),
            '[tool.setuptools.packages.find]\nwhere = ["lib"]\ninclude = ["demo*"]\n',
            {"demo": "lib/demo"},
            id="find",
        ),
        pytest.param(
            layout("code", "elsewhere", "code/inside"),
            '[tool.setuptools]\npackages = ["demo", "demo.sub", "demo.inside"]\n'
            'package-dir = { demo = "code", "demo.sub" = "elsewhere" }\n',
            {"demo": "code", "demo.sub": "elsewhere"},
            id="package-dir",
        ),
        pytest.param(
            {"__init__.py": ""},
            '[tool.setuptools]\npackages = ["demo"]\npackage-dir = { demo = "." }\n',
            {"demo": "."},
            id="the project's folder",
        ),
        pytest.param(
            {**layout("a/demo"), "setup.py": SETUP.format(["demo"], {"": "a"})},
            "",
            {"demo": "a/demo"},
            id="setup.py",
        ),
        pytest.param(
            {**layout("a/demo"), "setup.cfg": CFG},
            "",
            {"demo": "a/demo"},
            id="setup.cfg",
        ),
        pytest.param({"demo.py": ""}, "", {}, id="a module"),
    ],
)  # fmt: skip
def test_setuptools_says_which_packages_there_are(
    tmp_path: Path, files: dict[str, str | bytes], more: str, packages: dict[str, str]
) -> None:
    assert setuptools.packages_of(project(tmp_path, "", files, more)) == packages


def test_setuptools_says_it_of_projects_that_have_no_table_yet(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {**WITHOUT["no table"], **FLAT})
    assert setuptools.packages_of(root) == {"demo": "demo"}


def test_what_a_setup_py_prints_is_its_own_affair(tmp_path: Path) -> None:
    setup = "print('{before')\nfrom setuptools import setup\nsetup()\nprint('{after', end='')\n"
    assert setuptools.packages_of(project(tmp_path, "", {**FLAT, "setup.py": setup})) == {"demo": "demo"}


@pytest.mark.counted
@pytest.mark.parametrize(
    ("setup", "why"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("from setuptools import setup\nsetup('x')", "TypeError: "),
        ("", ""),  # it sets up nothing
    ],
)
def test_a_project_that_setuptools_cannot_read_is_an_error(tmp_path: Path, setup: str, why: str) -> None:
    root = project(tmp_path, "", {**FLAT, "setup.py": setup})
    (problem,) = refusal(ConfigError, setuptools.packages_of, root).problems
    assert (problem.what, str(problem.where)) == (
        "setuptools cannot build this project, so its packages are unknown",
        "pyproject.toml",
    )
    assert "".join(problem.details[-1:]).startswith(why)


def test_all_that_setuptools_says_of_its_error_is_shown(tmp_path: Path) -> None:
    root = project(tmp_path, "", {**FLAT, "other/__init__.py": ""})
    first, *_more, last = refusal(ConfigError, setuptools.packages_of, root).problems[0].details
    assert first.startswith("error: Multiple top-level packages discovered in a flat-layout: [")
    assert last.startswith("To find more information")


@pytest.mark.counted
def test_without_setuptools_there_is_nobody_to_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match="build backend, setuptools, is not installed here\n  hint: pip "):
        setuptools.packages_of(project(tmp_path))


def test_a_package_that_lies_elsewhere_can_have_the_kernels(tmp_path: Path) -> None:
    files = {**layout("code", "elsewhere"), "elsewhere/saxpy.cu": SAXPY}
    more = (
        '[tool.setuptools]\npackages = ["demo", "demo.sub"]\n'
        'package-dir = { demo = "code", "demo.sub" = "elsewhere" }\n'
    )
    root = project(tmp_path, ONE_ARCH + 'package = "demo.sub"', files, more)
    assert wheel(root).keys() == {
        *("demo/__init__.py", "demo/sub/__init__.py"),
        *in_bundle("saxpy.sm_90.cubin", package="demo/sub"),
        *METADATA,
    }
