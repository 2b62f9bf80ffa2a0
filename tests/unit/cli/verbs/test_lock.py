"""The verb `lock`, and `--locked` of others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.cli.main import main
from hatch_cubin.lockfile import lock_format
from hatch_cubin.lockfile.lock_format import NAME
from hatch_cubin.toolkit.toolkit import Toolkit
from tests.helpers import SAXPY, Coded, codes, pyproject, run, write_tree
from tests.producers import KERNEL, producer_table

pytestmark = pytest.mark.nvrtc

ANEW = "  hint: run 'hatch-cubin lock' to write the lock again"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {"demo/__init__.py": "", "demo/saxpy.cu": SAXPY}
    return write_tree(tmp_path, {"pyproject.toml": pyproject('archs = ["sm_90"]\n'), **files})


class Said:
    """What a verb prints, and how it ends."""

    def __init__(self, capsys: pytest.CaptureFixture[str], root: Path, *arguments: str) -> None:
        capsys.readouterr()
        try:
            self.code: object = main([*arguments, "--project", str(root)])
        except SystemExit as ended:
            self.code = ended.code
        said = capsys.readouterr()
        self.out, self.err = said.out.splitlines(), said.err.splitlines()


def test_a_lock_is_written_once_all_is_compiled(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = Said(capsys, root, "lock", "--check")
    assert missing.err == [
        "hatch-cubin: error: there is no cubin.lock [lock-missing]",
        "  hint: 'hatch-cubin lock' writes cubin.lock",
    ]
    written = Said(capsys, root, "lock")
    assert written.out == [
        f"cubin.lock lists 1 unit to compile with NVRTC {Toolkit(None).nvrtc}: commit this file"
    ]
    assert written.err[0].startswith("hatch-cubin: 1 unit: 0 cached, 1 compiled in ")
    assert Said(capsys, root, "lock", "--check").out == ["cubin.lock is up to date"]


@pytest.mark.parametrize(
    ("rules", "is_ignored"), [("*.so\n*.lock\n", True), ("*.lock\n!cubin.lock\n", False), ("", False)]
)
def test_a_lock_that_git_ignores_is_told(
    root: Path, capsys: pytest.CaptureFixture[str], rules: str, *, is_ignored: bool
) -> None:
    run("git", "init", "-q", cwd=root)
    (root / ".gitignore").write_text(rules)
    (line,) = Said(capsys, root, "lock").out
    assert (".gitignore:2" in line) == is_ignored
    assert ("'git add --force'" in line) == is_ignored


@pytest.mark.parametrize("verb", [["lock"], ["plan"], ["check", "--table"]])
def test_sources_that_git_ignores_are_a_warning_until_they_are_added(
    root: Path, capsys: pytest.CaptureFixture[str], verb: list[str]
) -> None:
    run("git", "init", "-q", cwd=root)
    write_tree(root, {".gitignore": "*.so\nsaxpy.*\n"})
    hint = "git add --force demo/saxpy.cu"
    err = Said(capsys, root, *verb).err
    (warning,) = (line for line in err if "[source-ignored-by-git]" in line)
    assert warning == Coded("source-ignored-by-git", ".gitignore:2", "1 source")
    assert f"'{hint}'" in err[err.index(warning) + 1]
    run(*hint.split(), cwd=root)
    assert codes("\n".join(Said(capsys, root, *verb).err)) == []


@pytest.mark.parametrize("verb", [["plan"], ["check", "--table"]])
def test_a_key_in_the_table_of_another_tool_is_a_warning(
    root: Path, capsys: pytest.CaptureFixture[str], verb: list[str]
) -> None:
    with (root / "pyproject.toml").open("a") as file:
        file.write('[tool.uv]\ncache-keys = []\nmax-size = "40 KB"\n')
    said = Said(capsys, root, *verb)
    assert (said.code, codes("\n".join(said.err))) == (0, ["key-in-wrong-table"])


@pytest.mark.parametrize("check", [[], ["--check"]])
def test_a_variable_that_would_change_the_lock_is_refused(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, check: list[str]
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_ARCHS", "sm_80")
    refused = Said(capsys, root, "lock", *check)
    assert (refused.code, codes("\n".join(refused.err))) == (1, ["variable-changes-lock"])
    assert not (root / NAME).exists()


def test_a_check_says_what_has_changed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Said(capsys, root, "lock")
    before = (root / NAME).read_bytes()
    write_tree(root, {"demo/saxpy.cu": f"{SAXPY}\n"})
    stale = Said(capsys, root, "lock", "--check")
    assert (stale.code, stale.err[:2]) == (
        1,
        ["hatch-cubin: error: cubin.lock: is stale [lock-stale]", "  demo/saxpy.cu is changed"],
    )
    assert (root / NAME).read_bytes() == before


def test_a_check_names_another_compiler(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Said(capsys, root, "lock")
    written = lock_format.decode((root / NAME).read_text("utf-8"))
    other = written._replace(builds={**written.builds, "nvrtc": "13.0.1"})
    (root / NAME).write_text(lock_format.encode(other), "utf-8")
    stale = Said(capsys, root, "lock", "--check")
    assert (stale.code, stale.err[:2]) == (
        1,
        [
            "hatch-cubin: error: cubin.lock: is stale [lock-stale]",
            f"  NVRTC was 13.0.1, and is now {Toolkit(None).nvrtc}",
        ],
    )


def test_what_a_lock_has_too_much_is_told_by_a_check_alone(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "pyproject.toml").write_text(pyproject('archs = ["sm_80", "sm_90"]\n'))
    Said(capsys, root, "lock")
    (root / "pyproject.toml").write_text(pyproject('archs = ["sm_90"]\n'))
    assert Said(capsys, root, "plan", "--locked").code == 0
    told = Said(capsys, root, "lock", "--check")
    assert told.err == [
        "hatch-cubin: error: cubin.lock: is stale [lock-stale]",
        "  'hatch-cubin lock' would change the field 'modules'",
        ANEW,
    ]


def test_an_unsure_source_is_named(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tree(root, {"demo/saxpy.cu": f"#if 0\n#include ANY\n#endif\n{SAXPY}"})
    assert Said(capsys, root, "lock").out[1:] == [
        "the includes of demo/saxpy.cu depend on the compiler's headers, so every build needs the compiler"
    ]
    assert Said(capsys, root, "lock", "--check").code == 0


@pytest.mark.parametrize("is_stable", [True, False])
def test_a_producer_that_returns_another_text_in_each_run_is_told(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_stable: bool
) -> None:
    stamp = tmp_path.parent / f"{tmp_path.name}-stamp"
    stamp.write_text("a")
    grow = "" if is_stable else f"        open({str(stamp)!r}, 'a').write('b')\n"
    script = f"""\
