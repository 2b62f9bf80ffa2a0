"""The reference of packed bundles is enough to read one: its own reader does, with nothing of ours."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs_pages import code, rows
from tests.helpers import REPOSITORY, made, packed_bundle, sha256, write_tree

PAGE = (REPOSITORY / "docs/reference/packs.md").read_text("utf-8")
(READER,) = re.findall(r"^<!-- reader -->\n```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

UNITS = [
    made(f"k{n}", arch, data=random.Random(f"{n} {arch}").randbytes(90) * 1000)  # noqa: S311
    for n in range(30)
    for arch in ("sm_90", "sm_100")
]
FILES = packed_bundle(*UNITS, made("same", data=UNITS[0].compiled.data))

READ_ALL = """
import json, sys
folder = sys.argv[1]
manifest = json.loads(pathlib.Path(folder, "manifest.json").read_text("utf-8"))
found = {
    f"{name} {entry['arch']}": hashlib.sha256(read(folder, manifest, entry)).hexdigest()
    for name, module in manifest["modules"].items()
    for entry in module["entries"]
}
print(json.dumps(found))
"""


def read_by_the_page(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-S", "-c", READER + READ_ALL, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_reader_of_the_page_reads_every_unit(tmp_path: Path) -> None:
    found = json.loads(read_by_the_page(write_tree(tmp_path, FILES)).stdout)
    assert found == {f"{item.unit.module.name} {item.unit.arch}": item.compiled.sha256 for item in UNITS} | {
        "same sm_90": UNITS[0].compiled.sha256
    }
    assert len([name for name in FILES if name.endswith(".xz")]) == 4


def test_it_takes_no_damaged_block(tmp_path: Path) -> None:
    name = next(name for name in FILES if name.endswith(".xz"))
    damaged = {**FILES, name: bytes(len(FILES[name]))}
    assert "AssertionError" in read_by_the_page(write_tree(tmp_path, damaged)).stderr


def test_the_page_names_the_fields_that_the_manifest_has() -> None:
    manifest = json.loads(FILES["manifest.json"])
    (described, *_) = manifest["blocks"].values()
    entry = manifest["modules"]["k0"]["entries"][0]
    named = {name for row in rows(PAGE) for name in code(row[0])}
    assert named == {"blocks", *(f"blocks.*.{key}" for key in described), "block", "offset"}
    assert named & {*entry} == {"block", "offset"}
    assert "file" not in entry
    assert manifest["format"] == 2
    assert sha256(FILES["sm_90.0.xz"]) == manifest["blocks"]["sm_90.0.xz"]["sha256"]


@pytest.mark.xz
def test_the_command_gives_a_unit(tmp_path: Path) -> None:
    entry = json.loads(FILES["manifest.json"])["modules"]["k7"]["entries"][0]
    (line,) = re.findall(r"`(xz -dc [^`]+)`", PAGE)
    line = line.replace("sm_90.0.xz", entry["block"]).replace("3912", str(entry["size"]))
    line = line.replace("4097", str(entry["offset"] + 1))
    write_tree(tmp_path, FILES)
    assert sha256(subprocess.check_output(line, shell=True, cwd=tmp_path)) == entry["sha256"]  # noqa: S602
