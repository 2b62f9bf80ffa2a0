"""Make a key pair: a build signs its results in the cache with the private key.

The private key is written to FILE, which must not exist yet. The public key is printed as a line for the
project's table. If the project's table contains the public key, builds use only results that the private key
has signed.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path

from ...common import streams
from ...errors import PREFIX, CheckError, Location, problem
from ..verb_base import Answer, json_argument

_FILES_OF_PROJECTS = ("pyproject.toml", "setup.py", "setup.cfg")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this verb to its parser."""
    parser.add_argument("file", metavar="FILE", help="the file to write the private key to")
    json_argument(parser)


def run(args: argparse.Namespace) -> Answer:
    """Write a private key, and print its public key."""
    from ...cache import signing
    from ...config import toml_lines

    _refuse_a_project(args.file)
    private, public = signing.new_key()
    try:
        with open(args.file, "x", encoding="ascii", opener=_for_the_owner) as file:
            file.write(f"{private}\n")
    except FileExistsError:
        what = "exists already, and keygen does not overwrite files"
        where, hint = Location(args.file), "name another file"
        raise CheckError(problem("file-exists", what, where, hint)) from None
    except OSError as exc:
        what = f"cannot be written: {exc.strerror}"
        raise CheckError(problem("file-not-writable", what, Location(args.file))) from exc
    variable = f"HATCH_CUBIN_SIGNING_KEY=@{shlex.quote(os.path.abspath(args.file))}"
    with streams.Lossy(sys.stderr):
        streams.print_message(
            sys.stderr,
            f"{PREFIX}everybody who has this file can sign results, so keep the file secret; "
            f"builds use the key if you set {variable}",
        )
    return Answer({"file": args.file, "public_key": public}, [toml_lines.setting("trusted-keys", [public])])


def _refuse_a_project(path: str) -> None:
    """Raise CheckError if *path* is inside a project: its sdists and wheels could contain the private key."""
    for folder in Path(os.path.abspath(path)).parents:
        if any((folder / name).is_file() for name in _FILES_OF_PROJECTS):
            what = f"is inside the project {folder}, whose sdists and wheels could contain the private key"
            hint = f"name a file outside of {folder}"
            raise CheckError(problem("private-key-in-project", what, Location(path), hint))


def _for_the_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
