"""Show, check, fill, trim or empty the cache, and hash the plan for CI.

Only 'key', 'pull' and 'push' need a project and a compiler. The cache is the one that HATCH_CUBIN_CACHE_DIR
names, or the table of the project that is here, or else the user's own. Builds may go on meanwhile; what is
removed while they need it, they compile.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
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
    "damaged": "the next build that needs it makes it again",
    "orphaned": "no build can use it: 'cache gc' drops it when it was unused for long",
    "foreign": "no build touches it: remove it",
}
_ELSEWHERE = "let HATCH_CUBIN_CACHE_DIR or cache-dir name a folder, or make room for one there"
_MERGED = "name folders that 'hatch-cubin cache dir' prints elsewhere, or copies of them"
_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 604800}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions, and the arguments of each."""
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
                "folders", metavar="FROM", nargs="+", help="a cache folder, which stays as it is"
            )


def _gc_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-size", metavar="SIZE", type=size_of, help="what was used longest ago goes, down to '2GiB'"
    )
    parser.add_argument(
        "--unused-for", metavar="TIME", type=_seconds, help="what was not used for '30d', '12h' or '2w' goes"
    )
    parser.add_argument(
        "--keep-last-build",
        action="store_true",
        help="what the last build used stays; without the others, nothing else does",
    )


def run(args: argparse.Namespace) -> Answer:
    """Run the chosen action."""
    if args.act is None:
        args.refuse(f"name an action: {', '.join(_ACTIONS)}")
    answer: Answer = args.act(args)
    return answer._replace(facts={"action": args.action, **answer.facts})


def _dir(args: argparse.Namespace) -> Answer:
    folder = _place(args)
    return Answer({"folder": str(folder)}, [str(folder)], [*_in_the_way(folder)])


def _stats(args: argparse.Namespace) -> Answer:
    folder = _folder(args)
    with _told(folder):
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
        lines.append(f"{count(there.unproven, 'file')} that nothing proves, and a build would replace")
    if builds:
        columns = ("time", "hits", "fetched", "misses", "project")
        rows = [tuple(each[name] for name in columns) for each in builds]
        lines += table([("last builds", "hits", "fetched", "misses", ""), *rows])
        lines += [_told_of_tier(*item) for item in tiers.items() if item[1]["hits"]]
    return Answer(facts, lines)


def _told_of_tier(name: str, tier: history.Tier) -> str:
    return f"{name}: {tier['rate']:.0%} of all units, about {tier['saved_s']:.1f} s of compiling saved"


def _merge(args: argparse.Namespace) -> Answer:
    from ...cache import merging
    from ...cache.entries import Cache

    folder, others = _folder(args), [Path(each) for each in args.folders]
    obstacles = {str(other): merging.why_not_mergeable(folder, other) for other in others}
    if problems := [
        problem("cache-not-mergeable", what, Location(name), _MERGED)
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


def _merged(name: str, merged: MergeResult) -> Iterator[str]:
    yield f"{_entries(merged.entries)} from {name}, {size(merged.bytes)}; {merged.there} already there"
    if merged.found:
        yield f"{len(merged.found)} of its files left out:"
    yield from (f"  {found.file}: {found.what}" for found in merged.found)


def _refuse(what: str) -> None:
    raise CheckError(problem("cache-unusable", what))


def _fsck(args: argparse.Namespace) -> Answer:
    from ...cache.audit import audit

    folder = _folder(args)
    there = audit(folder)
    if any(each.kind == "damaged" for each in there.found):
        # A build that remembers a unit would not read its damaged record.
        user_folders.remove_recalled_facts()
    facts = {"folder": str(folder), **there._asdict(), "found": [each._asdict() for each in there.found]}
    said = f"{_entries(there.entries)} as they were stored, {size(there.bytes)}"
    problems = [_of_finding(each) for each in there.found]
    return Answer(facts, [str(folder), said], problems)


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
            args.refuse("at least one of --max-size, --unused-for and --keep-last-build is needed")
        unused_for = 0.0
    keep = history.keys(folder) if args.keep_last_build else set()
    if keep is None:
        what = f"no build with the cache at {folder} is known here"
        hint = "--keep-last-build comes after a build of the same user"
        raise CheckError(problem("no-build-known", what, hint=hint))
    with _told(folder):
        removed = housekeeping.trim(folder, size=args.max_size, unused_for=unused_for, keep=keep)
    user_folders.sweep()
    return _removed(folder, removed)


def _clear(args: argparse.Namespace) -> Answer:
    folder = _folder(args)
    user_folders.remove_recalled_facts()
    with _told(folder):
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
    "dir": (_dir, "print where the cache is"),
    "stats": (_stats, "say what is in the cache, and what the last builds found there"),
    "fsck": (_fsck, "read all that is in the cache, and say what is damaged, orphaned or foreign"),
    "merge": (_merge, "copy what other cache folders have and their records prove"),
    "pull": (
        remote_cache.pull,
        "take from the shared store what the project's plan needs and the cache lacks",
    ),
    "push": (
        remote_cache.push,
        "give the shared store what the cache has for the project's plan and it lacks",
    ),
    "gc": (_gc, "drop what is not needed any more"),
    "clear": (_clear, "drop everything, and what builds recall, of any project"),
    "key": (_key, "print one hash over the keys of all units of the project"),
}


def _folder(args: argparse.Namespace) -> Path:
    """Return the cache's folder; raise CheckError if no folder can be there."""
    folder = _place(args)
    if problems := [*_in_the_way(folder)]:
        raise CheckError(*problems)
    return folder


def _in_the_way(folder: Path) -> Iterator[Problem]:
    """Yield a problem if builds cannot have a cache there, e.g. because a file blocks the folder's path."""
    try:
        mode = file_access.status_of(folder).st_mode
    except FileNotFoundError:  # the next build makes it
        return
    except OSError as exc:
        why = exc.strerror
    else:
        if stat.S_ISDIR(mode):
            return
        why = f"it {file_access.kind(mode)}"
    what = f"no cache can be there: {why}"
    yield problem("cache-unusable", what, Location(str(folder)), _ELSEWHERE)


def _place(args: argparse.Namespace) -> Path:
    """Return the cache folder that a build here would use; the project's table can set it."""
    root = Path(args.project).absolute()
    configured = os.environ.get("HATCH_CUBIN_CACHE_DIR")
    if not configured and (root / "pyproject.toml").exists():
        with contextlib.suppress(table_location.NoTableError):
            settings, place, _backend = table_location.find_table(root)
            configured = parse_config(settings, place, os.environ).cache_dir
    return user_folders.cubins_folder(root, configured or None)


@contextlib.contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Raise CheckError if the system refuses an operation on the cache."""
    try:
        yield
    except OSError as exc:
        what = f"the cache at {folder} cannot be looked after: {exc.strerror}"
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

        guess = f"; did you mean {meant!r}?" if (meant := time_meant(text)) else ""
        raise argparse.ArgumentTypeError(f"must be a time such as '30d', '12h' or '2w', not {text!r}{guess}")
    return float(int(match[1]) * _SECONDS[match[2]])
