"""What a disk can do to bytes at rest: single bits, tails, places. All of it is found, and healed by a build.

With --long the numbers are those of a release.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import random
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.bundle import layout
from hatch_cubin.cache.audit import audit
from hatch_cubin.cache.entries import Cache, Compiled
from hatch_cubin.cache.records import entry_path, record_key
from hatch_cubin.cache.signing import Signer, Signing
from tests.fault_counts import Figures
from tests.faults.harness.builds import UNITS, Builds
from tests.faults.harness.damage import flip, swap, truncate, zero
from tests.helpers import bundle, load_bundle, made, make_project

pytest.importorskip("cuda.core")

RESULTS = {
    hashlib.sha256(b"%d" % number).digest(): Compiled(
        b"_Z%d" % number + hashlib.sha256(b"%d" % number).digest() * (1 + 7 * number),
        {f"k{number}": f"_Z{number}"},
        ("a warning",),
    )
    for number in range(10)
}
NAMES = [f"k{number}" for number in range(10)]
BUNDLE = bundle(
    *(made(name, arch, data=f"{name} {arch} ".encode() * 20) for name in NAMES for arch in ("sm_80", "sm_90"))
)


LIES: list[dict[str, Any]] = [
    *({"kernels": kernels} for kernels in [{}, {"k": 5}, {"k": "nowhere"}, {"other": "sm_90"}]),
    {"kernels": ["k"]},
    {"warnings": [5]},
    {"warnings": "text"},
    {"inputs": []},
    {"inputs": {"search": [5]}},
    {"size": True},
]


# --- the cache ----------------------------------------------------------------------------------


@pytest.fixture
def cache(memory: Path) -> Path:
    """Return a cache folder with every result in it."""
    assert use(memory / "cache") == (len(RESULTS), 0)
    return memory / "cache"


def use(folder: Path) -> tuple[int, int]:
    """Do what builds do, of which one signs: take what is there, store what is not; count misses and lies."""
    missing = wrong = 0
    signing = Signing(Signer(bytes(32)))
    with (
        Cache(folder, None, pytest.fail) as plain,
        Cache(folder, None, pytest.fail, signing=signing) as signs,
    ):
        for number, (key, right) in enumerate(RESULTS.items()):
            opened = signs if number % 2 else plain
            found = opened.get(key)
            if found is None:
                missing += 1
                opened.put(key, right, {"source": key.hex()})
            wrong += found not in (None, right)
    return missing, wrong


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("entries/*/*"))


def lost_signatures(originals: Mapping[Path, bytes]) -> list[Path]:
    """Return the records that were cut exactly before their signature: they are valid records without one."""
    found = {path: path.read_bytes() for path in originals}
    return [
        path
        for path, data in found.items()
        if data.endswith(b"\n") and originals[path].removeprefix(data).startswith(b"ed25519:")
    ]


@pytest.fixture
def alone(cache: Path) -> Callable[[], int]:
    """Return what says how many wrong bytes cuda.core's store itself would give, for the record."""
    from cuda.core.utils import FileStreamProgramCache

    store = FileStreamProgramCache(cache)
    return lambda: sum(store.get(key) not in (None, right.data) for key, right in RESULTS.items())


@pytest.mark.parametrize(
    ("damage", "short", "long"), [(flip, 300, 10_000), (truncate, 100, 2_000), (swap, 100, 1_000)]
)
def test_damage_to_the_cache_is_a_miss_and_is_healed(
    cache: Path,
    alone: Callable[[], int],
    damage: Callable[..., list[Path]],
    short: int,
    long: int,
    *,
    chance: random.Random,
    figures: Figures,
) -> None:
    paths = entries(cache)
    originals = {path: path.read_bytes() for path in paths}
    counts: Counter[str] = Counter()
    for _ in range(figures.pick(short, long)):
        damaged = damage(paths, chance)
        if lost_signatures(originals):
            assert use(cache) == (0, 0)
            damaged[0].write_bytes(originals[damaged[0]])
            continue
        counts["wrong from the store alone"] += alone()
        missed, wrong = use(cache)
        healed = {path: path.read_bytes() for path in paths} == originals
        counts.update(faults=1, wrong=wrong, detected=1 <= missed <= len(damaged), healed=healed)
        assert (counts["detected"], counts["healed"], wrong) == (counts["faults"], counts["faults"], 0), (
            damaged
        )
    assert use(cache) == (0, 0)
    figures.tell(**counts)


