"""Check the JSON file beside wheel variants; installers read this file to choose a variant."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path, PurePath

from ...bundle.manifest import NOT_OURS
from ...common import file_access, read_limits
from ...common.distribution_names import underscored_name
from ...errors import Location, Problem, problem
from ..checking.wheel_tags import WHEEL_NAME
from ..reading.bundles import OpenedWheel


def variants_file_name(release: str) -> str:
    """Return the name of the JSON file about the variants of a release, such as `mypkg-1.0-variants.json`."""
    project, _, version = release.partition("-")
    return f"{underscored_name(project)}-{version}-variants.json"


def index_problems(opened: OpenedWheel) -> Iterator[Problem]:
    """Yield a problem if the JSON file beside a wheel variant is unreadable or does not list the variant."""
    place = _variants_file(opened)
    if place is None:
        return
    index, label = place
    try:
        with file_access.open_plain(index, read_limits.INDEX) as file:
            labels = json.loads(file.read())["variants"].keys()
    except FileNotFoundError:  # `index_warnings` reports a missing file
        return
    except OSError as exc:
        yield problem("file-not-readable", f"cannot be read: {exc.strerror}", Location(str(index)))
    except NOT_OURS:
        yield problem("wrong-variant-index", "does not list variants", Location(str(index)))
    else:
        if label not in labels:
            what = (
                f"is not listed in {index.name}, so installers choose another wheel for the GPUs of {label}"
            )
            hint = "run 'hatch-cubin split' for each wheel of this version, with the same --into folder"
            yield problem("wrong-variant-index", what, Location(opened.path), hint)


def index_warnings(opened: OpenedWheel) -> Iterator[Problem]:
    """Yield a warning if the JSON file that describes all variants is not in the folder of a variant."""
    place = _variants_file(opened)
    if place is not None and not place[0].exists():
        what = (
            f"{place[0].name} is not in the wheel's folder, but installers need this file to choose a variant"
        )
        yield problem("wrong-variant-index", what, Location(opened.path))


def _variants_file(opened: OpenedWheel) -> tuple[Path, str] | None:
    """Return a wheel variant's label and the path of its JSON file; None if the wheel is not a variant."""
    match = opened.archive and WHEEL_NAME.fullmatch(PurePath(opened.path).name)
    return (
        (Path(opened.path).with_name(variants_file_name(match[1])), match[5]) if match and match[5] else None
    )
