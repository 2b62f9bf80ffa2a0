"""Compare the files of a wheel with its RECORD: the wheel must have exactly the listed files and digests."""

from __future__ import annotations

import base64
import csv
import functools
import hashlib
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from ...errors import BundleError, Location, Problem, problem
from ...project.source import BUNDLE_FOLDER
from ..reading.bundles import installed_path, member_location, metadata_file, read_in_pieces, read_member

LocationOf = Callable[[str], Location]  # a function that returns the location of a file of the wheel


_WITHOUT_DIGEST = ("", ".jws", ".p7s")  # RECORD contains no digest for itself and for its signatures.
_DATA = re.compile(r"[^/]+\.data/", re.IGNORECASE)
_UNSAFE = re.compile(r"/|[A-Za-z]:|(?:.*/)?\.\.(?:/|$)|.*[\\\0]", re.DOTALL)


def record_problems(archive: zipfile.ZipFile) -> Iterator[Problem]:
    """Yield a problem for each file of a wheel with an unsafe name or a wrong entry in RECORD."""
    names = [member.orig_filename for member in archive.infolist() if not member.is_dir()]
    at = functools.partial(member_location, archive)
    yield from _name_problems(names, at)
    record = ""
    try:
        record = metadata_file(names, "RECORD", str(archive.filename))
        rows = [row for row in csv.reader(read_member(archive, record).decode().splitlines()) if row]
    except BundleError as exc:
        yield from exc.problems
    except UnicodeDecodeError:
        yield problem("metadata-unreadable", "is not text in UTF-8", at(record))
    except csv.Error as exc:
        yield problem("metadata-unreadable", f"is not a table: {exc}", at(record))
    else:
        yield from _record_differences(archive, names, record, rows)


def _name_problems(names: Sequence[str], at: LocationOf) -> Iterator[Problem]:
    """Yield a problem for each file that would be installed to an unsafe place, or over another file."""
    places = Counter(map(installed_path, names))
    for name, count in sorted(places.items()):
        if count > 1:
            yield problem("file-repeated", f"is in the wheel {count} times", at(name))
    yield from _case_problems(places, at)
    for name in sorted({*names}):
        if _UNSAFE.match(name):
            what = "would be installed outside the environment"
            yield problem("unsafe-path", what, at(ascii(name)[1:-1]))
        if BUNDLE_FOLDER in {_folded_part(part) for part in name.split("/") if part != BUNDLE_FOLDER}:
            what = (
                f"would be installed into {BUNDLE_FOLDER} on systems that ignore case or a dot at the end "
                "of a name"
            )
            yield problem("unsafe-path", what, at(name))
        if (
            _DATA.match(name)
            and installed_path(name) == name
            and BUNDLE_FOLDER in map(_folded_part, name.split("/"))
        ):
            what = f"is in the wheel's .data folder, so it may be installed over files in {BUNDLE_FOLDER}"
            yield problem("unsafe-path", what, at(name))


def _case_problems(places: Collection[str], at: LocationOf) -> Iterator[Problem]:
    """Yield a problem for each file that would replace a file in _cubins on systems that ignore case."""
    alike: dict[str, list[str]] = {}
    for name in sorted(places):
        if BUNDLE_FOLDER in name.split("/"):
            alike.setdefault(name.casefold(), []).append(name)
    for first, *others in alike.values():
        for name in others:
            what = f"would be the same file as {first} on systems that ignore case"
            yield problem("unsafe-path", what, at(name))


def _folded_part(part: str) -> str:
    """Return a folder or file name in lower case and without final dots, as Windows compares names."""
    return part.casefold().rstrip(". ")


def _record_differences(
    archive: zipfile.ZipFile, names: Sequence[str], record: str, rows: Sequence[Sequence[str]]
) -> Iterator[Problem]:
    at = functools.partial(member_location, archive)
    recorded = {row[0]: row[1:] for row in rows}
    for name, lines in sorted(Counter(row[0] for row in rows).items()):
        if lines > 1:
            yield problem("file-repeated", f"is in RECORD {lines} times", at(name))
    exempt = {record + ending for ending in _WITHOUT_DIGEST}
    for name in sorted({*names} - {*recorded} - exempt):
        yield problem("not-in-record", "is not in RECORD", at(name))
    for name, said in recorded.items():
        if name not in names:
            yield problem("file-missing", "is in RECORD but not in the wheel", at(name))
        elif name not in exempt:
            try:
                yield from _wrong_entry(read_in_pieces(archive, name), said, at(name))
            except BundleError as exc:
                yield from exc.problems


def _wrong_entry(pieces: Iterable[bytes], said: Sequence[str], where: Location) -> Iterator[Problem]:
    """Yield a problem if a file's digest or size differs from its line in RECORD."""
    algorithm, _, expected = said[0].partition("=") if said else ("", "", "")
    if algorithm not in ("sha256", "sha384", "sha512"):
        yield problem("not-in-record", "has no digest in RECORD", where)
        return
    summed, count = hashlib.new(algorithm), 0
    for piece in pieces:
        summed.update(piece)
        count += len(piece)
    digest = base64.urlsafe_b64encode(summed.digest()).rstrip(b"=").decode()
    if digest != expected:
        yield problem("file-changed", f"its {algorithm} is {digest}, but RECORD says {expected}", where)
    elif said[1:] != [str(count)]:
        what = f"has {count} bytes, but RECORD says {', '.join(said[1:]) or 'nothing'}"
        yield problem("file-changed", what, where)
