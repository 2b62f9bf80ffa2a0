"""Thirty-two threads ask for kernels on several devices at once, also in a Python without a GIL."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.helpers import bundle, made, sha256

from . import codes, events, install
from .conftest import Run

pytestmark = [pytest.mark.gcc, pytest.mark.linux]

THREADS, MODULES, DEVICES = 32, 24, ("8.0", "9.0", "10.0")
PROGRAM = f"""
import json, random, sys, sysconfig, threading
from cuda.core import Device
from pkg import _cubins as cubins

barrier, failures, asked = threading.Barrier({THREADS}), [], []

def work(number):
    try:
        chance = random.Random(number)
        device = Device(number % {len(DEVICES)})
        device.set_current()
        barrier.wait()
        names = cubins.names()
        for name in chance.sample(names, len(names)):
            cc = tuple(device.compute_capability)
            entry = cubins.find(name, cc=cc)
            assert len(cubins.read(name, cc=cc)) == entry.size
            kernel = cubins.kernel(name)
            asked.append((name, device.device_id, int(kernel.handle)))
            assert cubins.is_available(name)
    except BaseException as exc:
        failures.append(repr(exc))
        barrier.abort()

threads = [threading.Thread(target=work, args=(number,)) for number in range({THREADS})]
for thread in threads: thread.start()
for thread in threads: thread.join()
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    assert not sys._is_gil_enabled(), "an import has turned the GIL on"
print(json.dumps([failures, asked]))
"""


def test_each_device_gets_its_code_and_each_module_is_loaded_once(python: Run, tmp_path: Path) -> None:
    archs = [f"sm_{gpu.replace('.', '')}" for gpu in DEVICES]
    built = [made(f"k{number}", arch) for number in range(MODULES) for arch in archs]
    install(tmp_path / "pkg", bundle(*built))
    failures, asked = json.loads(python(PROGRAM, STANDIN_GPUS=" ".join(DEVICES)))
    assert failures == []
    assert len(asked) == THREADS * MODULES
    handles = Counter((name, device) for name, device, _handle in {tuple(each) for each in asked})
    assert handles == dict.fromkeys(
        ((f"k{number}", device) for number in range(MODULES) for device in range(len(DEVICES))), 1
    )
    assert Counter(codes(events(tmp_path))) == dict.fromkeys(
        (sha256(each.compiled.data) for each in built), 1
    )
