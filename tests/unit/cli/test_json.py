"""What `--json` prints is what the reference says: every field, no other, and of the type that it names."""

from __future__ import annotations

import contextlib
import json
import os
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.cache.signing import Signer
from hatch_cubin.cli import main
from hatch_cubin.common import ed25519_keys
from hatch_cubin.wheels.checking import check
from tests.helpers import COPY_PTX, REPOSITORY, SAXPY, TABLE, bundle, made, pyproject, write_tree
from tests.producers import SCRIPT, producer_table
from tests.sample_wheels import code, whole_wheel
from tests.split_wheels import PARTS, VARIANTS, finished_wheel, split_wheel
from tests.split_wheels import PLAIN as OF_SPLIT
from tests.store_server import store_server

REFERENCE = (REPOSITORY / "docs/reference/json.md").read_text("utf-8")
SECTIONS = {
    heading: dict(re.findall(r"^\| `([^`]+)` \| ([a-z ]+) \|", body, re.MULTILINE))
    for heading, body in re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", REFERENCE, re.MULTILINE)
}
TYPES: Mapping[str, type | None] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "null": type(None),
}
# The arguments with which a verb has something of everything to say, about a project with two sources.
ARGUMENTS = {
    "plan": ["plan"],
    "bake": ["bake", "--shard", "1/1"],
    "lock": ["lock", "--check"],
    "bundle": ["bundle", "--into", "demo"],
    "unpack": ["unpack", "demo", "--into", "files"],
    "split": ["split", f"whole/{PARTS[0]}", "--by", "arch", "--as", "variants", "--into", "parts"],
    "init": ["init"],
    "keygen": ["keygen", "../the.key"],
    "cache dir": ["cache", "dir"],
    "cache stats": ["cache", "stats"],
    "cache fsck": ["cache", "fsck"],
    "cache merge": ["cache", "merge", "other"],
    "cache pull": ["cache", "pull"],
    "cache push": ["cache", "push"],
    "cache gc": ["cache", "gc", "--max-size", "1GiB"],
    "cache clear": ["cache", "clear"],
    "cache key": ["cache", "key"],
}
# Where its shared store is, one run after another: nowhere, where nobody answers, and at a server.
STORES = {"bake": (None, "gone", "there"), "cache pull": ("gone", "there"), "cache push": ("gone", "there")}
LISTED = '.entry copy() {\n.loc 1 1 1\nret;\n}\n.file 1 "copy.ptx"\n'
BOUND = b".version 8.0\n.target sm_80\n.entry bound() N { ret; }\n"
COPY_CU = SAXPY.replace("saxpy", "copy")
PROJECT = {
    "pyproject.toml": pyproject('archs = ["sm_90", "compute_90"]\n'),
    "demo/__init__.py": "",
    "demo/saxpy.cu": SAXPY,
    "demo/include.cu": '#include "empty.h"\n' + SAXPY.replace("saxpy", "__launch_bounds__(256) axpy"),
    "demo/empty.h": "",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(write_tree(tmp_path, PROJECT))
    return tmp_path


def fields(value: Any, path: str = "") -> Iterator[tuple[str, type]]:
    """Yield the fields of what JSON gave, as the reference writes them, with their types."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from fields(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for item in value:
            yield from fields(item, f"{path}[]")
    else:
        yield path, type(value)


def documented(*headings: str) -> dict[str, set[type | None]]:
    return {
        field: {TYPES[name] for name in types.split(" or ")}
        for heading in headings
        for field, types in SECTIONS[heading].items()
    }


def found(facts: Any) -> dict[str, set[type]]:
    """Return the fields of what a verb printed, but for those that all have where something is wrong."""
    types: dict[str, set[type]] = {}
    errors = facts.pop("errors")
    assert isinstance(errors, list)
    for field, kind in fields(facts):
        types.setdefault(field, set()).add(kind)
    return types


def test_every_verb_that_is_tried_is_documented() -> None:
    looking = {"check", "diff", "explain", "inspect", "verify"}
    assert {*SECTIONS} == {"All verbs", "What is wrong", *looking, *ARGUMENTS}
    assert {verb.partition(" ")[0] for verb in SECTIONS} == {"All", "What", *main.VERBS}


def prepare(verb: str, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make what a verb has to find, so that it has all of its fields to print."""
    if verb == "cache stats":
        main.main(["bake"])  # something to remember
    if verb == "lock":  # something that is unsure, and something that has changed since
        write_tree(project, {"demo/any.cu": f"#if 0\n#include UNKNOWN\n#endif\n{COPY_CU}"})
        table = producer_table()
        write_tree(project, {"demo/gen.py": SCRIPT, "pyproject.toml": f"{PROJECT['pyproject.toml']}{table}"})
        main.main(["lock"])
        needing = f'{PROJECT["pyproject.toml"]}{table}requires = ["no-such-thing"]\n'
        write_tree(project, {"demo/empty.h": "// edited\n", "pyproject.toml": needing})
    if verb == "unpack":
        main.main(["bundle", "--into", "demo"])
    if verb == "split":
        finished_wheel(Path("whole"))
    if verb == "bake":  # on another machine, as far as that goes
        monkeypatch.setenv("HATCH_CUBIN_EXECUTOR", "concurrent.futures:ThreadPoolExecutor")
    if verb == "cache merge":
        write_tree(Path("other"), {"entries/notes.txt": ""})  # something to find
    if verb == "cache fsck":
        write_tree(Path(os.environ["HATCH_CUBIN_CACHE_DIR"]), {"notes.txt": ""})  # something to find


@pytest.mark.nvrtc
@pytest.mark.parametrize("verb", ARGUMENTS)
def test_a_verb_prints_the_fields_that_are_documented(
    project: Path, capsys: pytest.CaptureFixture[str], verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(verb, project, monkeypatch)
    with store_server() as gone:
        places = {"gone": gone.url}
    types: dict[str, set[type]] = {}
    with store_server() as there:
        for store in STORES.get(verb, (None,)):
            if store is not None:
                monkeypatch.setenv("HATCH_CUBIN_REMOTE", places.get(store, there.url))
                monkeypatch.setenv("HATCH_CUBIN_REMOTE_WRITE", "1")
            capsys.readouterr()
            with contextlib.suppress(SystemExit):
                main.main([*ARGUMENTS[verb], "--json"])
            facts = json.loads(capsys.readouterr().out)
            assert (facts["format"], facts["verb"]) == (main.FORMAT, ARGUMENTS[verb][0])
            for field, kinds in found(facts).items():
                types.setdefault(field, set()).update(kinds)
    assert types == documented("All verbs", verb)


@pytest.mark.nvrtc
def test_explain_prints_the_fields_that_are_documented(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    types: dict[str, set[type]] = {}

    def explain(*arguments: str) -> None:
        capsys.readouterr()
        assert main.main(["explain", *arguments, "--json"]) == 0
        for field, kinds in found(json.loads(capsys.readouterr().out)).items():
            types.setdefault(field, set()).update(kinds)

    def define(macro: str, archs: str) -> None:
        configuration = PROJECT["pyproject.toml"].replace("sm_90", archs)
        write_tree(project, {"pyproject.toml": f"{configuration}define = {{ {macro} = 4 }}\n"})

    define("M", "sm_90")
    explain("saxpy", "--arch", "sm_90", "--gpu", "12.0", "--driver", "13.0")
    assert main.main(["bake", "--archs", "sm_90"]) == 0
    explain("saxpy", "--gpu", "7.0")
    explain("saxpy", "--gpu", "9.0")
    define("M", 'sm_80", "sm_90')
    both = SAXPY.replace("saxpy", "both")
    part = SAXPY.replace("saxpy", "part")
    write_tree(project, {"demo/part.cu": f"{both}#if __CUDA_ARCH__ >= 900\n{part}#endif\n"})
    assert main.main(["bake"]) == 0
    explain("demo/part.cu", "--gpu", "8.0")
    (project / "demo/part.cu").unlink()
    define("N", "all-major")
    write_tree(project, {"demo/saxpy.cu": SAXPY + "\n", "demo/copy.ptx": COPY_PTX})
    explain("saxpy")
    explain("copy")
    producer = f"{PROJECT['pyproject.toml']}{producer_table()}"
    write_tree(project, {"pyproject.toml": producer, "demo/gen.py": SCRIPT})
    explain("one")
    (project / "demo/gen.py").unlink()
    signed_by_another(project, monkeypatch)
    explain("saxpy")
    assert types == documented("All verbs", "explain")


def signed_by_another(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all that the project consists of in the cache, signed with a key that its table does not trust."""
    one, other = (Signer(bytes([number]) * 32).key for number in (1, 2))
    monkeypatch.setenv("HATCH_CUBIN_SIGNING_KEY", ed25519_keys.write(ed25519_keys.PRIVATE, bytes([1]) * 32))
    for key in (one, other):
        table = f'{PROJECT["pyproject.toml"]}trusted-keys = ["{key}"]\n'
        write_tree(project, {"pyproject.toml": table, "demo/saxpy.cu": f"{SAXPY}// signed\n"})
        if key == one:
            assert main.main(["bake", "--archs", "sm_90"]) == 0


def collected(field: str, headings: dict[str, set[type | None]]) -> str:
    """Return how the reference writes a field whose path has a name in it."""
    groups = (heading for heading in headings if ".*" in heading and _is_like(field, heading))
    return next(groups, field)


def _is_like(field: str, heading: str) -> bool:
    start, _, end = heading.partition("*")
    return field.startswith(start) and field.endswith(end)


@pytest.mark.nvrtc
@pytest.mark.parametrize("verb", ["inspect", "verify"])
def test_what_looks_at_wheels_prints_the_fields_that_are_documented(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    fields_of_verb, types = documented("All verbs", verb), dict[str, set[type]]()

    def look(*arguments: str) -> None:
        capsys.readouterr()
        with contextlib.suppress(SystemExit):
            main.main([verb, *arguments, "--json"])
        for field, kinds in found(json.loads(capsys.readouterr().out)).items():
            types.setdefault(collected(field, fields_of_verb), set()).update(kinds)

    variants = (
        f'[[{".".join(TABLE)}.source]]\npath = "demo/saxpy.cu"\nvariants = {{ N = [1, 2], M = [1, false] }}\n'
    )
    write_tree(project, {"pyproject.toml": PROJECT["pyproject.toml"] + variants, "demo/copy.ptx": COPY_PTX})
    other = {
        "data_model": "lp64",
        "folder": "demo/_cubins",
        "toolchain": {"nvrtc": "13.0.1", "nvjitlink": None},
    }
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "_header", lambda *_: other)
        main.main(["bundle", "--into", "demo"])
    with zipfile.ZipFile(project / "demo-1.0-py3-none-any.whl", "w") as archive:
        for path in sorted((project / "demo").rglob("*")):
            archive.write(path, path.relative_to(project))
            if path.parent.name == "_cubins" and verb == "verify":
                archive.write(path, f"other/_cubins/{path.name}")
    look("demo-1.0-py3-none-any.whl")
    if verb == "inspect":
        look("demo-1.0-py3-none-any.whl", "--ptx", "copy")
        (project / "demo/_cubins/copy.compute_80.ptx").write_text(LISTED)
        look("demo", "--ptx", "copy")
    write_tree(project, {"demo/include.cu": SAXPY.replace("saxpy", "other")})
    if verb == "verify":
        look("demo-1.0-py3-none-any.whl", "--rebuild")
    look("demo", *(["--rebuild"] if verb == "verify" else []))
    (project / "demo/_cubins/include.sm_90.cubin").write_bytes(b"")
    look("demo")
    write_tree(project, {"pyproject.toml": "".join([PROJECT["pyproject.toml"], "pack = true\n", variants])})
    main.main(["bundle", "--into", "demo"])
    look("demo")
    if verb == "inspect":
        look(str(split_wheel(project, OF_SPLIT, "--as", "variants") / VARIANTS[-1]))
    assert types == fields_of_verb


def fields_of(
    capsys: pytest.CaptureFixture[str], known: dict[str, set[type | None]], *runs: Sequence[object]
) -> dict[str, set[type]]:
    """Return the fields that several runs of a verb have printed."""
    types: dict[str, set[type]] = {}
    for arguments in runs:
        with contextlib.suppress(SystemExit):
            main.main([*map(str, arguments), "--json"])
        for field, kinds in found(json.loads(capsys.readouterr().out)).items():
            types.setdefault(collected(field, known), set()).update(kinds)
    return types


def test_check_prints_the_fields_that_are_documented(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(check, "PYPI_MAX_BYTES", 1)
    files = bundle(
        made("a", "sm_80", data=code("a", spills=1, stack=8)),
        made("b", "sm_80", {"b": "b"}, data=code("b")),
        made("b", "sm_90", {"c": "c"}, data=code("c")),
        made("copy", "sm_90", {"copy": "copy"}, data=code("copy")),
        made("copy", "compute_80", {"copy": "copy"}, data=COPY_PTX.encode()),
    )
    wheel = whole_wheel(tmp_path, files)
    folder = write_tree(tmp_path / "demo/_cubins", files)
    known = documented("All verbs", "check")
    write_tree(tmp_path, {"pyproject.toml": pyproject("")})
    runs = (
        ["check", wheel, "--gpu", "7.5,8.0", "--table", "--except", "none"],
        ["check", folder, "--max-size", "1MB"],
    )
    assert fields_of(capsys, known, *runs) == known


def test_diff_prints_the_fields_that_are_documented(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = documented("All verbs", "diff")
    old, new = {"nvrtc": "13.0.1", "nvjitlink": "13.0.1"}, {"nvrtc": "13.0.2", "cuda_core": "1.2"}
    takes, less = COPY_PTX.encode(), COPY_PTX.replace(".u64", ".u32").encode()
    before = bundle(
        made("a", "sm_80", data=code("a")),
        made("b", "sm_80", data=code("b")),
        made("copy", "compute_80", data=takes),
        made("bound", "compute_80", data=BOUND.replace(b"N", b".maxntid 128")),
        made("bound", "compute_90", data=BOUND.replace(b"N", b"")),
        toolchain=old,
    )
    after = bundle(
        made("a", "sm_80", data=code("a", spills=1)),
        made("c", "sm_90", data=code("c")),
        made("copy", "compute_80", data=less),
        made("bound", "compute_80", data=BOUND.replace(b"N", b"")),
        made("bound", "compute_90", data=BOUND.replace(b"N", b".maxntid 128")),
        toolchain=new,
    )
    one, other = whole_wheel(tmp_path / "one", before), whole_wheel(tmp_path / "other", after)
    write_tree(tmp_path / "two/a/_cubins", before)
    two = write_tree(tmp_path / "two/b/_cubins", before).parents[1]
    more = write_tree(tmp_path / "more/c/_cubins", after).parents[1]
    runs = (["diff", one, other], ["diff", two, more], ["diff", more, two])
    assert fields_of(capsys, known, *runs) == known


@pytest.mark.nvrtc
def test_the_report_of_a_build_is_what_bake_prints(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_REPORT", str(tmp_path / "report.json"))
    assert main.main(["bake", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert json.loads((tmp_path / "report.json").read_text("utf-8")) == {
        name: value for name, value in printed.items() if name not in ("verb", "errors")
    }


@pytest.mark.nvrtc
def test_units_that_fail_are_facts_beside_what_is_wrong_with_them(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tree(project, {"demo/saxpy.cu": "__global__ void k() {\n  wrong;\n}\n"})
    with pytest.raises(SystemExit, match=r"^1$"):
        main.main(["bake", "--json", "--archs", "sm_90"])
    facts = json.loads(capsys.readouterr().out)
    (error,) = facts["errors"]
    meant = documented("What is wrong")
    assert {f"errors[].{name}" for name in error} == {field.removesuffix("[]") for field in meant}
    assert [each for each in fields({"errors": [error]}) if each[1] not in meant[each[0]]] == []
    assert (error["what"], error["path"], error["line"]) == (
        'identifier "wrong" is undefined',
        "demo/saxpy.cu",
        2,
    )
    assert {unit["module"]: unit["state"] for unit in facts["units"]} == {
        "include": "compiled",
        "saxpy": "failed",
    }
