"""Which bytes reach the driver: nine GPUs, four drivers, forty bundles, beside the rules written down again.

The rules are those of the loader's page. They are written here as what each GPU would rather have, best
first, and share nothing with the code that is tested.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.helpers import bundle, made, sha256

from . import events, install
from .conftest import Run

pytestmark = [pytest.mark.gcc, pytest.mark.linux]

# fmt: off
RATHER = {
    "7.5": "sm_75 compute_75",
    "8.0": "sm_80 compute_80 compute_75",
    "8.7": "sm_87 compute_80 compute_75",
    "8.9": "sm_89 sm_86 sm_80 compute_80 compute_75",
    "9.0": "sm_90a sm_90 compute_90a compute_90 compute_80 compute_75",
    "10.0": "sm_100a sm_100f sm_100 compute_100f compute_100 compute_90 compute_80 compute_75",
    "10.3": "sm_103f sm_100f sm_103 sm_100 compute_100f compute_100 compute_90 compute_80 compute_75",
    "11.0": "sm_110 compute_100 compute_90 compute_80 compute_75",
    "12.1": "sm_120f sm_121 sm_120 compute_120 compute_100 compute_90 compute_80 compute_75",
}
# fmt: on
ARCHS = sorted({arch for archs in RATHER.values() for arch in archs.split()})
DRIVERS = ("12040", "12080", "13000", "13050")
NEEDED_BY_PTX = {"8.4": 12040, "8.7": 12080, "9.0": 13000, "9.1": 13010}
BUNDLES = 40

PROGRAM = """
import ctypes, importlib, os
for number in range(40):
    cubins = importlib.import_module(f"pkg{number}._cubins")
    for device in range(9):
        try:
            cubins.preload("k", device=device)
        except cubins.CubinNotFoundError:
            pass
"""


def shipped(number: int) -> dict[str, tuple[str, int, bytes]]:
    """Return a bundle's archs by chance: which toolkit's code, the driver that it needs, its bytes."""
    chance = Random(number)  # noqa: S311 - the same bundles each time
    major = chance.choice((12, 13))
    found = {}
    for arch in chance.sample(ARCHS, chance.randint(1, 6)):
        version = chance.choice(list(NEEDED_BY_PTX))
        text = f"bundle {number}, {arch}"
        if arch.startswith("compute"):
            found[arch] = (version, NEEDED_BY_PTX[version], f".version {version}\n// {text}".encode())
        else:
            found[arch] = (str(major), 1000 * major, text.encode())
    return found


def expected(archs: dict[str, tuple[str, int, bytes]], gpu: str, driver: str) -> bytes | None:
    """Return the bytes that a GPU is to get."""
    usable = [arch for arch in RATHER[gpu].split() if arch in archs and archs[arch][1] <= int(driver)]
    return archs[usable[0]][2] if usable else None


@pytest.mark.parametrize("version", DRIVERS)
def test_each_gpu_gets_the_bytes_that_the_rules_say_once_for_all_gpus(
    python: Run, tmp_path: Path, version: str
) -> None:
    bundles = [shipped(number) for number in range(BUNDLES)]
    for number, archs in enumerate(bundles):
        built = [made("k", arch, data=data) for arch, (_, _, data) in archs.items()]
        major = next((int(made_by) for arch, (made_by, _, _) in archs.items() if arch[:2] == "sm"), 13)
        install(tmp_path / f"pkg{number}", bundle(*built, major=major))
    python(PROGRAM, STANDIN_GPUS=" ".join(RATHER), STANDIN_DRIVER=version)

    log = events(tmp_path, "CODE", "LIBRARY", "FUNCTION")
    reached = [each.sha256 for each in log if each.what == "CODE"]
    loaded = [(each.device, reached[int(each.detail) - 1]) for each in log if each.what == "LIBRARY"]
    wanted = [
        (device, sha256(data))
        for archs in bundles
        for device, gpu in enumerate(RATHER)
        if (data := expected(archs, gpu, version)) is not None
    ]
    assert loaded == wanted
    assert reached == list(dict.fromkeys(digest for _, digest in wanted))
    assert [each.device for each in log if each.what == "FUNCTION"] == [device for device, _ in wanted]
    served = len(wanted) / (BUNDLES * len(RATHER))
    assert 0.2 < served < 0.9  # chance makes bundles that serve, and bundles that do not
