"""What `inspect` and `verify` make of bundles that lie: problems in sentences, and no file outside, ever."""

from __future__ import annotations

import contextlib
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest

from hatch_cubin.cli.main import main
from hatch_cubin.errors import BundleError
from hatch_cubin.wheels.checking import size_advice
from hatch_cubin.wheels.checking.check import check
from hatch_cubin.wheels.checking.verify import bundle_problems
from hatch_cubin.wheels.comparing.comparison import ComparedWheel, compare_wheels
from hatch_cubin.wheels.comparing.diff_report import diff_sections
from hatch_cubin.wheels.reading.bundles import Bundle, OpenedWheel
from hatch_cubin.wheels.reading.page import html_page
from hatch_cubin.wheels.reading.survey import survey
from tests.cubins import cubin
from tests.fault_counts import Figures
from tests.fuzz import manifests
from tests.helpers import COPY_PTX, bundle, made, write_tree

pytestmark = pytest.mark.counted

FILES = bundle(
    made("k", "sm_90", data=cubin("k")),
    made("copy", "compute_80", {"copy": "copy"}, data=COPY_PTX.encode(), variant={"N": "1"}),
    folder="demo/_cubins",
)


def in_memory(files: Mapping[str, bytes]) -> Bundle:
    return Bundle("demo/_cubins", dict.fromkeys(files, 1), files.__getitem__)


def judge(files: Mapping[str, bytes]) -> int:
    """Look at a bundle in every way; return how many problems it has."""
    found = in_memory(files)
    with contextlib.suppress(BundleError):
        html_page("demo", [survey(found)], {})
    return len([*bundle_problems(found, in_wheel=True)])


def judge_for_a_release(files: Mapping[str, bytes]) -> None:
    """Check a bundle, compare it, and see what would make it smaller."""
    found = in_memory(files)
    check(OpenedWheel("demo", (found,)))
    [*size_advice._bundle_remedies(found, 1000)]
    with contextlib.suppress(BundleError):
        facts, sound = survey(found), survey(in_memory(FILES))
        sides = [
            ComparedWheel("a", "a", None, {"demo": facts}),
            ComparedWheel("b", "b", None, {"demo": sound}),
        ]
        for before, after in (sides, sides[::-1]):
            [*diff_sections(before, after, compare_wheels(before, after))]


def test_what_was_built_has_no_problem() -> None:
    assert judge(FILES) == 0


def test_every_damage_is_a_problem_and_no_lie_is_a_crash(figures: Figures) -> None:
    counts = dict.fromkeys(("damaged", "found", "lies"), 0)
    for number in range(figures.pick(600, 30_000)):
        random = Random(number)  # noqa: S311
        name = random.choice([*FILES])
        spoiled = manifests.damaged(random, FILES[name])
        if spoiled != FILES[name]:
            counts["damaged"] += 1
            counts["found"] += judge({**FILES, name: spoiled}) > 0
        # Found or not, for a lie may hold together: what is tried is that none ends in another error.
        lying = {**FILES, "manifest.json": manifests.lying(random, FILES["manifest.json"].decode())}
        judge(lying)
        if number % 4 == 0:  # for it takes longer
            judge_for_a_release(lying)
        judge({**FILES, "keys.json": manifests.lying_keys(random, FILES["keys.json"].decode())})
        counts["lies"] += 2
    figures.tell(**counts)
    assert counts["found"] == counts["damaged"] > 0


OUTSIDE = ["../secret", "a/../../secret", "{root}/secret", "..", "", "nul", "\0", "C:\\secret", "x" * 100_000]


@pytest.mark.parametrize("file", OUTSIDE, ids=lambda file: ascii(file)[:20])
@pytest.mark.parametrize("verb", ["inspect", "verify", "check"])
def test_a_file_outside_the_bundle_is_missing_and_is_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str, file: str
) -> None:
    manifest = json.loads(FILES["manifest.json"])
    for module in manifest["modules"].values():
        for entry in module["entries"]:
            entry.update(file=file.format(root=tmp_path), kind="ptx")
    secret = COPY_PTX.replace("copy", "secret_kernel")
    write_tree(tmp_path, {"secret": secret, "a/keep": ""})
    write_tree(tmp_path / "_cubins", {**FILES, "manifest.json": json.dumps(manifest), "a/keep": ""})
    said = asked(capsys, verb, str(tmp_path / "_cubins"))
    assert "is missing" in said or "outside the bundle" in said
    assert "secret_kernel" not in said


@pytest.mark.parametrize("verb", ["inspect", "verify", "check"])
@pytest.mark.parametrize("name", ["manifest.json", "keys.json", "k.sm_90.cubin", "../../x.bin"])
def test_a_bomb_is_not_unpacked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str, name: str
) -> None:
    wheel = tmp_path / "demo-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, data in {**FILES, name: bytes(65 << 20)}.items():
            archive.writestr(f"demo/_cubins/{each}", data)
        archive.writestr("demo-1.0.dist-info/RECORD", f"demo/_cubins/{name},sha256=x,1\n")
    said = asked(capsys, verb, str(wheel))
    read = verb in ("verify", "check") or name in ("manifest.json", "k.sm_90.cubin")
    assert ("is probably a zip bomb: 64.7 KiB in the archive would become 65.0 MiB" in said) is read


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return what a verb says."""
    with contextlib.suppress(SystemExit):
        main([*arguments])
    return "".join(capsys.readouterr())
