"""Split a finished wheel by arch, so that users download only the kernels for their GPU. Nothing is compiled.

With '--as companions', the machine code of each arch moves into a companion, a separate wheel such as
'mypkg-cubins-sm90'. The main wheel keeps its name, the code that loads kernels, and the PTX. The command 'pip
install mypkg[sm90]' installs the main wheel and the companion for sm_90, and 'mypkg[all]' installs all
companions. If a program needs a kernel of a missing companion, the error names the companion. Before you
publish the wheels, register the names of the companion wheels, such as 'mypkg-cubins-sm90', with the package
index.

With '--as variants' (experimental), the command writes one wheel, such as 'mypkg-1.0-py3-none-any-sm90.whl',
for each compute capability for which the original wheel contains machine code. For GPUs that cannot run any
of the machine code, the command also writes a wheel with the PTX. The original wheel stays unchanged for
installers that do not support variants, such as pip. The command 'uv pip install --preview-features
wheel-variants' installs the variant for the machine's GPU. To choose a variant, uv needs the JSON file that
this command writes into the folder of the wheels.
"""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from ...common import file_lock, read_limits, user_folders
from ...errors import BundleError, Location, problem
from ...wheels.reading.bundles import OpenedWheel, open_wheel
from ..verb_base import Answer, json_argument, size

if TYPE_CHECKING:
    from ...wheels.splitting.split import SplitWheel

_PATIENCE_S = 10.0  # How many seconds to wait for another process that splits a wheel into the same folder.


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this verb to its parser."""
    parser.add_argument("wheel", metavar="WHEEL", help="a finished wheel")
    parser.add_argument(
        "--by",
        metavar="arch",
        choices=("arch",),
        required=True,
        help="'arch' is the only choice so far",
    )
    parser.add_argument(
        "--as",
        metavar="companions|variants",
        dest="form",
        choices=("companions", "variants"),
        default="companions",
        help="companions (the default): a package for each arch; variants: a wheel for each GPU",
    )
    parser.add_argument("--into", metavar="DIR", type=Path, required=True, help="the folder for the wheels")
    json_argument(parser)


def run(args: argparse.Namespace) -> Answer:
    """Split the wheel, and write its parts into a folder."""
    target = args.into / os.path.basename(args.wheel)
    if target.exists() and os.path.exists(args.wheel) and target.samefile(args.wheel):
        what = "would be overwritten by a new wheel of the same name"
        raise BundleError(
            problem("wheel-overwrites-itself", what, Location(args.wheel), "name another folder with --into")
        )
    if args.form == "variants":
        return _answer(args.into, *_as_variants(Path(args.wheel), args.into))
    return _answer(args.into, _as_companions(Path(args.wheel), args.into))


def _refuse_wrong_tags(opened: OpenedWheel) -> None:
    """Raise BundleError if a wheel's name or tags are wrong: the new wheels would have the same mistakes."""
    from ...wheels.checking.wheel_tags import tag_problems

    if problems := [*tag_problems(opened)]:
        raise BundleError(*problems)


def _as_companions(path: Path, into: Path) -> list[str]:
    from ...frontends import repack
    from ...wheels.splitting.split import split

    with open_wheel(str(path)) as opened:
        parts = split(opened)
        _refuse_wrong_tags(opened)
    _refuse_other_companions(into, path, parts)
    with repack.open_wheel(path) as wheel:
        date = wheel.members[0].date_time
        added = {name: [data] for name, data in parts.written.items()}
        names = [repack.write_copy(wheel, into, {**added}, parts.gone.__contains__, platform="")]
    made = [repack.write_new(into, each.name, each.metadata, each.files, date) for each in parts.companions]
    return [*names, *made]