@pytest.mark.nvrtc
@pytest.mark.parametrize("lie", LIES, ids=str)
def test_a_record_that_proves_itself_and_says_nonsense_is_healed(tmp_path: Path, lie: dict[str, Any]) -> None:
    builds = Builds(tmp_path / "project", tmp_path / "cache")
    right = builds.build()
    for key in builds.keys:
        path = Path(entry_path(tmp_path / "cache", record_key(key)))
        text = json.dumps({**json.loads(path.read_bytes()[65:]), **lie})
        path.write_text(f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}\n")
    again, then = builds.build(), builds.build()
    assert (again.made, again.compiled) == (right.made, UNITS)
    assert again.warnings == (f"damaged cache entries, which are built again: {UNITS}",)
    assert (then.made, then.compiled, then.warnings) == (right.made, 0, ())


NAMED = """
extern "C" __global__ void k(float *x) { *x = 1; }
template <class T> __global__ void scale(T *x) { *x *= 2; }
"""
OTHER_NAMES: dict[str, Callable[[dict[str, str]], dict[str, str]]] = {
    "a kernel renamed": lambda names: {"zz" if name == "k" else name: names[name] for name in names},
    "a template renamed": lambda names: {name.replace("float", "half"): names[name] for name in names},
    "two exchanged": lambda names: dict(zip(sorted(names), sorted(names.values()), strict=True)),
}


@pytest.mark.nvrtc
@pytest.mark.parametrize("how", OTHER_NAMES)
def test_a_record_that_proves_itself_and_names_kernels_otherwise_is_healed(tmp_path: Path, how: str) -> None:
    table = 'archs = ["sm_90", "compute_90"]\n[[tool.hatch.build.hooks.cubin.source]]\npath = "demo/k.cu"\n'
    said: list[str] = []
    project = make_project(
        tmp_path,
        {"k.cu": NAMED},
        f'{table}instantiate = ["scale<double>", "scale< float >"]\n',
        HATCH_CUBIN_CACHE_DIR=str(tmp_path / "cache"),
    )
    project = dataclasses.replace(project, warn=said.append)
    right = pipeline.build(project)
    for path in (tmp_path / "cache").glob("entries/*/*"):
        if b'"kernels"' in path.read_bytes():
            fields = json.loads(path.read_bytes()[65:])
            changed = OTHER_NAMES[how](fields["kernels"])
            text = json.dumps({**fields, "kernels": changed})
            path.write_text(f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}\n")
    found = audit(tmp_path / "cache").found
    assert [each.what.partition(":")[0] for each in found] == ["does not match its entry"] * 2
    assert (pipeline.build(project), said) == (right, ["damaged cache entries, which are built again: 2"])
    assert (pipeline.build(project), len(said)) == (right, 1)


