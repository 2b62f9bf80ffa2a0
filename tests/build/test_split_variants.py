"""A wheel is split into variants, and stock uv and pip choose among them, from each kind of index."""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import pytest

from hatch_cubin.bundle.manifest import read_manifest
from tests.cubins import PTX, cubin
from tests.helpers import SAXPY, bundle, load_bundle, made, run, wheel_files, write_tree
from tests.split_wheels import split_wheel
from tests.unit.wheels.splitting.test_variants import OFFERED, SEEN

from .projects import build, demo

ARCHS = ("sm_80", "sm_90", "sm_100", "sm_120")
FILES = bundle(
    *(
        made("a", arch, {"copy": "copy"}, data=cubin("copy", 40 + number))
        for number, arch in enumerate(ARCHS)
    ),
    made("a", "compute_80", {"copy": "copy"}, data=PTX),
    folder="demo/_cubins",
)
PLAIN = "the wheel as it was"
INSTALLED = {
    "7.5": "null",
    "8.0": "sm80",
    "8.6": "sm80",
    "8.7": "sm80",
    "8.9": "sm80",
    "9.0": "sm90",
    "10.0": "sm100",
    "10.3": "sm100",
    "12.0": "sm120",
}
FEATURE = ("--preview-features", "wheel-variants")
NVIDIA_SMI = """\
#!/bin/sh
case "$*" in
*compute_cap*) printf '%s\\n' CAPABILITIES ;;
*driver_version*) echo 580.65.06 ;;
*) echo 'CUDA Version : 13.0' ;;
esac
"""
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for nvidia-smi is a script")


class _Logged(http.server.SimpleHTTPRequestHandler):
    log: ClassVar[list[str]] = []

    def log_message(self, *_words: object) -> None:
        """Say nothing of requests, but remember them."""
        self.log.append(f"{self.command} {self.path.rpartition('/')[2]}")


@pytest.fixture(autouse=True)
def _stock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away the settings under which the tests themselves run, and GPUs that the machine has."""
    for name in [name for name in os.environ if name.startswith(("UV_", "PIP_", "NV_"))]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all that the split of a wheel writes."""
    return split_wheel(tmp_path_factory.mktemp("wheels"), FILES, "--as", "variants")


@pytest.fixture(scope="module")
def simple(parts: Path) -> Path:
    """Return the folder of an index as PEP 503 has it, with a page that links all of it."""
    folder = parts.parent / "simple" / "the-demo"
    shutil.copytree(parts, folder)
    links = "".join(f'<a href="{path.name}">{path.name}</a>' for path in sorted(folder.iterdir()))
    (folder / "index.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>", "utf-8")
    return folder.parent


@pytest.fixture(params=["an index behind HTTP", "an index in files", "--find-links"])
def where(request: pytest.FixtureRequest, parts: Path, simple: Path) -> Iterator[list[str]]:
    """Yield the options that name each kind of index."""
    if request.param == "--find-links":
        yield ["--no-index", "--find-links", str(parts)]
    elif request.param == "an index in files":
        yield ["--index-url", simple.as_uri()]
    else:
        with served(simple) as url:
            yield ["--index-url", url]


@contextlib.contextmanager
def served(simple: Path) -> Iterator[str]:
    """Serve an index, and yield its address."""
    handler = functools.partial(_Logged, directory=str(simple))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def by_uv(site: Path, *options: str, gpus: str = "", told: Mapping[str, str] = MappingProxyType({})) -> Path:
    """Let uv install the package on a machine with these GPUs, of which a stand-in for nvidia-smi tells."""
    tools = write_tree(
        site.with_name(f"{site.name}-tools"), {"nvidia-smi": NVIDIA_SMI.replace("CAPABILITIES", gpus)}
    )
    (tools / "nvidia-smi").chmod(0o755)
    uv = (
        sys.executable,
        "-m",
        "uv",
        "pip",
        "install",
        "--no-config",
        "--no-cache",
        "--python",
        sys.executable,
    )
    path = os.pathsep.join([str(tools), os.environ["PATH"]])
    run(*uv, *options, "--target", site, "the-demo", cwd=tools, check=True, PATH=path, **told)
    return site


