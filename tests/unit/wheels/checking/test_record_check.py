"""Names in a wheel: what is installed over a bundle is told, wherever it stands and however it is spelled."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.wheels.checking.record_check import record_problems
from hatch_cubin.wheels.reading.bundles import open_wheel
from tests.cubins import in_wheel, make_wheel
from tests.unit.cli.verbs.test_verify import recorded

KEYS = "demo/_cubins/keys.json"
ALIAS = "would be installed into _cubins on systems that ignore case or a dot at the end of a name"
OVER = "is in the wheel's .data folder, so it may be installed over files in _cubins"


def problems(tmp_path: Path, *names: str) -> list[str]:
    wheel = make_wheel(tmp_path / "demo-1.0-py3-none-any.whl", recorded(dict.fromkeys((KEYS, *names), b"")))
    with open_wheel(str(wheel)) as opened:
        assert opened.archive is not None
        return [in_wheel(wheel, str(problem)) for problem in record_problems(opened.archive)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("data/lib/python3.12/site-packages/demo/_cubins/__init__.py", [OVER]),
        ("data/Lib/site-packages/demo/_CUBINS./k", [ALIAS, OVER]),
        ("headers/_cubins/k.h", [OVER]),
        ("PURELIB/demo/_cubins/k", [OVER]),
        ("_cubins", [OVER]),
        ("platlib/demo/_cubins/k", []),
        ("data/share/demo.txt", []),
    ],
)
@pytest.mark.parametrize("folder", ["demo-1.0.data", "other.DATA"])
def test_what_a_wheels_data_may_install_over_a_bundle(
    tmp_path: Path, folder: str, name: str, expected: list[str]
) -> None:
    if folder == "other.DATA" and name.startswith("platlib"):
        expected = [OVER]
    assert problems(tmp_path, f"{folder}/{name}") == [f"{folder}/{name}: {what}" for what in expected]


def test_a_bundle_that_is_another_where_case_does_not_count(tmp_path: Path) -> None:
    assert problems(tmp_path, "DEMO/_cubins/KEYS.json", "demo-1.0.data/purelib/Demo/_cubins/keys.json") == [
        f"{name}: would be the same file as DEMO/_cubins/KEYS.json on systems that ignore case"
        for name in ("Demo/_cubins/keys.json", KEYS)
    ]


def test_case_counts_outside_of_bundles(tmp_path: Path) -> None:
    assert problems(tmp_path, "demo/A.py", "demo/a.py", "DEMO/_cubins/other") == []
