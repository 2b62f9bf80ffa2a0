# A part of hatch-cubin's loader (Apache-2.0): see __init__.py.
"""Read the code of split wheels: from companions (separate packages), or from a wheel variant."""

import os

from . import (
    CubinNotFoundError,
    _companions,
    _damaged,
    _file_data,
    _find_spec,
    _json,
    _message,
    _sha256,
    _typed,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from . import Entry


def folder_of(entry: "Entry") -> str:
    """Return the folder of an entry's file, or raise CubinNotFoundError if the file is not installed."""
    if entry._absent:
        _refuse_other_variant(entry)
    name, known = _companion(entry)
    if name not in _companions:
        spec = _find_spec(name, None)  # finds the companion without importing it
        if spec is None or not spec.submodule_search_locations:
            what = f"{entry.module!r} for {entry.arch} is in {known['project']}, which is not installed"
            raise CubinNotFoundError(_message(f"{what}: pip install '{known['install']}'"))
        _companions[name] = os.path.abspath(spec.submodule_search_locations[0]), spec.loader
    return _companions[name][0]


def _refuse_other_variant(entry: "Entry") -> "NoReturn":
    known = _typed(entry._manifest.header.get("wheel_variant"), dict)
    label, install = (_typed(known.get(key), str) for key in ("label", "install"))
    what = f"{entry.module!r} for {entry.arch} is not in the installed wheel variant {label!r}"
    how = f"uv pip install --no-preview --reinstall --no-deps '{install}' installs the complete wheel"
    raise CubinNotFoundError(_message(f"{what}: {how}"))


def _companion(entry: "Entry") -> "tuple[str, dict[str, str]]":
    """Return the package name of an entry's companion, and the manifest's facts about the companion."""
    name: str = entry._companion or ""
    known = _typed(entry._manifest.header.get("companions"), dict).get(name)
    if not name.isidentifier():
        _damaged("manifest.json", f"it names a companion that is not a package: {name!r:.80}")
    return name, {key: _typed(_typed(known, dict).get(key), str) for key in ("install", "project")}


def refuse_another_build(entry: "Entry", folder: str) -> None:
    """Raise CubinNotFoundError if the installed companion was built for another manifest."""
    name, known = _companion(entry)
    _companions.pop(name, None)  # the user may replace the companion before the next call
    bound = _json(_file_data(os.path.join(folder, "companion.json")), f"{name}/companion.json")
    if _typed(bound, dict).get("index") != _sha256(entry._manifest.data[:]):
        version = bound.get("version")
        # For an equal version, pip reinstalls the companion only with a flag.
        what = (
            f"the installed {known['project']} in {folder} belongs to another version, {version!r:.80}: "
            f"pip install '{known['install']}'"
        )
        if known["install"].endswith(f"=={version}"):
            what = (
                f"the installed {known['project']} in {folder} belongs to another build of {version!r:.80}: "
                f"pip install --force-reinstall '{known['install']}'"
            )
        raise CubinNotFoundError(_message(what))


__build__ = "c8f3d0de63390474"
