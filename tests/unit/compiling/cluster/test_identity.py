"""Who compiles: a worker that is not as the build needs it is told apart, and how to mend it."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hatch_cubin import __version__
from hatch_cubin.compiling.cluster import identity
from hatch_cubin.compiling.cluster.identity import Identity, Installed, difference, remedy
from hatch_cubin.errors import Problem, ToolchainError
from hatch_cubin.toolkit.toolkit import Toolkit

MINE = Identity("1.2", "keys 1", "code", "lp64", "", "13.5.37")
LINKS = MINE._replace(nvjitlink="13.5.37")
ASSEMBLES = MINE._replace(ptxas="13.5.37")


@pytest.mark.parametrize(
    ("theirs", "mine", "said"),
    [
        (MINE, MINE, None),
        (LINKS, MINE, None),
        (MINE._replace(nvrtc="13.4.92"), MINE, "the worker has NVRTC 13.4.92, but this build has 13.5.37"),
        (MINE._replace(version="1.1"), MINE, "the worker has hatch-cubin 1.1, but this build has 1.2"),
        (
            MINE._replace(schema="keys 0"),
            MINE,
            ("the worker has cache key format keys 0, but this build has keys 1"),
        ),
        (MINE._replace(data_model="llp64"), MINE, "the worker has data model llp64, but this build has lp64"),
        (
            MINE._replace(machine="aarch64"),
            MINE,
            "the worker has processor aarch64, but this build has x86_64",
        ),
        (
            LINKS._replace(nvjitlink="13.4.92"),
            LINKS,
            ("the worker has nvJitLink 13.4.92, but this build has 13.5.37"),
        ),
        (ASSEMBLES, MINE, None),
        (
            MINE._replace(code="other"),
            MINE,
            "the worker's hatch-cubin 1.2 differs from this build's hatch-cubin",
        ),
    ],
)
def test_what_differs_is_named(theirs: Identity, mine: Identity, said: str | None) -> None:
    assert difference(theirs, mine) == said


def test_the_remedy_can_be_pasted() -> None:
    assert remedy(MINE) == (
        "on each worker: pip install hatch-cubin==1.2 'cuda-core>=1.2,<2' 'cuda-bindings==13.*' "
        "nvidia-cuda-nvrtc==13.5.37"
    )
    assert remedy(LINKS._replace(nvrtc="12.9.86", nvjitlink="12.9.86")).endswith(
        "'cuda-bindings==12.*' nvidia-cuda-nvrtc-cu12==12.9.86 nvidia-nvjitlink-cu12==12.9.86"
    )
    assert remedy(ASSEMBLES).endswith(" nvidia-cuda-nvrtc==13.5.37 nvidia-cuda-nvcc==13.5.37")


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return what a process that is asked says, one after another."""
    said: list[object] = []

    def run(command: list[str], **_options: object) -> subprocess.CompletedProcess[bytes]:
        answer = said.pop(0)
        if isinstance(answer, Exception):
            raise answer
        complaint = b"Traceback:\nModuleNotFoundError: No module named 'cuda'\n" if answer == b"" else b""
        return subprocess.CompletedProcess(
            command, 0, answer if isinstance(answer, bytes) else b"x", complaint
        )

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(identity, "_answers", {})
    return said


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "the worker's compiler did not start: ModuleNotFoundError: No module named 'cuda'"),
        (b"{", "the worker's compiler did not start: it printed no message"),
        (subprocess.TimeoutExpired("python", 60), "the worker's compiler did not start within 60 s"),
        (
            OSError(12, "Cannot allocate memory"),
            ("the worker's compiler did not start: Cannot allocate memory"),
        ),
        (json.dumps({"error": "cannot load nvrtc"}).encode(), "cannot load nvrtc"),
    ],
)
def test_what_keeps_a_machine_from_compiling_is_said(answers: list[object], answer: object, why: str) -> None:
    answers.append(answer)
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        identity.find_installed(None, ())


@pytest.mark.parametrize("stamp", ["as it was", None])
def test_a_machine_is_asked_again_only_if_something_was_installed(
    answers: list[object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stamp: str | None
) -> None:
    library = tmp_path / "libnvrtc.so"
    library.write_bytes(b"13.5")
    found = Installed(MINE, (str(library),), "", "", {"nvrtc": "/h"})
    answers.extend([json.dumps(found._asdict()).encode()] * 3)

    def asked() -> int:
        before = len(answers)
        assert [identity.find_installed(None, ()) for _ in range(3)] == [found] * 3
        return before - len(answers)

    monkeypatch.setattr(identity, "installed", lambda _wanted: stamp)
    assert [asked(), asked()] == [1, 0]
    monkeypatch.setattr(identity, "installed", lambda _wanted: "another")
    assert [asked(), asked()] == [1, 0]
    library.write_bytes(b"13.5.1")
    assert [asked(), asked()] == [1, 0]
    library.unlink()
    answers.append(json.dumps(found._asdict()).encode())
    assert [asked(), asked()] == [1, 0]


@pytest.mark.nvrtc
def test_another_process_says_what_this_one_knows() -> None:
    toolkit = Toolkit(None)
    _ = toolkit.nvjitlink, toolkit.ptxas
    found = identity.find_installed(None, ("nvjitlink", "ptxas"))
    assert found.identity == identity.local_identity(toolkit)
    assert found.identity.version == __version__
    assert found.libraries == toolkit.libraries
    assert found.assembler == toolkit.assembler
    assert "shims" in found.headers


@pytest.mark.nvrtc
def test_it_prints_what_it_finds(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    identity.main("", "")
    assert json.loads(capsys.readouterr().out)["identity"] == [*identity.local_identity(Toolkit(None))]
    identity.main("", "nvjitlink ptxas")
    toolkit = Toolkit(None)
    _ = toolkit.nvjitlink, toolkit.ptxas
    assert json.loads(capsys.readouterr().out)["identity"] == [*identity.local_identity(toolkit)]
    broken: Callable[..., Toolkit] = _report_worker
    monkeypatch.setattr(identity, "Toolkit", broken)
    identity.main("system", "nvjitlink")
    assert json.loads(capsys.readouterr().out) == {"error": "cannot load nvrtc"}


def imported(module: Path) -> set[Path]:
    """Return the files of the package that a module imports, however far up it says they are."""
    found = set()
    for node in ast.walk(ast.parse(module.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.level:
            folder = module.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            found |= {folder.with_suffix(".py"), *(folder / f"{name.name}.py" for name in node.names)}
    return {path for path in found if path.is_file()}


def test_the_code_that_both_sides_share_is_all_that_a_worker_compiles_with() -> None:
    """What 'identity.py' imports finds out what a machine has, which is compared by itself."""
    host = Path(identity.__file__).parent / "worker_side.py"
    compiling = {host.parent, host.parents[1], host.parents[2] / "toolkit"}
    reached, left = set[Path](), [host]
    while left:
        module = left.pop()
        reached.add(module)
        near = {path for path in imported(module) if path.parent in compiling}
        left += near - reached - {Path(identity.__file__)}
    assert {(host.parent / name).resolve() for name in identity._CODE} == reached


def _report_worker(_wanted: object) -> Toolkit:
    raise ToolchainError(Problem("cannot load nvrtc"))
