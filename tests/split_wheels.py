"""Wheels that `hatch-cubin split` made."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

from hatch_cubin.bundle import layout, sbom
from hatch_cubin.cli.main import main
from tests.cubins import PTX, bill_for, cubin, make_wheel
from tests.helpers import bundle, made, packed_bundle
from tests.unit.cli.verbs.test_verify import recorded

UNITS: list[layout.BuiltUnit] = [
    made("a", "sm_80", data=cubin("a")),
    made("a", "sm_90", data=cubin("a", 50)),
    made("b", "sm_90", data=cubin("b")),
    made("b", "compute_80", {"copy": "copy"}, data=PTX),
    made("c", "sm_80", data=cubin("c")),
    made("c", "sm_90", data=cubin("c")),  # the same to the byte
]
PLAIN = bundle(*UNITS, folder="demo/_cubins")
PACKED = packed_bundle(*UNITS, folder="demo/_cubins")
METADATA = (
    "Metadata-Version: 2.1\nName: The.Demo\nVersion: 1.0\nRequires-Python: >=3.10\nProvides-Extra: all\n"
)
_OF = "-1.0-py3-none-any.whl"
VARIANTS = [f"The.Demo-1.0-py3-none-any{label}.whl" for label in ("", "-null", "-sm80", "-sm90")]
INDEX = "the_demo-1.0-variants.json"
PARTS = [f"The.Demo{_OF}", f"the_demo_cubins_sm80{_OF}", f"the_demo_cubins_sm90{_OF}"]


def finished_wheel(
    folder: Path,
    files: Mapping[str, bytes] = PLAIN,
    metadata: str = METADATA,
    tag: str = "py3-none-any",
) -> Path:
    """Return a wheel as a build makes it."""
    info = "The.Demo-1.0.dist-info"
    inside = {
        "demo/__init__.py": b"",
        **{f"demo/_cubins/{name}": data for name, data in files.items()},
        f"{info}/METADATA": f"{metadata}\nAll about it.\n".encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nTag: {tag}\n".encode(),
        f"{info}/sboms/{sbom.NAME}": bill_for(files),
    }
    folder.mkdir(parents=True, exist_ok=True)
    with_record = {name.replace("demo-1.0.dist-info", info): data for name, data in recorded(inside).items()}
    record = with_record[f"{info}/RECORD"].replace(b"demo-1.0.dist-info/RECORD", f"{info}/RECORD".encode())
    return make_wheel(
        folder / PARTS[0].replace("py3-none-any", tag), {**with_record, f"{info}/RECORD": record}
    )


def split_wheel(folder: Path, files: Mapping[str, bytes] = PLAIN, *options: str) -> Path:
    """Return a folder with the parts of a wheel."""
    whole = finished_wheel(folder / "whole", files)
    assert main(["split", str(whole), "--by", "arch", *options, "--into", str(folder / "parts")]) == 0
    return folder / "parts"


def install(site: Path, *wheels: Path) -> Path:
    """Unpack wheels as installers do."""
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
    return site
