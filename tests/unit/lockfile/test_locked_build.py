"""What a front end is asked for where the project has a lock."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.cache import signing
from hatch_cubin.cache.signing import Signer
from hatch_cubin.common import ed25519_keys
from hatch_cubin.errors import ConfigError, LockError, Problem
from hatch_cubin.lockfile import lock_format, locked_build, required_wheels
from hatch_cubin.project.project import Project, read_sources
from hatch_cubin.toolkit.requirements import SIGNATURES, build_requirements
from tests.helpers import COPY_PTX, SAXPY, make_project, read_config
from tests.store_server import StoreServer, store_server

pytestmark = pytest.mark.nvrtc

SIGNER, KEY = Signer(bytes(32)), ed25519_keys.write(ed25519_keys.PRIVATE, bytes(32))
OPTIONS = 'toolkit = "13"\narchs = ["sm_90"]\n'


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project that was locked, with a cache of its own."""
    project = make_project(tmp_path, {"saxpy.cu": SAXPY}, OPTIONS)
    (tmp_path / lock_format.NAME).write_text(lock_format.encode(pipeline.make_lock(project)))
    return project


def wanted(project: Project) -> list[str]:
    return required_wheels.required_wheels(project.config, project.root, lambda: project)


def none() -> Project:
    raise AssertionError("nobody asked for it")


LINKED = '[[tool.hatch.build.hooks.cubin.module]]\nname = "m"\nsources = ["demo/*.ptx"]\nmode = "rdc"'


@pytest.mark.parametrize(
    ("files", "options", "extras"),
    [
        ({"k.cu": SAXPY}, OPTIONS, []),
        ({"k.cu": SAXPY, "copy.PTX": COPY_PTX}, f'{OPTIONS}sources = ["**/*"]', ["nvcc"]),
        ({"copy.ptx": COPY_PTX}, OPTIONS, ["nvcc"]),
        ({"copy.ptx": COPY_PTX}, f'{OPTIONS}exclude = ["**/*.ptx"]', []),
        ({"k.cu": SAXPY, "copy.ptx": COPY_PTX}, OPTIONS + LINKED, []),
        ({"k.tileir": b"\x7fTileIR\0"}, OPTIONS, ["tileiras"]),
        ({"k.cu": "__tile_global__ void k() {}"}, OPTIONS, ["tileiras"]),
    ],
    ids=["no PTX", "PTX in capitals", "PTX", "excluded", "linked", "Tile IR", "tile kernel"],
)
def test_an_assembler_is_asked_for_if_a_module_needs_it(
    tmp_path: Path, files: dict[str, str | bytes], options: str, extras: list[str]
) -> None:
    project = make_project(tmp_path, files, options)
    assert wanted(project) == build_requirements(project.config, {}, extras=extras)


def test_what_is_wrong_with_a_project_is_left_to_the_build(tmp_path: Path) -> None:
    def broken() -> Project:
        raise ConfigError(Problem("no package"))

    config = read_config('toolkit = "13"')
    assert required_wheels.required_wheels(config, tmp_path, broken) == build_requirements(config, {})


