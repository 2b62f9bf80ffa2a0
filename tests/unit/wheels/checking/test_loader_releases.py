"""Which versions are known by what runs of their bundles: this one, and every release."""

from __future__ import annotations

import itertools
import re

from hatch_cubin import __version__
from hatch_cubin.bundle import layout, loader_files
from hatch_cubin.project.source_roots import ProjectTree
from hatch_cubin.wheels.checking import loader_releases
from tests.helpers import REPOSITORY, packed_bundle, sha256


def test_every_release_of_the_changelog_is_known() -> None:
    changelog = (REPOSITORY / "CHANGELOG.md").read_text("utf-8")
    dated = re.findall(r"^## \[?([0-9][^\]\s]*)", changelog, re.MULTILINE)
    assert [*loader_releases.RELEASED] == dated, "a release adds its line to RELEASED: see CONTRIBUTING.md"


def test_a_release_is_known_by_all_that_runs_of_it() -> None:
    for files in loader_releases.RELEASED.values():
        assert files.keys() == loader_releases.own_digests().keys()
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in files.values())


def test_what_runs_is_only_changed_under_a_new_version() -> None:
    """Once a version is released, its loader is the one that was; the next change takes the next number."""
    released = loader_releases.RELEASED.get(__version__, loader_releases.own_digests())
    assert released == loader_releases.own_digests(), "`hatch version patch,dev` comes before this change"


def test_this_version_is_known_by_the_bytes_that_it_writes() -> None:
    drop_ins = itertools.chain(*loader_files.DROP_INS.values())
    rare = (loader_files.LARGE, loader_files.SPLIT, *drop_ins)
    sometimes = {name: loader_files.read(name) for name in rare}
    files = {
        **packed_bundle(),
        **sometimes,
        **layout.describe_editable(
            ProjectTree(REPOSITORY), "demo/_cubins", layout.EditableInputs([]), layout.HATCH_REBUILD
        ),
    }
    code = {name: sha256(data) for name, data in files.items() if name.endswith(".py")}
    assert loader_releases.digests_of_version(__version__) == code == loader_releases.own_digests()
    assert loader_releases.digests_of_version("0.0.0") is None
