"""Show, check, fill, trim or empty the cache, or print one hash of all keys for CI.

Only 'key', 'pull' and 'push' need a project and a compiler. The cache's folder is the value of
HATCH_CUBIN_CACHE_DIR, or else 'cache-dir' in the table of the project, or else the user's cache folder. The
cache may be trimmed or emptied while builds run, because a build compiles missing code again.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...cache import history, housekeeping
from ...common import file_access, user_folders
from ...common.digest import digest
from ...common.sizes import count
from ...config import table_location
from ...config.config import parse_config
from ...errors import CheckError, Location, Problem, problem
from .. import remote_cache
from ..verb_base import (
    Answer,
    archs_argument,
    json_argument,
    open_project,
    project_arguments,
    require_compiler,
    size,
    size_of,
    table,
)

if TYPE_CHECKING:
    from ...cache.audit import Finding
    from ...cache.merging import MergeResult

_HINTS = {
    "damaged": "the next build that needs this entry compiles it again",
    "orphaned": "builds cannot use this file: 'hatch-cubin cache gc --unused-for 30d' later removes it",
    "foreign": None,  # the user may need this file
}
_ELSEWHERE = "set another folder with HATCH_CUBIN_CACHE_DIR or cache-dir"
_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 604800}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of this verb, each with its arguments."""
    choices = parser.add_subparsers(metavar="ACTION")
    parser.set_defaults(act=None, refuse=parser.error)
    for name, (act, summary) in _ACTIONS.items():
        own = choices.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        own.set_defaults(act=act, action=name, refuse=own.error)
        project_arguments(own)
        json_argument(own)
        if name in {"key", "pull", "push"}:
            archs_argument(own)
        if name == "gc":
            _gc_arguments(own)
        if name == "merge":
            own.add_argument(
                "folders",
                metavar="FROM",
                nargs="+",
                help="a cache folder to copy from, which stays unchanged",
            )


def _gc_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-size",
        metavar="SIZE",
        type=size_of,
        help="remove the least recently used entries until the cache has this size, as in '2GiB'",
    )
    parser.add_argument(
        "--unused-for",
        metavar="TIME",
        type=_seconds,
        help="remove the entries that no build has used for this time: '30d', '12h' or '2w'",
    )
    parser.add_argument(
        "--keep-last-build",
        action="store_true",
        help="keep the entries that the last build used; without another option, remove all other entries",
    )


def run(args: argparse.Namespace) -> Answer:
    """Run the chosen action."""
    if args.act is None:
        args.refuse(f"name an action: {', '.join(_ACTIONS)}")
    answer: Answer = args.act(args)
    return answer._replace(facts={"action": args.action, **answer.facts})


def _dir(args: argparse.Namespace) -> Answer:
    folder = _configured_folder(args)
    problems, warnings = [*_obstacles(folder)], [*housekeeping.shared_folder(folder)]
    return Answer({"folder": str(folder)}, [str(folder)], problems, warnings)


def _stats(args: argparse.Namespace) -> Answer:
    folder = _folder(args)
    with _os_errors_reported(folder):
        there = housekeeping.stats(folder)
    builds = history.builds(folder)
    tiers = history.tiers(builds)
    facts = {
        "folder": str(folder),
        "entries": there.entries,
        "unproven": there.unproven,
        "temporaries": there.temporaries,
        "bytes": there.bytes,
        "builds": builds,
        "tiers": tiers,
    }
    lines = [str(folder), f"{_entries(there.entries)}, {size(there.bytes)}"]
    if there.unproven:
        lines.append(f"{count(there.unproven, 'file')} without a valid record: builds replace these files")
    if builds:
        columns = ("time", "hits", "fetched", "misses", "project")
        rows = [tuple(each[name] for name in columns) for each in builds]
        lines += table([("last builds", "hits", "fetched", "misses", ""), *rows])
        lines += [_tier_line(*item) for item in tiers.items() if item[1]["hits"]]
    return Answer(facts, lines)


