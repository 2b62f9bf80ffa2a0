"""What the loader gives back can be copied, pickled and compared, whatever process it comes to."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import bundle, load_bundle, made, packed_bundle, write_tree
from tests.standin import ask

from .doubles import load

WAYS: dict[str, Any] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{f"protocol {number}": number for number in range(pickle.HIGHEST_PROTOCOL + 1)},
}
FIELDS = (
    *("module", "source", "variant", "options", "toolchain", "arch", "kind", "file", "path", "block", "size"),
    *("sha256", "min_driver", "kernels", "resources", "rule", "source_path", "parameters"),
)


@pytest.fixture(params=WAYS)
def passed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, Any], Any]:
    """Return what passes a value on, of a loader that can be imported by its name."""

    def passed(cubins: Any, value: Any) -> Any:
        monkeypatch.setitem(sys.modules, cubins.__name__, cubins)
        way = WAYS[request.param]
        return pickle.loads(pickle.dumps(value, way)) if isinstance(way, int) else way(value)  # noqa: S301

    return passed


@pytest.mark.parametrize("make", [bundle, packed_bundle])
def test_an_entry_says_the_same(tmp_path: Path, passed: Any, make: Any) -> None:
    built = made("k", variant={"N": "1"}, options={"std": "c++17"})
    cubins = load_bundle(tmp_path / "pkg", make(built, made("l"), folder="demo/_cubins"))
    entry = cubins.find("k", cc=(9, 0))
    again = passed(cubins, entry)
    assert {name: getattr(again, name) for name in FIELDS} == {name: getattr(entry, name) for name in FIELDS}
    assert (again, hash(again), repr(again)) == (entry, hash(entry), repr(entry))
    assert again != cubins.find("l", cc=(9, 0))
    assert len({entry, again, cubins.find("l", cc=(9, 0))}) == 2
    with pytest.raises(TypeError):
        again.options["std"] = "c++20"


def test_an_entry_of_code_that_use_was_given_says_the_same(tmp_path: Path, passed: Any) -> None:
    cubins = load_bundle(tmp_path, bundle(made("k")))
    with cubins.use({"k": b".version 8.0\n.entry k("}):
        entry = cubins.find("k", cc=(9, 0))
    again = passed(cubins, entry)
    assert (again, again.file, again.path, again.sha256) == (entry, "", "", entry.sha256)


def test_entries_of_other_bundles_and_rules_are_others(tmp_path: Path) -> None:
    cubins = load_bundle(tmp_path / "own", bundle(made("k", "sm_80")))
    own = cubins.find("k", cc=(8, 0))
    with cubins.use(write_tree(tmp_path / "other", bundle(made("k", "sm_80")))):
        assert cubins.find("k", cc=(8, 0)) != own
    assert cubins.find("k", cc=(8, 6)) != own
    assert own != "k"


def test_parameters_are_compared_by_what_they_say(tmp_path: Path, passed: Any) -> None:
    cubins = load_bundle(tmp_path, bundle(made("k")))
    parameter = cubins.Parameter(8, 4, "int")
    again = passed(cubins, parameter)
    assert (again, hash(again), str(again)) == (parameter, hash(parameter), "int")
    assert cubins.Parameter(8, 4) != parameter


@pytest.mark.usefixtures("core")
def test_a_report_of_preload_says_the_same(tmp_path: Path, passed: Any) -> None:
    cubins = load(tmp_path, made("k"), made("only", "sm_100"))
    report = cubins.preload()
    again = passed(cubins, report)
    assert (again, hash(again), str(again)) == (report, hash(report), str(report))
    assert again.loaded[0].entry == report.loaded[0].entry


@pytest.mark.parametrize(
    "name",
    [
        *("CubinError", "CubinNotFoundError", "CubinDamagedError", "CubinUnavailableError"),
        "CubinStaleWarning",
    ],
)
def test_errors_keep_their_kind_and_their_words(tmp_path: Path, passed: Any, name: str) -> None:
    cubins = load_bundle(tmp_path, bundle(made("k")))
    again = passed(cubins, getattr(cubins, name)("what happened"))
    assert (type(again), str(again)) == (getattr(cubins, name), "what happened")


SPAWN = """
import multiprocessing
def work(_number):
    try: cubins.find("misspelled", cc=(9, 0))
    except cubins.CubinError as exc: return cubins.find("k", cc=(9, 0)), exc
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        entry, error = pool.map(work, range(1))[0]
    print(entry == cubins.find("k", cc=(9, 0)), type(error) is cubins.CubinNotFoundError)
"""


def test_they_pass_between_processes(tmp_path: Path) -> None:
    start = "from pkg import _cubins as cubins\n"
    ask(tmp_path, "", None)
    (tmp_path / "program.py").write_text(start + SPAWN)
    code = "import subprocess, sys\nsubprocess.run([sys.executable, 'program.py'], check=True)"
    assert ask(tmp_path, code, None) == "True True"
