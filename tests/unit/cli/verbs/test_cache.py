"""`hatch-cubin cache`: which folder is meant, what is in it, what goes, and one hash for CI."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.cache import housekeeping
from hatch_cubin.cache.entries import Cache, Compiled
from hatch_cubin.cache.records import entry_path
from hatch_cubin.cli.main import main
from hatch_cubin.common import user_folders
from tests import special_files
from tests.command_line import Command
from tests.helpers import SAXPY, Coded, codes, pyproject, write_tree
from tests.store_server import store_server

AXPY = SAXPY.replace("saxpy", "axpy")
PROJECT = {
    "pyproject.toml": pyproject('archs = ["sm_80", "sm_90"]\n'),
    "demo/__init__.py": "",
    "demo/saxpy.cu": SAXPY,
}


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own folder."""
    folder = tmp_path / "own"
    monkeypatch.setattr(user_folders, "own_folder", lambda: folder)
    return folder


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project as the current folder, and a cache of its own."""
    monkeypatch.chdir(write_tree(tmp_path / "project", PROJECT))
    monkeypatch.setenv("HATCH_CUBIN_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "project"


@pytest.fixture
def say(command: Command) -> Any:
    """Run the verb and return what it prints, or its facts."""

    def run(*arguments: str) -> Any:
        ended = command("cache", *arguments)
        assert ended.code == 0
        return json.loads(ended.out) if "--json" in arguments else ended.out.splitlines()

    return run


# Which cache


def test_the_environment_says_where_the_cache_is(tmp_path: Path, project: Path, say: Any) -> None:
    (project / "pyproject.toml").write_text("not even TOML")
    assert say("dir") == [str(tmp_path / "cache")]


def test_without_it_a_projects_table_does(project: Path, monkeypatch: pytest.MonkeyPatch, say: Any) -> None:
    monkeypatch.delenv("HATCH_CUBIN_CACHE_DIR")
    (project / "pyproject.toml").write_text(pyproject('cache-dir = "build/cubins"\n'))
    assert say("dir") == [str(project / "build/cubins")]
    monkeypatch.chdir("/")
    assert say("dir", "--project", str(project)) == [str(project / "build/cubins")]


@pytest.mark.parametrize("text", [None, pyproject(""), "[project]\n"])
def test_without_either_it_is_the_users(
    tmp_path: Path, own: Path, monkeypatch: pytest.MonkeyPatch, say: Any, text: str | None
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_CACHE_DIR", "")
    (tmp_path / "here").mkdir()
    files = {} if text is None else {"pyproject.toml": text}
    monkeypatch.chdir(write_tree(tmp_path / "here", files))
    assert say("dir", "--json") == {
        "format": 1,
        "verb": "cache",
        "errors": [],
        "action": "dir",
        "folder": str(own / "cubins"),
    }


def test_a_wrong_table_is_no_reason_to_take_another_cache(
    project: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.delenv("HATCH_CUBIN_CACHE_DIR")
    (project / "pyproject.toml").write_text(pyproject("cache-dir = 1\n"))
    wrong = Coded("invalid-value", "pyproject.toml:10", "cache-dir ")
    assert command("cache", "clear").errors == [wrong]


@pytest.mark.nvrtc
def test_nothing_of_cuda_is_needed_to_look_after_a_cache(
    project: Path, monkeypatch: pytest.MonkeyPatch, say: Any
) -> None:
    main(["bake"])
    for name in [name for name in sys.modules if name.partition(".")[0] == "cuda"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cuda", None)
    assert say("stats")[1].startswith("2 entries, ")
    assert say("gc", "--keep-last-build") == [
        f"kept 2 units of the last build with this cache, whose project is {project}",
        "removed 0 entries, 0 B",
    ]
    assert say("clear")[0].startswith("removed 2 entries, ")


# What is in it


@pytest.mark.nvrtc
def test_stats_say_what_is_there_and_what_the_last_builds_found(
    tmp_path: Path, project: Path, say: Any
) -> None:
    main(["bake", "--archs", "sm_90"])
    main(["bake"])
    files = [path for path in (tmp_path / "cache/entries").rglob("*") if path.is_file()]
    facts = say("stats", "--json")
    first, second = (build.pop("time") for build in facts["builds"])
    assert second <= first
    took = facts["builds"][0].pop("seconds") + facts["builds"][1].pop("seconds")
    saved = round(took / 2, 3)
    assert facts == {
        "format": 1,
        "verb": "cache",
        "errors": [],
        "action": "stats",
        "folder": str(tmp_path / "cache"),
        "entries": 2,
        "unproven": 0,
        "temporaries": 0,
        "bytes": sum(path.stat().st_size for path in files),
        "builds": [
            {"project": str(project), "hits": 1, "misses": 1, "fetched": 0},
            {"project": str(project), "hits": 0, "misses": 1, "fetched": 0},
        ],
        "tiers": {
            "local": {"hits": 1, "rate": 1 / 3, "saved_s": saved},
            "remote": {"hits": 0, "rate": 0.0, "saved_s": 0.0},
        },
    }
    assert say("stats") == [
        str(tmp_path / "cache"),
        f"2 entries, {facts['bytes'] / 1024:.1f} KiB",
        "last builds           hits  fetched  misses",
        f"{first}     1        0       1  {project}",
        f"{second}     0        0       1  {project}",
        f"local: hits for 33% of all units, which saved about {saved:.1f} s of compiling",
    ]


@pytest.mark.nvrtc
def test_files_that_no_build_can_use_are_counted_apart(tmp_path: Path, project: Path, say: Any) -> None:
    main(["bake", "--archs", "sm_90"])
    entry = max(
        (tmp_path / "cache/entries").rglob("*"), key=lambda path: path.is_file() and path.stat().st_size
    )
    entry.unlink()
    assert say("stats")[1].startswith("0 entries, ")
    assert say("stats")[2] == "1 file without a valid record: builds replace these files"


def test_an_empty_cache_has_nothing_to_say(project: Path, tmp_path: Path, say: Any) -> None:
    assert say("stats") == [str(tmp_path / "cache"), "0 entries, 0 B"]
    assert say("clear") == ["removed 0 entries, 0 B"]


# The shared store


@pytest.mark.nvrtc
def test_what_one_machine_pushes_another_pulls(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch, say: Any
) -> None:
    main(["bake", "--archs", "sm_90"])
    with store_server() as server:
        monkeypatch.setenv("HATCH_CUBIN_REMOTE", server.url)
        pushed, again = (say("push") for _ in range(2))
        assert [line.rpartition(",")[0] for line in pushed[1:]] == ["2 units: 1 pushed"]
        assert [line.rpartition(",")[0] for line in again[1:]] == ["2 units: 0 pushed"]
        monkeypatch.setenv("HATCH_CUBIN_CACHE_DIR", str(tmp_path / "another"))
        facts = say("pull", "--json")
        assert facts.pop("requests") == 4  # both units, the bytes of one, and the index for the other
        assert facts.pop("bytes") > 0
        assert facts == {
            "format": 1,
            "verb": "cache",
            "errors": [],
            "action": "pull",
            "units": 2,
            "local": 0,
            "missing": 1,
            "url": server.url,
            "fetched": 1,
            "pushed": 0,
            "fault": None,
        }
        assert pushed[0] == server.url
        assert say("pull", "--archs", "sm_90") == [server.url, "1 unit: 1 cached, 0 fetched, 0 missing, 0 B"]
        main(["bake", "--archs", "sm_90", "--require-hits"])


def test_without_a_store_nothing_is_pushed(project: Path, command: Command) -> None:
    what = "no shared store is configured [no-shared-store]"
    table = "under [tool.hatch.build.hooks.cubin]"
    hint = f'add the URL of a store, for example: {table}: remote-cache = "https://cache.example.org/cubins"'
    errors = command("cache", "push").errors
    assert errors == [f"hatch-cubin: error: pyproject.toml:9: {what}\n  hint: {hint}"]


@pytest.mark.nvrtc
def test_a_store_that_fails_is_an_error_here(
    project: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    with store_server() as server:
        server.fault = lambda handler: handler.answer(500)
        monkeypatch.setenv("HATCH_CUBIN_REMOTE", server.url)
        errors = command("cache", "pull").errors
    what = f"the remote cache at {server.url} cannot be used fully: the store fails (500)"
    assert errors == [f"hatch-cubin: error: {what} [shared-store-failed]"]


@pytest.mark.nvrtc
def test_a_store_that_cannot_be_opened_is_an_error_here(
    project: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.setenv("HATCH_CUBIN_REMOTE", "s3://bucket")
    (error,) = command("cache", "push").errors
    assert "pip install 'hatch-cubin[remote]'" in error


# Whether it is right


def stored(tmp_path: Path) -> tuple[Path, Path]:
    """Return the only entry that was baked, and its record."""
    entry, record = sorted((tmp_path / "cache").glob("entries/*/*"), key=lambda path: path.read_bytes()[:2])
    return (record, entry) if entry.read_bytes()[64:66] == b"\n{" else (entry, record)


@pytest.mark.nvrtc
def test_a_cache_that_is_right_is_said_to_be(tmp_path: Path, project: Path, say: Any) -> None:
    main(["bake"])
    size = say("stats", "--json")["bytes"]
    assert say("fsck") == [str(tmp_path / "cache"), f"2 entries undamaged, {size / 1024:.1f} KiB"]
    assert say("fsck", "--json") == {
        "format": 1,
        "verb": "cache",
        "errors": [],
        "action": "fsck",
        "folder": str(tmp_path / "cache"),
        "entries": 2,
        "bytes": size,
        "found": [],
    }


@pytest.mark.nvrtc
def test_all_that_is_wrong_is_told_with_what_becomes_of_it(
    tmp_path: Path, project: Path, command: Command
) -> None:
    main(["bake", "--archs", "sm_90"])
    entry, record = (path.relative_to(tmp_path / "cache").as_posix() for path in stored(tmp_path))
    (tmp_path / "cache" / record).unlink()
    damaged = f"entries/ab/{'0' * 62}"
    write_tree(tmp_path / "cache", {"notes.txt": "", damaged: f"{'0' * 64}\n{{}}\n"})
    ended = command("cache", "fsck")
    assert ended.out == f"{tmp_path / 'cache'}\n0 entries undamaged, 0 B\n"
    whats = {
        entry: "has no record [cache-entry-incomplete]\n"
        "  hint: builds cannot use this file: 'hatch-cubin cache gc --unused-for 30d' later removes it",
        damaged: "is a record that is damaged, or was written by another version of hatch-cubin "
        "[cache-entry-damaged]\n"
        "  hint: the next build that needs this entry compiles it again",
        "notes.txt": "is a file that no build writes [foreign-file-in-cache]",
    }
    assert ended.errors == [f"hatch-cubin: error: {place}: {whats[place]}" for place in sorted(whats)]
    assert ended.err.endswith("\nhatch-cubin: 3 errors\n")


@pytest.mark.nvrtc
@pytest.mark.parametrize("where", ["project", "home"])
def test_a_cache_in_a_project_or_home_folder_warns_and_no_hint_removes_the_project(
    project: Path, monkeypatch: pytest.MonkeyPatch, command: Command, where: str
) -> None:
    folder = project if where == "project" else project.parent
    monkeypatch.setenv("HATCH_CUBIN_CACHE_DIR", str(folder))
    monkeypatch.setenv("HOME", str(project.parent))
    monkeypatch.setenv("USERPROFILE", str(project.parent))
    warning = Coded("foreign-file-in-cache", folder, "HATCH_CUBIN_CACHE_DIR")
    baked = command("bake", "--archs", "sm_90").err.partition("hatch-cubin: 1 unit")[0]
    assert baked == warning
    assert command("cache", "dir").err == warning
    ended = command("cache", "fsck")
    assert "remove" not in ended.err
    assert {*codes(ended.err)} == {"foreign-file-in-cache"}


@pytest.mark.nvrtc
def test_what_is_damaged_in_place_is_found_though_builds_recall_it_and_is_healed(
    tmp_path: Path, project: Path, command: Command
) -> None:
    main(["bake", "--archs", "sm_90"])
    record = stored(tmp_path)[1]
    data, status = record.read_bytes(), record.stat()
    record.write_bytes(data.replace(b'"warnings":[]', b'"warnings":{}'))
    os.utime(record, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert command("bake", "--archs", "sm_90", "--require-hits").code == 0
    damaged = Coded("cache-entry-damaged", record.relative_to(tmp_path / "cache").as_posix())
    assert damaged in command("cache", "fsck").errors
    ended = command("bake", "--archs", "sm_90")
    assert (ended.code, "damaged cache entries, which are built again: 1" in ended.err) == (0, True)
    assert record.read_bytes() == data
    assert command("cache", "fsck").code == 0


@pytest.mark.parametrize("arguments", [["stats"], ["clear"], ["gc", "--unused-for", "0m"]])
def test_what_the_system_refuses_is_told(
    tmp_path: Path,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: Command,
    arguments: list[str],
) -> None:
    path = f"entries/ab/{'0' * 62}"
    write_tree(tmp_path / "cache", {path: ""})

    def refuse(refused: str, *_more: object, **_options: object) -> None:
        raise PermissionError(13, "Permission denied", refused)

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", refuse)
        if arguments == ["stats"]:
            patched.setattr("hatch_cubin.cache.housekeeping.stat_file", refuse)
        errors = command("cache", *arguments).errors
    what = f"the cache at {tmp_path / 'cache'} cannot be used: Permission denied [cache-unusable]"
    assert errors == [f"hatch-cubin: error: {tmp_path / 'cache' / path}: {what}"]


# What others have


def write(folder: Path, **entries: bytes) -> Path:
    """Write entries under keys that begin with their names."""
    with Cache(folder, None, pytest.fail) as cache:
        for name, data in entries.items():
            cache.put(name.encode() * 32, Compiled(data, {name: name}), {})
    return folder


def test_what_others_have_is_copied_and_what_is_there_stays(tmp_path: Path, project: Path, say: Any) -> None:
    cache = write(tmp_path / "cache", a=b"code of a")
    one = write(tmp_path / "one", a=b"code of a", b=b"code of b")
    other = write(tmp_path / "other", b=b"code of b", c=b"code of c")
    damaged = Path(entry_path(other, b"c" * 32))
    damaged.write_bytes(b"something else")
    size = housekeeping.stats(one).bytes // 2  # its two entries are as large as each other
    assert say("merge", str(one), str(other)) == [
        str(cache),
        f"1 entry from {one}, {size} B; 1 already there",
        f"0 entries from {other}, 0 B; 1 already there",
        "1 files of this folder were not copied:",
        f"  {damaged.relative_to(other)}: does not match its record",
    ]
    assert say("merge", str(one), str(other), "--json") == {
        "format": 1,
        "verb": "cache",
        "errors": [],
        "action": "merge",
        "folder": str(cache),
        "from": [
            {"folder": str(one), "entries": 0, "there": 2, "bytes": 0, "found": []},
            {
                "folder": str(other),
                "entries": 0,
                "there": 1,
                "bytes": 0,
                "found": [
                    {
                        "kind": "damaged",
                        "file": str(damaged.relative_to(other)),
                        "what": "does not match its record",
                    }
                ],
            },
        ],
    }
    assert say("fsck")[1].startswith("2 entries undamaged")


def test_the_folder_of_an_artifact_is_told_with_the_caches_in_it(
    tmp_path: Path, project: Path, command: Command
) -> None:
    caches = [tmp_path / "art" / name / "cubins" for name in ("sm_80", "sm_90")]
    for cache in caches:
        write(cache, a=b"code")
    (error,) = command("cache", "merge", str(tmp_path / "art")).errors
    assert error == Coded("cache-not-mergeable", tmp_path / "art", " ".join(map(str, caches)))


def test_folders_that_are_no_caches_are_all_told_before_anything_is_copied(
    tmp_path: Path, project: Path, command: Command
) -> None:
    cache = write(tmp_path / "cache", a=b"code of a")
    good = write(tmp_path / "good", b=b"code of b")
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(cache)
    names = [str(tmp_path / name) for name in ("good", "nowhere", "file", "folder", "link")]
    errors = command("cache", "merge", *names).errors
    assert errors[0] == (
        f"hatch-cubin: error: {tmp_path}/file: is not a cache folder: it is a file [cache-not-mergeable]\n"
        "  hint: on the machine with the other cache, 'hatch-cubin cache dir' prints the path of the cache: "
        "copy this folder, and pass the path of the copy"
    )
    assert errors[1:] == [
        Coded("cache-not-mergeable", tmp_path / "folder", "'entries'"),
        Coded(
            "cache-not-mergeable",
            tmp_path / "link",
            "is the cache's own folder, which cannot be merged into itself",
        ),
        Coded("cache-not-mergeable", tmp_path / "nowhere", "No such file or directory"),
    ]
    assert housekeeping.stats(cache).entries == 1
    assert housekeeping.stats(good).entries == 1


def test_a_cache_that_takes_nothing_is_an_error(tmp_path: Path, project: Path, command: Command) -> None:
    one = write(tmp_path / "one", a=b"code of a")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/entries").touch()
    (error,) = command("cache", "merge", one).errors
    assert error.startswith(f"hatch-cubin: error: the cache at {tmp_path / 'cache'} cannot be used fully: ")


# What goes


@pytest.mark.nvrtc
def test_what_the_last_build_did_not_use_goes(project: Path, say: Any) -> None:
    main(["bake"])
    write_tree(project, {"demo/saxpy.cu": AXPY})
    main(["bake"])
    assert say("stats", "--json")["entries"] == 4
    assert say("gc", "--keep-last-build", "--json")["entries"] == 2
    assert main(["bake", "--require-hits"]) == 0


@pytest.mark.nvrtc
def test_a_cache_is_brought_down_to_a_size(project: Path, say: Any) -> None:
    main(["bake", "--archs", "sm_90"])
    room = say("stats", "--json")["bytes"]
    main(["bake"])
    assert say("gc", "--max-size", f"{room + 100} B")[0].startswith("removed 1 entry, ")
    assert say("stats", "--json")["entries"] == 1


def test_where_no_build_is_known_nothing_goes(tmp_path: Path, project: Path, command: Command) -> None:
    what = f"this user has not yet run a build with the cache at {tmp_path / 'cache'} [no-build-known]"
    hint = "build first: --keep-last-build needs to know which entries the last build used"
    errors = command("cache", "gc", "--keep-last-build").errors
    assert errors == [f"hatch-cubin: error: {what}\n  hint: {hint}"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gc"], "gc needs at least one of --max-size, --unused-for and --keep-last-build"),
        (
            ["gc", "--max-size", "2 apples"],
            "argument --max-size: must be a size such as '2 GiB', not '2 apples'",
        ),
        (
            ["gc", "--unused-for", "3"],
            "argument --unused-for: must be a time such as '30d', '12h' or '2w', not '3'; did you mean '3d'?",
        ),
        (
            ["gc", "--unused-for", "9 M"],
            "argument --unused-for: must be a time such as '30d', '12h' or '2w', not '9 M'",
        ),
        (
            ["gc", "--unused-for", "3 months"],
            "argument --unused-for: must be a time such as '30d', '12h' or '2w', not '3 months'",
        ),
        ([], "name an action: dir, stats, fsck, merge, pull, push, gc, clear, key"),
    ],
)
def test_wrong_usage_is_said(command: Command, arguments: list[str], message: str) -> None:
    ended = command("cache", *arguments)
    assert (ended.code, ended.err.endswith(f"error: {message}\n")) == (2, True)


# One hash


@pytest.mark.nvrtc
def test_the_key_changes_with_what_any_unit_is_made_of_and_with_nothing_else(project: Path, say: Any) -> None:
    (key,) = say("key")
    assert say("key", "--json") == {
        "format": 1,
        "verb": "cache",
        "errors": [],
        "action": "key",
        "key": key,
        "units": 2,
        "toolchain": say("key", "--json")["toolchain"],
    }
    write_tree(project, {"README.md": "", "demo/__init__.py": "x = 1\n"})
    assert say("key") == [key]
    assert say("key", "--archs", "sm_90") != [key]
    write_tree(project, {"demo/saxpy.cu": AXPY})
    assert say("key") != [key]


@pytest.mark.nvrtc
def test_what_is_cleared_is_not_recalled_either(own: Path, project: Path, say: Any) -> None:
    main(["bake"])
    assert list((own / "recall").iterdir())
    assert say("clear")[0].startswith("removed 2 entries, ")
    assert not (own / "recall").exists()


def test_a_user_without_a_folder_can_clear_a_cache(
    project: Path, monkeypatch: pytest.MonkeyPatch, say: Any
) -> None:
    def nowhere() -> Path:
        raise RuntimeError("no such user")

    monkeypatch.setattr(user_folders, "own_folder", nowhere)
    assert say("clear") == ["removed 0 entries, 0 B"]


# What can be no cache

IN_THE_WAY: dict[Callable[[Path], None], str] = {
    special_files.a_pipe: "it is a pipe",
    special_files.a_socket: "it is a socket",
    special_files.a_file: "it is a file",
    special_files.a_link_to_a_device: "it is a device",
    special_files.a_link_to_nowhere: "it is a link to a file that does not exist",
}


@pytest.mark.linux
@pytest.mark.usefixtures("no_endless_wait")
@pytest.mark.parametrize("put", IN_THE_WAY)
@pytest.mark.parametrize("arguments", ["stats", "fsck", "gc --unused-for 1d", "clear", "dir"])
def test_what_stands_where_the_cache_should_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: Command,
    put: Callable[[Path], None],
    arguments: str,
) -> None:
    put(tmp_path / "cache")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HATCH_CUBIN_CACHE_DIR", str(tmp_path / "cache"))
    ended = command("cache", *arguments.split())
    assert ended.out == (f"{tmp_path}/cache\n" if arguments == "dir" else "")
    (error,) = ended.errors
    assert error == (
        f"hatch-cubin: error: {tmp_path}/cache: cannot be the cache's folder: {IN_THE_WAY[put]} "
        "[cache-unusable]\n"
        "  hint: set another folder with HATCH_CUBIN_CACHE_DIR or cache-dir"
    )


def test_a_file_on_the_way_to_the_cache_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HATCH_CUBIN_CACHE_DIR", str(tmp_path / "file" / "cache"))
    unusable = Coded("cache-unusable", tmp_path / "file/cache", "Not a directory")
    assert command("cache", "stats").errors == [unusable]


@pytest.mark.parametrize("arguments", ["stats", "gc --max-size 1GiB", "clear"])
def test_a_folder_that_cannot_be_read_is_not_said_to_be_empty(
    tmp_path: Path,
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: Command,
    arguments: str,
) -> None:
    (tmp_path / "cache" / "entries").mkdir(parents=True)
    real = os.scandir

    def scandir(path: Any = ".") -> Any:
        if str(path).endswith("entries"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    unusable = Coded("cache-unusable", tmp_path / "cache/entries", "Permission denied")
    assert command("cache", *arguments.split()).errors == [unusable]