def _tier_line(name: str, tier: history.Tier) -> str:
    rate, seconds = f"{tier['rate']:.0%}", f"{tier['saved_s']:.1f}"
    return f"{name}: hits for {rate} of all units, which saved about {seconds} s of compiling"


def _merge(args: argparse.Namespace) -> Answer:
    from ...cache import merging
    from ...cache.entries import Cache

    folder, others = _folder(args), [Path(each) for each in args.folders]
    obstacles = {str(other): merging.why_not_mergeable(folder, other) for other in others}
    if problems := [
        problem("cache-not-mergeable", what, Location(name), _mergeable_hint(Path(name)))
        for name, what in obstacles.items()
        if what
    ]:
        raise CheckError(*problems)
    with Cache(folder, None, _refuse) as cache:
        merged = {str(other): merging.merge(cache, other) for other in others}
    facts = {
        "folder": str(folder),
        "from": [
            {"folder": name, **each._asdict(), "found": [found._asdict() for found in each.found]}
            for name, each in merged.items()
        ],
    }
    return Answer(facts, [str(folder), *(line for item in merged.items() for line in _merged(*item))])


def _mergeable_hint(folder: Path) -> str:
    inner = [str(path.parent) for pattern in ("*/entries", "*/*/entries") for path in folder.glob(pattern)]
    if inner:
        return f"pass the paths of the cache folders in this folder: {shlex.join(sorted(inner))}"
    return (
        "on the machine with the other cache, 'hatch-cubin cache dir' prints the path of the cache: "
        "copy this folder, and pass the path of the copy"
    )


def _merged(name: str, merged: MergeResult) -> Iterator[str]:
    yield f"{_entries(merged.entries)} from {name}, {size(merged.bytes)}; {merged.there} already there"
    if merged.found:
        yield f"{len(merged.found)} files of this folder were not copied:"
    yield from (f"  {found.file}: {found.what}" for found in merged.found)


def _refuse(what: str) -> None:
    raise CheckError(problem("cache-unusable", what))


def _fsck(args: argparse.Namespace) -> Answer:
    from ...cache.audit import audit

    folder = _folder(args)
    there = audit(folder)
    if any(each.kind == "damaged" for each in there.found):
        # The facts are removed so that the next build reads the damaged entry and compiles it again.
        user_folders.remove_recalled_facts()
    facts = {"folder": str(folder), **there._asdict(), "found": [each._asdict() for each in there.found]}
    said = f"{_entries(there.entries)} undamaged, {size(there.bytes)}"
    problems = [_of_finding(each) for each in there.found]
    return Answer(facts, [str(folder), said], problems, [*housekeeping.shared_folder(folder)])


def _of_finding(finding: Finding) -> Problem:
    what, where, hint = finding.what, Location(finding.file), _HINTS[finding.kind]
    if finding.kind == "damaged":
        return problem("cache-entry-damaged", what, where, hint)
    if finding.kind == "orphaned":
        return problem("cache-entry-incomplete", what, where, hint)
    return problem("foreign-file-in-cache", what, where, hint)


def _gc(args: argparse.Namespace) -> Answer:
    folder, unused_for = _folder(args), args.unused_for
    if args.max_size is None and unused_for is None:
        if not args.keep_last_build:
            args.refuse("gc needs at least one of --max-size, --unused-for and --keep-last-build")
        unused_for = 0.0
    keep = history.keys(folder) if args.keep_last_build else set()
    if keep is None:
        what = f"this user has not yet run a build with the cache at {folder}"
        hint = "build first: --keep-last-build needs to know which entries the last build used"
        raise CheckError(problem("no-build-known", what, hint=hint))
    with _os_errors_reported(folder):
        removed = housekeeping.trim(folder, size=args.max_size, unused_for=unused_for, keep=keep)
    user_folders.sweep()
    answer = _removed(folder, removed)
    # The output names the project, because the user may expect that the last build of each project is kept.
    last = history.builds(folder)[: args.keep_last_build]
    kept = [
        f"kept {count(build['hits'] + build['misses'], 'unit')} of the last build with this cache, "
        f"which was a build of {build['project']}"
        for build in last
    ]
    return answer._replace(lines=[*kept, *answer.lines])


