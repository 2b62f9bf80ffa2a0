"""Write the compiled code of a wheel as one file per module and arch, for tools such as cuobjdump.

The command writes the unpacked cubins and PTX files, and a manifest, into DIR. The loader in the wheel can
load kernels from DIR: '_cubins.use(DIR)'. Each file is compared with its digest before it is written. If a
wheel contains several bundles (_cubins folders), DIR contains a folder for each bundle.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ...wheels.reading.bundles import OpenedWheel, open_wheel, package_at
from ..verb_base import Answer, json_argument, size


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this verb to its parser."""
    parser.add_argument(
        "wheel",
        metavar="WHEEL|DIR|PACKAGE",
        help="a wheel, a folder, or the import name of an installed package",
    )
    parser.add_argument("--into", metavar="DIR", type=Path, required=True, help="the folder to write")
    json_argument(parser)


def run(args: argparse.Namespace) -> Answer:
    """Unpack the bundles of a wheel: write each piece of compiled code into a file of its own."""
    from ...wheels.reading.unpacking import unpacked_files, write_bundle

    with open_wheel(args.wheel) as opened:
        bundles = [(bundle.place, unpacked_files(bundle)) for bundle in opened.bundles]
        folders = _folders(args.into, opened)
    facts, lines = [], []
    for folder, (place, files) in zip(folders, bundles, strict=True):
        write_bundle(files, folder)
        listed = [{"file": name, "bytes": len(files[name])} for name in sorted(files)]
        facts.append({"place": place, "folder": str(folder), "files": listed})
        lines.append(f"{place}: {len(files)} files, {size(sum(map(len, files.values())))}, are in {folder}")
    return Answer({"bundles": facts}, lines)


def _folders(into: Path, opened: OpenedWheel) -> list[Path]:
    if len(opened.bundles) == 1:
        return [into]
    return [into / package_at(bundle.place).strip(".") for bundle in opened.bundles]
