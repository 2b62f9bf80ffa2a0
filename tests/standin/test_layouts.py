"""However a package is installed and Python started: the right bytes reach the driver, nothing is written."""

from __future__ import annotations

import shutil
import site
import sys
import zipapp
from pathlib import Path

import pytest

from hatch_cubin import loader
from tests.capabilities import namespace
from tests.helpers import bundle, made, packed_bundle, run, sha256, write_tree

from . import codes, events, install, run_beside
from .conftest import Run

pytestmark = [pytest.mark.gcc, pytest.mark.linux]

BUILT = {arch: made("k", arch) for arch in ("sm_80", "sm_90", "compute_80")}
OTHER = made("other")
FILES = bundle(*BUILT.values(), OTHER)
EXPECTED = [sha256(BUILT["sm_90"].compiled.data)]
SITES = site.getsitepackages()
LOAD = (
    "from app import _cubins as cubins\ncubins.preload('k')\nprint(cubins.kernel('k').handle is not None)\n"
)


def tree(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize(
    "flags",
    [
        ["-O"],
        ["-OO"],
        ["-I"],
        ["-S"],
        ["-I", "-S", "-OO"],
        ["-bb", "-W", "error::BytesWarning"],
        ["-X", "dev"],
    ],
    ids=" ".join,
)
def test_however_python_is_started(driver: Path, tmp_path: Path, flags: list[str]) -> None:
    install(tmp_path / "app", FILES)
    before = tree(tmp_path / "app")
    program = f"import sys\nsys.path += {[str(tmp_path), *SITES]!r}\n{LOAD}"
    done = run_beside(driver, tmp_path, *flags, "-c", program)
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr
    assert codes(events(tmp_path)) == EXPECTED
    assert tree(tmp_path / "app") == before


@pytest.mark.parametrize("compressed", [False, True])
def test_a_zipapp(driver: Path, tmp_path: Path, *, compressed: bool) -> None:
    source = tmp_path / "source"
    install(source / "app", FILES)
    write_tree(source, {"__main__.py": LOAD})
    zipapp.create_archive(source, tmp_path / "app.pyz", compressed=compressed)
    done = run_beside(driver, tmp_path, "app.pyz")
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr
    assert codes(events(tmp_path)) == EXPECTED


@pytest.mark.parametrize("before", ["", "os.chdir('/')\n"], ids=["there", "after the folder was changed"])
@pytest.mark.parametrize("place", ["app.zip", "lib/app.zip", "./app.zip/inner", "source"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_a_relative_entry_of_the_path(
    driver: Path, tmp_path: Path, *, place: str, before: str, packed: bool
) -> None:
    source = tmp_path / "source"
    inside = place.partition(".zip/")[2]
    install(source / inside / "app", packed_bundle(*BUILT.values()) if packed else FILES)
    if ".zip" in place:
        archive = tmp_path / f"{place.partition('.zip')[0]}.zip"
        archive.parent.mkdir(exist_ok=True)
        zipapp.create_archive(source, archive, main="app:none")
        shutil.rmtree(source)
    program = f"import os, sys\nsys.path.insert(0, {place!r})\nimport app._cubins\n{before}{LOAD}"
    done = run_beside(driver, tmp_path, "-c", program)
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr
    assert codes(events(tmp_path)) == EXPECTED


# PyInstaller's bootloader puts modules into an archive, and data files where modules would lie: the package's
# `__file__` names a file that is not there, in a folder that is.
FROZEN = """
import importlib.machinery, importlib.util, pathlib, sys
HERE = pathlib.Path("dist/_internal").absolute()
CODE = {"app": "", "app._cubins": pathlib.Path("archived.py").read_text()}

class Archive:
    def find_spec(self, name, path=None, target=None):
        if name in CODE:
            place = HERE.joinpath(*name.split("."))
            origin = str(place / "__init__.pyc")
            spec = importlib.machinery.ModuleSpec(name, self, origin=origin, is_package=True)
            spec.has_location = True
            spec.submodule_search_locations = [str(place)]
            return spec
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        exec(compile(CODE[module.__name__], module.__spec__.origin, "exec"), module.__dict__)

sys.meta_path.insert(0, Archive())
sys.frozen, sys._MEIPASS = True, str(HERE)
"""


def test_what_pyinstaller_lays_out(python: Run, tmp_path: Path) -> None:
    write_tree(tmp_path / "dist/_internal/app/_cubins", FILES)
    (tmp_path / "dist/_internal/app/_cubins/__init__.py").unlink(missing_ok=True)
    (tmp_path / "archived.py").write_bytes(Path(loader.__file__).read_bytes())
    assert python(FROZEN + LOAD) == "True"
    assert codes(events(tmp_path)) == EXPECTED


@pytest.mark.mounts
def test_a_package_on_a_file_system_that_cannot_be_written(driver: Path, tmp_path: Path) -> None:
    install(tmp_path / "site/app", FILES)
    (tmp_path / "program.py").write_text(f"import sys\nsys.path.insert(0, 'site')\n{LOAD}")
    mounted = "mount --bind site site && mount -o remount,ro,bind site && ! touch site/new 2>/dev/null"
    shell = f"{mounted} && exec {sys.executable} program.py"
    command = (*namespace(), "sh", "-c", shell)
    done = run(*command, cwd=tmp_path, LD_LIBRARY_PATH=str(driver), STANDIN_LOG=str(tmp_path / "log"))
    assert done.stdout == "True\n"
    assert codes(events(tmp_path)) == EXPECTED


# --- files that are replaced under a running process, as by an upgrade ---


REPLACED = """
import os, shutil
from app import _cubins as cubins
cubins.{before}
for name in os.listdir("newer"):
    shutil.copy(f"newer/{{name}}", "temporary")
    os.replace("temporary", f"app/_cubins/{{name}}")
for name in ("k", "other"):
    try:
        print(cubins.kernel(name).handle is not None)
    except cubins.CubinDamagedError as exc:
        print(str(exc).partition(": its digest")[0].partition(": it has")[0])
"""


@pytest.mark.parametrize(
    ("before", "stays"),
    [("preload()", ["k", "other"]), ("kernel('k')", ["k"]), ("names()", [])],
    ids=["after preload", "after one kernel", "before any kernel"],
)
def test_what_was_loaded_stays_and_no_other_builds_bytes_are_taken(
    python: Run, tmp_path: Path, before: str, stays: list[str]
) -> None:
    newer = [made("k", arch, data=f"new {arch}".encode()) for arch in BUILT]
    install(tmp_path / "app", FILES)
    write_tree(tmp_path / "newer", bundle(*newer, made("other", data=b"new")))
    folder = tmp_path / "app/_cubins"
    assert python(REPLACED.format(before=before)).splitlines() == [
        "True" if name in stays else f"app._cubins: {folder / name}.sm_90.cubin is damaged"
        for name in ("k", "other")
    ]
    shipped = {"k": BUILT["sm_90"], "other": OTHER}
    assert codes(events(tmp_path)) == [sha256(shipped[name].compiled.data) for name in stays]


def test_after_preload_nothing_of_the_package_is_read_again(python: Run, tmp_path: Path) -> None:
    install(tmp_path / "app", FILES)
    code = "import shutil\nfrom app import _cubins as cubins\ncubins.preload()\nshutil.rmtree('app')\n"
    asked = (
        "*(cubins.kernel(name).handle is not None for name in cubins.names()), len(cubins.preload().loaded)"
    )
    assert python(f"{code}print({asked})") == "True True 2"