def _clear(args: argparse.Namespace) -> Answer:
    folder = _folder(args)
    user_folders.remove_recalled_facts()
    with _os_errors_reported(folder):
        removed = housekeeping.clear(folder)
    user_folders.sweep()
    return _removed(folder, removed)


def _key(args: argparse.Namespace) -> Answer:
    project = open_project(args)
    require_compiler(project)
    from ...building import pipeline

    plan = pipeline.make_plan(project)
    key = digest(sorted(job.keys.key for job in plan.jobs))
    facts = {"key": key, "units": len(plan.jobs), "toolchain": plan.toolkit.toolchain().label}
    return Answer(facts, [key])


_ACTIONS = {
    "dir": (_dir, "print the folder of the cache"),
    "stats": (_stats, "print the size of the cache, and the hits and misses of the last builds"),
    "fsck": (_fsck, "read the whole cache, and report damaged, incomplete and foreign files"),
    "merge": (_merge, "copy the valid entries of other cache folders into this cache"),
    "pull": (remote_cache.pull, "download this project's results that are missing from the cache"),
    "push": (remote_cache.push, "upload this project's results that are missing from the shared store"),
    "gc": (_gc, "remove entries that are not needed any more"),
    "clear": (_clear, "remove all entries of all projects, and the history of builds"),
    "key": (_key, "print one hash of all inputs of the project, for the cache of a CI service"),
}


def _folder(args: argparse.Namespace) -> Path:
    """Return the cache's folder, or raise CheckError if this folder cannot be used."""
    folder = _configured_folder(args)
    if problems := [*_obstacles(folder)]:
        raise CheckError(*problems)
    return folder


def _obstacles(folder: Path) -> Iterator[Problem]:
    """Yield a problem if the cache's folder cannot be used, for example because a file is at its path."""
    try:
        mode = file_access.status_of(folder).st_mode
    except FileNotFoundError:  # a build creates the folder
        return
    except OSError as exc:
        why = exc.strerror
    else:
        if stat.S_ISDIR(mode):
            return
        why = f"it {file_access.kind(mode)}"
    what = f"cannot be the cache's folder: {why}"
    yield problem("cache-unusable", what, Location(str(folder)), _ELSEWHERE)


def _configured_folder(args: argparse.Namespace) -> Path:
    """Return the cache folder that a build of the project would use."""
    root = Path(args.project).absolute()
    configured = os.environ.get("HATCH_CUBIN_CACHE_DIR")
    if not configured and (root / "pyproject.toml").exists():
        with contextlib.suppress(table_location.NoTableError):
            settings, place, _backend = table_location.find_table(root)
            configured = parse_config(settings, place, os.environ).cache_dir
    return user_folders.cubins_folder(root, configured or None)


@contextlib.contextmanager
def _os_errors_reported(folder: Path) -> Iterator[None]:
    """Turn an OSError in the `with` block into a CheckError about the cache."""
    try:
        yield
    except OSError as exc:
        what = f"the cache at {folder} cannot be used: {exc.strerror}"
        where = Location(str(exc.filename or folder))
        raise CheckError(problem("cache-unusable", what, where)) from exc


def _removed(folder: Path, removed: housekeeping.Removed) -> Answer:
    facts = {
        "folder": str(folder),
        "entries": removed.entries,
        "temporaries": removed.temporaries,
        "bytes": removed.bytes,
    }
    return Answer(facts, [f"removed {_entries(removed.entries)}, {size(removed.bytes)}"])


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"


def _seconds(text: str) -> float:
    match = re.fullmatch(r"([0-9]{1,6})([mhdw])", text)
    if match is None:
        from ..usage_hints import time_meant

        if meant := time_meant(text):
            what = f"must be a time such as '30d', '12h' or '2w', not {text!r}; did you mean {meant!r}?"
        else:
            what = f"must be a time such as '30d', '12h' or '2w', not {text!r}"
        raise argparse.ArgumentTypeError(what)
    return float(int(match[1]) * _SECONDS[match[2]])
