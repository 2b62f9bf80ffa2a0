"""`hatch-cubin keygen`: a file for whoever signs, and a line for everybody else."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from hatch_cubin.cache.signing import Signer
from hatch_cubin.cli.main import main
from hatch_cubin.common import ed25519_keys
from tests.helpers import read_config


def test_the_private_key_goes_into_a_file_of_the_owner_and_the_public_one_is_a_line_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["keygen", "the key"]) == 0
    said, path = capsys.readouterr(), tmp_path / "the key"
    assert path.stat().st_mode & 0o777 == 0o600
    private = path.read_text()
    public = Signer(ed25519_keys.read(ed25519_keys.PRIVATE, private.strip())).key
    assert private.endswith("\n")
    assert said.out == f'trusted-keys = ["{public}"]\n'
    assert read_config(said.out).trusted_keys == (public,)
    variable = f"HATCH_CUBIN_SIGNING_KEY=@{shlex.quote(str(path))}"
    assert said.err == (
        "hatch-cubin: everybody who has this file can sign results, so keep the file secret; "
        f"builds use the key if you set {variable}\n"
    )
    assert private.strip() not in said.out + said.err


def test_no_key_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "key"
    path.write_text("mine")
    with pytest.raises(SystemExit, match=r"^1$"):
        main(["keygen", str(path)])
    what = f"hatch-cubin: error: {path}: exists already, and keygen does not overwrite files [file-exists]\n"
    assert capsys.readouterr() == ("", f"{what}  hint: name another file\n")
    assert path.read_text() == "mine"


@pytest.mark.parametrize("at", ["pyproject.toml", "setup.py", "setup.cfg"])
def test_no_key_is_written_into_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], at: str
) -> None:
    (tmp_path / at).touch()
    (tmp_path / "src/pkg").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "src/pkg")
    with pytest.raises(SystemExit, match=r"^1$"):
        main(["keygen", "my key"])
    said = capsys.readouterr().err
    assert f"my key: is inside the project {tmp_path}, " in said
    assert "[private-key-in-project]" in said
    assert said.endswith(f"hint: name a file outside of {tmp_path}\n")
    assert not (tmp_path / "src/pkg/my key").exists()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SystemExit, match=r"^1$"):
        main(["keygen", str(tmp_path / "key")])
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "absent/key"
    with pytest.raises(SystemExit, match=r"^1$"):
        main(["keygen", str(path)])
    what = f"hatch-cubin: error: {path}: cannot be written: No such file or directory [file-not-writable]\n"
    assert capsys.readouterr() == ("", what)


def test_programs_get_the_public_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "key"
    assert main(["keygen", "--json", str(path)]) == 0
    public = Signer(ed25519_keys.read(ed25519_keys.PRIVATE, path.read_text().strip())).key
    assert json.loads(capsys.readouterr().out) == {
        "format": 1,
        "verb": "keygen",
        "file": str(path),
        "public_key": public,
        "errors": [],
    }