def _refuse_other_companions(into: Path, path: Path, parts: SplitWheel) -> None:
    """Raise BundleError if the folder contains companions that no main wheel will use."""
    from ...wheels.reading.companions import unused_companions

    mine = {each.name for each in parts.companions}
    others = [each for each in sorted(into.glob(parts.all_companions)) if each.name not in mine]
    mains = [each for each in into.glob("*.whl") if each.name != path.name] if others else []
    what, hint = (
        f"is a companion of another build of {path.name}, and no other wheel in this folder uses it",
        "remove this companion, or name another folder with --into",
    )
    unused = unused_companions(others, mains)
    if unused:
        raise BundleError(
            *(problem("companion-of-other-build", what, Location(str(each)), hint) for each in unused)
        )


def _as_variants(path: Path, into: Path) -> tuple[list[str], str]:
    """Write the unchanged wheel, its variants, and the JSON index of the variants. Return all file names."""
    from ...frontends import repack
    from ...wheels.splitting.cut_variants import cut_into_variants
    from ...wheels.splitting.variants import describe_variants

    with open_wheel(str(path)) as opened:
        parts = cut_into_variants(opened)
        _refuse_wrong_tags(opened)
    _refuse_other_builds(into, path, parts.labels)
    index = into / parts.described_in
    # An invalid index must be reported before any wheel is written.
    _with_existing_labels(index, parts.labels)
    with repack.open_wheel(path) as wheel:
        names = [path.name]
        with repack.complete_file(into, path.name) as place:
            shutil.copyfile(path, place)
        for part in parts.parts:
            added = {name: [data] for name, data in part.written.items()}
            named = wheel._replace(name=f"{path.stem}-{part.label}.whl")
            names.append(repack.write_copy(named, into, {**added}, part.gone.__contains__, platform=""))
    # Another process may add labels to the index at the same time.
    with file_lock.wait_for_lock(into, _PATIENCE_S):
        labels = _with_existing_labels(index, parts.labels)
        with repack.complete_file(into, index.name) as place:
            place.write_bytes(describe_variants(labels))
    return names, parts.described_in


def _refuse_other_builds(into: Path, path: Path, labels: list[str]) -> None:
    """Raise BundleError if the folder contains variants of another build: installers could choose those."""
    from ...wheels.checking.wheel_tags import WHEEL_NAME

    own, mine = WHEEL_NAME.fullmatch(path.name), {f"{path.stem}-{label}.whl" for label in labels}
    there = [(each, WHEEL_NAME.fullmatch(each.name)) for each in sorted(into.glob("*.whl"))]
    what, hint = (
        f"is a variant of another build of {path.name}, but installers may choose this variant too",
        "remove this variant, or name another folder with --into",
    )
    others = [
        problem("variant-of-other-build", what, Location(str(each)), hint)
        for each, found in there
        if own and found and found[5] and found.groups()[:4] == own.groups()[:4] and each.name not in mine
    ]
    if others:
        raise BundleError(*others)


def _with_existing_labels(index: Path, labels: list[str]) -> list[str]:
    """Return *labels* after the labels that the index already contains, for example of wheels for Windows."""
    from ...wheels.splitting.variants import read_labels

    try:
        with user_folders.open_retained(index, read_limits.INDEX) as file:
            there = read_labels(file.read())
    except FileNotFoundError:
        there = []
    except OSError as exc:
        what = f"cannot be read: {exc.strerror}"
        raise BundleError(problem("file-not-readable", what, Location(str(index)))) from exc
    except ValueError as exc:
        where, hint = Location(str(index)), "name another folder with --into"
        raise BundleError(problem("foreign-variant-index", str(exc), where, hint)) from exc
    return [*dict.fromkeys([*there, *labels])]


def _answer(into: Path, names: list[str], index: str | None = None) -> Answer:
    sizes = {name: os.path.getsize(into / name) for name in names}
    wheels = [{"wheel": name, "bytes": bytes_} for name, bytes_ in sizes.items()]
    lines = [f"{into / name}  {size(bytes_)}" for name, bytes_ in sizes.items()]
    if index is None:
        return Answer({"wheels": wheels}, lines)
    facts = {"wheels": wheels, "index": index}
    what = "wheel variants are experimental: their drafts, PEP 825 and PEP 850, may change"
    warning = problem("experimental-variants", what)
    return Answer(facts, [*lines, f"{into / index}"], (), [warning])