def label(site: Path) -> str:
    """Return which variant is installed."""
    variant = read_manifest((site / "demo/_cubins/manifest.json").read_bytes()).wheel_variant
    return variant["label"] if variant else PLAIN


def found(folder: Path, capability: str) -> bytes | str:
    """Return what the loader gives on a GPU, or what it says if that is nothing."""
    cubins: Any = load_bundle(folder, {})
    major, minor = capability.split(".")
    try:
        code: bytes = cubins.read("a", cc=(int(major), int(minor)))
    except cubins.CubinNotFoundError as exc:
        return str(exc).partition(": ")[2]
    return code


def test_uv_installs_the_variant_for_the_gpu_and_it_runs_there_what_the_whole_runs(
    tmp_path: Path, where: list[str]
) -> None:
    sites = {gpu: by_uv(tmp_path / gpu, *FEATURE, *where, gpus=gpu) for gpu in INSTALLED}
    assert {gpu: label(site) for gpu, site in sites.items()} == INSTALLED
    whole = write_tree(tmp_path / "whole", FILES)
    assert {gpu: found(site / "demo/_cubins", gpu) for gpu, site in sites.items()} == {
        gpu: found(whole, gpu) for gpu in INSTALLED
    }


def test_uv_takes_for_each_capability_what_the_table_of_the_unit_tests_has(tmp_path: Path) -> None:
    archs = [*(f"sm_{number}" for number in OFFERED), "compute_80"]
    built = (
        made("a", arch, {"copy": "copy"}, data=PTX if arch[0] == "c" else cubin("copy", 40)) for arch in archs
    )
    parts = split_wheel(tmp_path / "wheels", bundle(*built, folder="demo/_cubins"), "--as", "variants")
    where = ("--no-index", "--find-links", str(parts))
    assert {gpu: label(by_uv(tmp_path / gpu, *FEATURE, *where, gpus=gpu)) for gpu in SEEN} == SEEN


def test_a_gpu_whose_label_the_json_file_lacks_gets_the_null_variant(tmp_path: Path, parts: Path) -> None:
    left = shutil.copytree(parts, tmp_path / "parts")
    (index,) = left.glob("*-variants.json")
    told = json.loads(index.read_bytes())
    del told["variants"]["sm90"]
    index.write_text(json.dumps(told), "utf-8")
    where = ("--no-index", "--find-links", str(left))
    sites = [by_uv(tmp_path / gpu, *FEATURE, *where, gpus=gpu) for gpu in ("8.0", "9.0")]
    assert [label(site) for site in sites] == ["sm80", "null"]


def test_of_an_index_with_the_metadata_of_wheels_uv_downloads_one_wheel(tmp_path: Path, simple: Path) -> None:
    index = shutil.copytree(simple, tmp_path / "simple")
    page = index / "the-demo" / "index.html"
    page.write_text(page.read_text("utf-8").replace('.whl">', '.whl" data-core-metadata="true">'), "utf-8")
    for wheel in (index / "the-demo").glob("*.whl"):
        metadata = wheel_files(wheel)["The.Demo-1.0.dist-info/METADATA"]
        wheel.with_name(f"{wheel.name}.metadata").write_bytes(metadata)
    _Logged.log.clear()
    with served(index) as url:
        assert label(by_uv(tmp_path / "site", *FEATURE, "--index-url", url, gpus="9.0")) == "sm90"
    wheels = {each for each in _Logged.log if each.endswith(".whl")}
    assert wheels == {"GET The.Demo-1.0-py3-none-any-sm90.whl"}