def sources():
    with open({str(stamp)!r}) as file:
        text = file.read()
{grow}\
    return {{"one.cu": {KERNEL.format(name="one", value=1)!r} + "// " + text}}
"""
    table = pyproject(f'archs = ["sm_90"]\n{producer_table()}')
    write_tree(root, {"pyproject.toml": table, "demo/gen.py": script})
    Said(capsys, root, "lock")
    stamp.write_text("abc" if is_stable else stamp.read_text())
    stale = Said(capsys, root, "lock", "--check")
    unstable = [line for line in stale.err if line.startswith("  demo/one.cu:2: ")]
    assert (stale.code, len(unstable), ANEW in stale.err) == (1, int(not is_stable), is_stable)


@pytest.mark.parametrize("verb", ["plan", "bake"])
def test_a_stale_lock_can_be_refused(root: Path, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    Said(capsys, root, "lock")
    assert Said(capsys, root, verb, "--locked").code == 0
    write_tree(root, {"demo/more.h": "", "demo/saxpy.cu": f"{SAXPY}\n"})
    stale = Said(capsys, root, verb, "--locked")
    assert (stale.code, stale.out) == (1, [])
    assert stale.err == [
        "hatch-cubin: error: cubin.lock: is stale, and --locked is set [lock-stale]",
        "  demo/saxpy.cu is changed",
        ANEW,
    ]


def test_a_plan_and_a_bundle_of_hits_need_no_compiler(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Said(capsys, root, "lock")
    made = Said(capsys, root, "bundle", "--into", str(root / "demo"))
    (root / "demo/_cubins/manifest.json").unlink()
    monkeypatch.setattr(pipeline, "make_plan", None)
    monkeypatch.setitem(sys.modules, "cuda.core", None)
    assert Said(capsys, root, "plan").out[1:] == ["1 unit: 1 in the cache, 0 to compile"]
    assert Said(capsys, root, "bundle", "--into", str(root / "demo")).out == made.out


def test_a_lock_that_cannot_be_written_is_told(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / NAME).mkdir()
    assert (
        Said(capsys, root, "lock").err[-1]
        == "hatch-cubin: error: cubin.lock: cannot be written: Is a directory [file-not-writable]"
    )


def test_a_lock_is_written_and_checked_with_what_producers_return_now(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counter = tmp_path.parent / f"{tmp_path.name}-runs"
    script = f"""\
def sources():
    with open({str(counter)!r}, "a") as file:
        file.write("x")
    return {{"one.cu": {KERNEL.format(name="one", value=1)!r}}}
"""
    table = pyproject(f'archs = ["sm_90"]\n{producer_table()}')
    write_tree(root, {"pyproject.toml": table, "demo/gen.py": script})
    for *verb, runs in (("plan", 1), ("plan", 1), ("lock", 2), ("lock", "--check", 3), ("plan", 3)):
        assert not Said(capsys, root, *verb).code
        assert len(counter.read_text("utf-8")) == runs
