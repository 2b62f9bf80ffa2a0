"""Variants of a wheel: the index of the whole chooses, and what another variant has is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cubins import PTX, cubin
from tests.helpers import load_bundle, sha256
from tests.split_wheels import PACKED, PLAIN, VARIANTS, install, split_wheel

FORMS = pytest.mark.parametrize("files", [PLAIN, PACKED], ids=["plain", "packed"])
_WHOLE, NULL, _SM80, SM90 = VARIANTS


def loader_of(folder: Path, variant: str, files: dict[str, bytes] = PLAIN) -> Any:
    """Return the loader of a package of which this variant is installed."""
    site = install(folder / "site", split_wheel(folder, files, "--as", "variants") / variant)
    return load_bundle(site / "demo/_cubins", {})


@FORMS
def test_what_the_gpus_of_a_variant_run_is_there(tmp_path: Path, files: dict[str, bytes]) -> None:
    cubins = loader_of(tmp_path, SM90, files)
    read = [cubins.read(name, cc=(9, 0)) for name in ("a", "c", "copy")]
    assert read == [cubin("a", 50), cubin("c"), PTX]


@FORMS
def test_what_another_variant_has_is_told_and_never_its_ptx_taken(
    tmp_path: Path, files: dict[str, bytes]
) -> None:
    cubins = loader_of(tmp_path, NULL, files)
    entry = cubins.find("b", cc=(9, 0), module="b")
    assert (entry.arch, entry.path) == ("sm_90", None)
    with pytest.raises(cubins.CubinNotFoundError) as caught:
        cubins.read("b", cc=(9, 0), module="b")
    assert str(caught.value).partition(": ")[2] == (
        "'b' for sm_90 is not in the installed wheel variant 'null': uv pip install --no-preview"
        " --reinstall --no-deps 'The.Demo==1.0' installs the complete wheel (bundle of hatch-cubin 0.1.0)"
    )
    assert cubins.read("copy", cc=(10, 0)) == PTX


def test_is_available_asks_what_the_variant_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cubins = loader_of(tmp_path, SM90)
    gpu = [(9, 0)]
    monkeypatch.setattr(cubins._part("_loading"), "_driver_library", lambda: True)
    monkeypatch.setattr(cubins._part("_loading"), "_ask_nvml", lambda **_how: [("", (gpu[0], 13000))])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert cubins.is_available("a")
    gpu[0] = (8, 0)
    assert not cubins.is_available("a")


@pytest.mark.parametrize("before", [b'"wheel_variant":{', b'"label":"sm90"'])
def test_a_manifest_that_names_no_variant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bytes
) -> None:
    cubins = loader_of(tmp_path, SM90)
    path = tmp_path / "site/demo/_cubins/manifest.json"
    path.write_bytes(path.read_bytes().replace(before, before.replace(b"l", b"1")))
    monkeypatch.setattr(cubins, "_checked", lambda data, _name=b"": data[76:])  # as if all checks held
    with pytest.raises(cubins.CubinDamagedError, match="it has a NoneType where a"):
        cubins.read("a", cc=(8, 0))


def test_to_a_cache_what_another_variant_has_is_a_miss(tmp_path: Path) -> None:
    pytest.importorskip("cuda.core.utils")
    cubins = loader_of(tmp_path, SM90)
    cache = cubins.cache()
    here, elsewhere = (bytes.fromhex(sha256(b"a for " + arch)) for arch in (b"sm_90", b"sm_80"))
    assert (cache.get(here), cache.get(elsewhere)) == (cubin("a", 50), None)
    assert (here in cache, elsewhere in cache) == (True, False)