def test_pip_and_uv_without_the_feature_install_the_wheel_as_it_was(tmp_path: Path, where: list[str]) -> None:
    pip = (sys.executable, "-m", "pip", "install", "--isolated", "-q", "--disable-pip-version-check")
    run(*pip, "--no-deps", *where, "--target", tmp_path / "pip", "the-demo", cwd=tmp_path)
    sites = [tmp_path / "pip", by_uv(tmp_path / "uv", *where, gpus="9.0")]
    assert [label(site) for site in sites] == [PLAIN, PLAIN]


def test_where_no_gpu_is_seen_uv_installs_what_has_ptx_unless_it_is_told_of_one(
    tmp_path: Path, parts: Path
) -> None:
    where = ("--no-index", "--find-links", str(parts))
    told = {
        "NV_VARIANT_PROVIDER_FORCE_SM_ARCH": "9.0",
        "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION": "13.0",
    }
    sites = [by_uv(tmp_path / "a", *FEATURE, *where), by_uv(tmp_path / "b", *FEATURE, *where, told=told)]
    assert [label(site) for site in sites] == ["null", "sm90"]
    said = "'a' for sm_90 is not in the installed wheel variant 'null': uv pip install --no-preview "
    assert str(found(sites[0] / "demo/_cubins", "9.0")).startswith(said)


@pytest.mark.parametrize("gone", ["the_demo-1.0-variants.json", "The.Demo-1.0-py3-none-any-null.whl"])
def test_without_what_describes_them_or_the_one_for_others_uv_installs_the_wheel_as_it_was(
    tmp_path: Path, parts: Path, gone: str
) -> None:
    left = shutil.copytree(parts, tmp_path / "parts")
    (left / gone).unlink()
    assert (
        label(by_uv(tmp_path / "site", *FEATURE, "--no-index", "--find-links", str(left), gpus="7.5"))
        == PLAIN
    )


def test_of_two_gpus_the_newer_one_decides_and_the_loader_says_what_mends_that(
    tmp_path: Path, parts: Path
) -> None:
    where = ("--no-index", "--find-links", str(parts))
    site = by_uv(tmp_path / "site", *FEATURE, *where, gpus="8.0 9.0")
    assert (label(site), found(site / "demo/_cubins", "9.0")) == ("sm90", cubin("copy", 41))
    said = str(found(site / "demo/_cubins", "8.0"))
    assert "for sm_80 is not in the installed wheel variant 'sm90'" in said  # and never its PTX instead
    shown = said.partition("variant 'sm90': uv ")[2].partition(" installs the complete wheel")[0]
    command = shown.replace("'", "").split()
    uv = (sys.executable, "-m", "uv", *command, "--no-config", "--python", sys.executable, *where)
    run(*uv, "--target", site, cwd=tmp_path, UV_PREVIEW_FEATURES=FEATURE[1])
    assert found(site / "demo/_cubins", "8.0") == cubin("copy", 40)


@pytest.mark.nvrtc
def test_each_variant_is_what_its_project_builds(tmp_path: Path) -> None:
    options = 'pack = true\narchs = ["sm_80", "sm_90", "compute_90"]\n'
    root = demo(tmp_path / "project", options, {"src/demo/__init__.py": "", "src/demo/saxpy.cu": SAXPY})
    command = (sys.executable, "-m", "hatch_cubin")
    run(*command, "split", build(root), "--by", "arch", "--as", "variants", "--into", "parts", cwd=root)
    wheels = sorted((root / "parts").glob("*.whl"))
    said = run(*command, "verify", *wheels, "--rebuild", "--project", root, cwd=root).stdout.splitlines()
    others = "in other wheel variants not compared"
    assert [line.partition("/_cubins: ")[2] for line in said if "units" in line or "unit " in line] == [
        "of 3 units compiled again, 1 has exactly the same bytes",
        f"2 units {others}",
        *["of 3 units compiled again, 1 has exactly the same bytes", f"2 units {others}"] * 2,
        "of 3 units compiled again, 3 have exactly the same bytes",
    ]