@pytest.mark.parametrize("damage", [truncate, zero])
def test_a_power_cut_costs_what_was_written_last(
    memory: Path,
    damage: Callable[..., list[Path]],
    chance: random.Random,
    figures: Figures,
) -> None:
    """A file system may lose the data of its last files and keep their names."""
    counts: Counter[str] = Counter()
    for _ in range(figures.pick(2, 50)):
        for last in range(1, 21):
            shutil.rmtree(memory / "cache", ignore_errors=True)
            use(memory / "cache")
            newest = sorted(entries(memory / "cache"), key=lambda path: path.stat().st_mtime_ns)[-last:]
            originals = {path: path.read_bytes() for path in newest}
            for path in newest:
                damage([path], chance)
            lost = last - len(lost_signatures(originals))
            missed, wrong = use(memory / "cache")
            healed = use(memory / "cache") == (0, 0)
            counts.update(faults=last, runs=1, compiled_again=missed, wrong=wrong, healed=healed)
            assert ((lost + 1) // 2 <= missed <= lost, wrong, healed) == (True, 0, True)
    figures.tell(**counts)


# --- the bundle ---------------------------------------------------------------------------------

CHECKED = [name for name in BUNDLE if not name.endswith((".py", ".pyi"))]


@pytest.fixture
def cubins(memory: Path) -> Any:
    """Return the loader of a bundle."""
    layout.write(BUNDLE, memory / "bundle")
    return load_bundle(memory / "bundle", {})


def ask_all(cubins: Any, folder: Path) -> tuple[int, list[str]]:
    """Ask a new loader for everything that a bundle has; count wrong answers, return errors of damage."""
    questions: list[tuple[Callable[[], object], object]] = [
        (cubins.names, tuple(NAMES)),
        (cubins.archs, ("sm_80", "sm_90")),
        (lambda: len(cubins.cache()), 2 * len(NAMES)),
    ]
    for name in NAMES:
        for arch, cc in {"sm_80": (8, 0), "sm_90": (9, 0)}.items():
            questions.append((functools.partial(cubins.read, name, cc=cc), BUNDLE[f"{name}.{arch}.cubin"]))
    wrong, said = 0, []
    for question, right in questions:
        try:
            with cubins.use(folder):
                wrong += question() != right
        except cubins.CubinDamagedError as exc:
            said.append(str(exc))
    return wrong, said


@pytest.mark.parametrize(
    ("damage", "short", "long"), [(flip, 300, 10_000), (truncate, 100, 2_000), (swap, 100, 1_000)]
)
def test_damage_to_a_bundle_is_an_error_of_the_loader_and_is_healed(
    memory: Path,
    cubins: Any,
    damage: Callable[..., list[Path]],
    short: int,
    long: int,
    *,
    chance: random.Random,
    figures: Figures,
) -> None:
    folder = memory / "bundle"
    paths = [folder / name for name in sorted(CHECKED)]
    counts: Counter[str] = Counter()
    for _ in range(figures.pick(short, long)):
        damaged = damage(paths, chance)
        wrong, said = ask_all(cubins, folder)
        layout.write(BUNDLE, folder)
        healed = {name: (folder / name).read_bytes() for name in BUNDLE} == BUNDLE
        counts.update(faults=1, wrong=wrong, detected=bool(said), healed=healed)
        assert (counts["detected"], counts["healed"], wrong) == (counts["faults"], counts["faults"], 0), (
            damaged
        )
        assert all(any(path.name in line for path in damaged) for line in said), (damaged, said)
    assert ask_all(cubins, folder) == (0, [])
    figures.tell(**counts)


class Driver:
    """A driver and a cuda.core with one device, which note what is given to them."""

    def __init__(self) -> None:
        self.given: list[bytes] = []

    def __call__(self, _device: object) -> tuple[Any, tuple[int, int], int]:
        return self, (9, 0), 13000

    def from_cubin(self, data: bytes, **_names: object) -> Any:
        self.given.append(data)
        return self

    def get_kernel(self, symbol: str) -> str:
        return symbol


@pytest.mark.parametrize(
    ("damage", "short", "long"), [(flip, 300, 10_000), (truncate, 100, 2_000), (swap, 100, 1_000)]
)
def test_damaged_kernels_are_given_to_no_driver(
    memory: Path,
    cubins: Any,
    damage: Callable[..., list[Path]],
    short: int,
    long: int,
    *,
    chance: random.Random,
    figures: Figures,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder, driver = memory / "bundle", Driver()
    monkeypatch.setattr(cubins._part("_loading"), "use_device", driver)
    monkeypatch.setattr("cuda.core.ObjectCode", driver)
    paths = [folder / f"{name}.sm_90.cubin" for name in NAMES]
    counts: Counter[str] = Counter()
    for _ in range(figures.pick(short, long)):
        for path in damage(paths, chance):
            name = path.name.partition(".")[0]
            with cubins.use(folder), pytest.raises(cubins.CubinDamagedError) as caught:
                cubins.kernel(name)
            digests = [hashlib.sha256(data).hexdigest() for data in (path.read_bytes(), BUNDLE[path.name])]
            assert all(part in str(caught.value) for part in (str(path), *digests))
            counts.update(faults=1, detected=1)
        counts["given to the driver"] += len(driver.given)
        assert driver.given == []
        layout.write(BUNDLE, folder)
    with cubins.use(folder):
        assert [cubins.kernel(name) for name in NAMES] == NAMES
    assert driver.given == [BUNDLE[path.name] for path in paths]
    figures.tell(**counts)
