"""Split a finished wheel by arch: users then download what their GPU needs.

The wheel keeps its name, its loader and its index, and loses the machine code of each arch to a companion, a
wheel of its own: 'mypkg-cubins-sm90'. 'pip install mypkg[sm90]' brings that too, 'mypkg[all]' all of them.
PTX stays. Where a companion is missing, the loader says which one. Nothing is compiled.

Register the companions' names with the package index before you publish.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from ...errors import BundleError, Location, Problem
from ...wheels.installed import opened
from ..verb import Answer, json_argument, size


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("wheel", metavar="WHEEL", help="a finished wheel")
    parser.add_argument(
        "--by", metavar="arch", choices=("arch",), required=True, help="what each part is for"
    )
    parser.add_argument(
        "--as", metavar="companions", dest="form", choices=("companions",), help="what each part is"
    )
    parser.add_argument("--into", metavar="DIR", type=Path, required=True, help="the folder for the wheels")
    json_argument(parser)


def run(args: argparse.Namespace) -> Answer:
    """Cut the wheel, and write its parts."""
    from ...doors import repack
    from ...wheels.split import split

    target = args.into / os.path.basename(args.wheel)
    if target.exists() and target.samefile(args.wheel):
        what = "would be replaced by its own part"
        raise BundleError(Problem(what, Location(args.wheel), "--into takes another folder"))
    with opened(args.wheel) as found:
        cut = split(found)
    with repack.opened(Path(args.wheel)) as wheel:
        date = wheel.members[0].date_time
        added = {name: [data] for name, data in cut.written.items()}
        names = [repack.write(wheel, args.into, {**added}, cut.gone.__contains__, platform="")]
    names += [repack.make(args.into, each.name, each.metadata, each.files, date) for each in cut.companions]
    wheels = [{"wheel": name, "bytes": os.path.getsize(args.into / name)} for name in names]
    lines = [f"{args.into / name}  {size(os.path.getsize(args.into / name))}" for name in names]
    return Answer({"wheels": wheels}, lines)