def test_where_nothing_is_asked_for_a_lock_does_not_change_that(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_SKIP", "1")
    assert required_wheels.required_wheels(project.config, project.root, none) == []


def test_where_all_is_cached_no_wheel_is_asked_for(project: Project) -> None:
    assert wanted(project) == []


@pytest.fixture
def store(project: Project) -> Iterator[StoreServer]:
    """A shared store that has what was locked."""
    with store_server() as server:
        push(behind(project, server))
        yield server


def behind(project: Project, server: StoreServer, **environ: str) -> Project:
    """Return the project with a store, and a cache that has nothing."""
    environ = {**project.environ, "HATCH_CUBIN_REMOTE": server.url, **environ}
    return replace(project, config=read_config(OPTIONS, environ), environ=environ)


def push(project: Project) -> None:
    pipeline.build(replace(project, environ={**project.environ, "HATCH_CUBIN_REMOTE_WRITE": "1"}))


def test_where_a_store_has_all_no_wheel_is_asked_for(project: Project, store: StoreServer) -> None:
    assert wanted(_without_entries(behind(project, store))) == []


def test_a_locked_build_takes_all_from_a_store_without_a_compiler(
    project: Project, store: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = pipeline.build(project)
    for name in [name for name in sys.modules if name.partition(".")[0] == "cuda"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cuda", None)
    report = project.root / "report.json"
    again = behind(project, store, HATCH_CUBIN_REPORT=str(report))
    assert pipeline.build(_without_entries(again)) == files
    found = json.loads(report.read_text("utf-8"))
    assert [unit["tier"] for unit in found["units"]] == ["remote"]


def test_a_store_that_has_not_all_is_asked_once_and_the_rest_is_compiled(
    project: Project, store: StoreServer
) -> None:
    store.files.clear()
    store.log.clear()
    report = project.root / "report.json"
    pipeline.build(_without_entries(behind(project, store, HATCH_CUBIN_REPORT=str(report))))
    found = json.loads(report.read_text("utf-8"))
    assert (found["compiled"], found["remote"]["fault"]) == (1, None)


def test_a_store_that_fails_is_told_by_the_build_and_not_before(
    project: Project, store: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.fault = lambda handler: handler.answer(500)
    said = list[str]()
    lacking = replace(_without_entries(behind(project, store)), warn=said.append)
    assert wanted(lacking) != []
    assert said == []
    pipeline.build(lacking)
    assert said == [f"the remote cache at {store.url} cannot be used fully: the store fails (500)"]


def test_a_store_in_a_bucket_still_needs_its_client(project: Project) -> None:
    config = read_config(f'{OPTIONS}remote-cache = "s3://bucket"\n', project.environ)
    assert wanted(replace(project, config=config)) == ["obstore>=0.11,<1"]


def _without_entries(project: Project) -> Project:
    shutil.rmtree(project.cache_folder)
    return project


def _cut_off(project: Project) -> Project:
    for entry in project.cache_folder.glob("entries/*/*"):
        entry.write_bytes(entry.read_bytes()[:-1])
    return project


def _edited(project: Project) -> Project:
    (project.root / "demo/saxpy.cu").write_text(SAXPY + "\n")
    return project


@pytest.mark.parametrize("change", [_without_entries, _cut_off, _edited])
def test_where_something_has_to_be_compiled_the_locks_builds_are_asked_for(
    project: Project, change: Callable[[Project], Project]
) -> None:
    found = lock_format.read(project.root)
    assert found is not None
    assert {"cuda-core", "cuda-toolkit", "nvidia-cuda-nvrtc"} <= found.wheels.keys()
    assert found.wheels.keys().isdisjoint({"nvidia-nvjitlink", "nvidia-cuda-nvcc"})  # no link, no PTX
    assert wanted(change(project)) == [
        *(f"{name}=={version}" for name, version in found.wheels.items()),
        "cuda-bindings==13.*",  # no result depends on it
    ]


def signed(project: Project, **environ: str) -> Project:
    """Return the project with a key that it trusts, in an environment that signs or asks for signatures."""
    config = replace(project.config, trusted_keys=(SIGNER.key,))
    return replace(project, config=config, environ={**project.environ, **environ})


ASKED = {"HATCH_CUBIN_REQUIRE_SIGNED": "1"}


def test_the_lock_leads_round_no_check(project: Project) -> None:
    """Its digests say which bytes are meant. Who has signed them is another question."""
    asks = signed(project, **ASKED)
    verdict = locked_build.evaluate(asks, read_sources(asks))
    assert verdict is not None
    assert verdict.results is None
    found = lock_format.read(project.root)
    assert found is not None
    assert wanted(asks) == build_requirements(asks.config, {}, found.wheels)
    pipeline.build(signed(project, **ASKED, HATCH_CUBIN_SIGNING_KEY=KEY))
    assert wanted(asks) == [SIGNATURES]
    verdict = locked_build.evaluate(asks, read_sources(asks))
    assert verdict is not None
    assert verdict.results is not None


def test_what_checks_signatures_need_not_be_there_before_it_was_asked_for(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.build(signed(project, **ASKED, HATCH_CUBIN_SIGNING_KEY=KEY))
    found = lock_format.read(project.root)
    assert found is not None
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    signing._public.cache_clear()
    asks = signed(project, **ASKED)
    assert wanted(asks) == build_requirements(asks.config, {}, found.wheels)
    assert wanted(signed(project)) == [SIGNATURES]


def test_who_would_not_take_results_does_not_look_for_them(project: Project, store: StoreServer) -> None:
    """A shard compiles what is its own: every result of the plan is not its business."""
    there = behind(project, store)
    store.take_log()
    verdict = locked_build.evaluate(there, read_sources(there), find_results=False)
    assert verdict is not None
    assert (verdict.plan.changes, verdict.results, verdict.remote) == ((), None, None)
    assert store.take_log() == []


def test_another_toolkit_in_the_table_asks_for_that_one(project: Project) -> None:
    other = replace(project, config=read_config('toolkit = "12.9"'))
    assert wanted(other) == build_requirements(other.config, {})


def test_a_stale_lock_is_told_before_anything_is_installed(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_LOCKED", "1")
    strict = replace(project, environ={**project.environ, "HATCH_CUBIN_LOCKED": "1"})
    assert wanted(strict) == []
    with pytest.raises(LockError, match=r"demo/saxpy\.cu is changed"):
        wanted(_edited(strict))
    (project.root / lock_format.NAME).unlink()
    with pytest.raises(LockError, match=r"there is no cubin\.lock, and HATCH_CUBIN_LOCKED is set"):
        wanted(strict)
