"""`split --as variants`: a wheel, and one for the GPUs of each capability, which all other verbs know."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hatch_cubin.bundle.unpacked_form import joined
from hatch_cubin.cli.main import main
from hatch_cubin.common import file_lock
from hatch_cubin.wheels.splitting.variants import describe_variants
from tests.cubins import inside, make_wheel
from tests.helpers import bundle, made, run, wheel_files
from tests.split_wheels import INDEX, PACKED, PARTS, PLAIN, VARIANTS, finished_wheel, install, split_wheel

from .test_verify import line_of, recorded

WHOLE, NULL, SM80, SM90 = VARIANTS
FORMS = pytest.mark.parametrize("files", [PLAIN, PACKED], ids=["plain", "packed"])
INFO = "The.Demo-1.0.dist-info"
COMMAND = (sys.executable, "-m", "hatch_cubin")
UNITS = {  # of which c has the same bytes for both
    NULL: {("b", "compute_80")},
    SM80: {("a", "sm_80"), ("b", "compute_80"), ("c", "sm_80"), ("c", "sm_90")},
    SM90: {("a", "sm_90"), ("b", "sm_90"), ("b", "compute_80"), ("c", "sm_80"), ("c", "sm_90")},
}


def as_variants(folder: Path, files: dict[str, bytes] = PLAIN) -> Path:
    """Return a folder with the variants of a wheel."""
    return split_wheel(folder, files, "--as", "variants")


def ran(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    """Return how a verb ended, and what it printed."""
    capsys.readouterr()
    code = 0
    try:
        code = main([*map(str, words)])
    except SystemExit as ended:
        code = int(str(ended.code))
    out, err = capsys.readouterr()
    return code, out, err


@FORMS
def test_the_wheel_stays_as_it_is_and_its_variants_lack_what_others_run(
    tmp_path: Path, files: dict[str, bytes]
) -> None:
    parts = as_variants(tmp_path, files)
    assert sorted(path.name for path in parts.iterdir()) == sorted([*VARIANTS, INDEX])
    assert (parts / WHOLE).read_bytes() == (tmp_path / "whole" / WHOLE).read_bytes()
    whole = wheel_files(parts / WHOLE)
    changed = {"demo/_cubins/manifest.json", f"{INFO}/RECORD"}
    for name in (NULL, SM80, SM90):
        part = wheel_files(parts / name)
        assert part.keys() - whole.keys() == {f"{INFO}/variant.json", "demo/_cubins/_split.py"}
        assert {each for each in part.keys() & whole.keys() if part[each] != whole[each]} == changed
        gone = whole.keys() - part.keys()
        assert gone
        assert all(each.startswith("demo/_cubins/") for each in gone)


def test_the_index_says_what_is_absent_and_is_otherwise_that_of_the_whole(tmp_path: Path) -> None:
    data = wheel_files(as_variants(tmp_path) / SM80)["demo/_cubins/manifest.json"]
    fields = json.loads(data)
    assert (fields["format"], fields["wheel_variant"]) == (3, {"install": "The.Demo==1.0", "label": "sm80"})
    entries = {
        (name, each["arch"]): each for name, line in fields["modules"].items() for each in line["entries"]
    }
    assert {unit for unit, each in entries.items() if "absent" not in each} == UNITS[SM80]
    assert {each["absent"] for each in entries.values() if "absent" in each} == {True}
    assert joined(data) == PLAIN["manifest.json"]


def test_a_variant_describes_itself_and_the_file_beside_the_wheels_all_of_them(tmp_path: Path) -> None:
    parts = as_variants(tmp_path)
    assert wheel_files(parts / SM90)[f"{INFO}/variant.json"] == describe_variants(["sm90"])
    assert (parts / INDEX).read_bytes() == describe_variants(["null", "sm80", "sm90"])


def test_two_splits_give_the_same_bytes_into_an_old_folder_too(tmp_path: Path) -> None:
    one, two = (as_variants(tmp_path / name) for name in "ab")
    before = {path.name: path.read_bytes() for path in one.iterdir()}
    assert {path.name: path.read_bytes() for path in two.iterdir()} == before
    assert {path.name: path.read_bytes() for path in as_variants(tmp_path / "a").iterdir()} == before


def test_wheels_of_a_version_are_described_together(tmp_path: Path) -> None:
    """As those for several Pythons and systems are, which may have other archs each."""
    parts = as_variants(tmp_path)
    files, tag = bundle(made("a", "sm_75"), folder="demo/_cubins"), "py3-none-manylinux_2_28_aarch64"
    other = finished_wheel(tmp_path / "other", files, tag=tag)
    assert main(["split", str(other), "--by", "arch", "--as", "variants", "--into", str(parts)]) == 0
    assert (parts / INDEX).read_bytes() == describe_variants(["null", "sm75", "sm80", "sm90"])
    assert (parts / f"The.Demo-1.0-{tag}-sm75.whl").exists()


@pytest.mark.linux
def test_splits_into_one_folder_at_once_lose_no_label(tmp_path: Path) -> None:
    archs = ["sm_75", "sm_80", "sm_86", "sm_90"]
    wheels = [
        finished_wheel(
            tmp_path / arch, bundle(made("a", arch), folder="demo/_cubins"), tag=f"py3-none-linux_{number}"
        )
        for number, arch in enumerate(archs)
    ]
    parts = tmp_path / "parts"
    words = ("split", "--by", "arch", "--as", "variants", "--into", parts)
    with ThreadPoolExecutor(len(wheels)) as threads:
        for done in [threads.submit(run, *COMMAND, *words, wheel, cwd=tmp_path) for wheel in wheels]:
            done.result()
    assert (parts / INDEX).read_bytes() == describe_variants([arch.replace("_", "") for arch in archs])


def test_what_another_split_wrote_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = file_lock.wait_for_lock

    def wait(folder: Path, seconds: float) -> file_lock.Lock:
        (folder / INDEX).write_bytes(describe_variants(["sm75"]))
        return real(folder, seconds)

    monkeypatch.setattr(file_lock, "wait_for_lock", wait)
    assert (as_variants(tmp_path) / INDEX).read_bytes() == describe_variants(["null", "sm75", "sm80", "sm90"])


@pytest.mark.parametrize(
    "there", ["The.Demo-1.0-py3-none-any-sm75.whl", "The.Demo-1.0-1-py3-none-any-sm90.whl"]
)
def test_variants_of_another_build_do_not_stay_beside_those_of_this_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], there: str
) -> None:
    parts = as_variants(tmp_path)
    (parts / there).write_bytes(b"")
    words = (
        "split",
        finished_wheel(tmp_path),
        "--by",
        "arch",
        "--as",
        "variants",
        "--into",
        parts,
    )
    code, _out, err = ran(capsys, *words)
    assert (code, err.splitlines()[-2:]) == (
        1,
        [
            (
                f"hatch-cubin: error: {parts / there}: is a variant of another build of this wheel"
                " [variant-of-other-build]"
            ),
            "  hint: remove it, or split --into another folder",
        ],
    )


def test_a_wheel_that_is_gone_is_told_also_where_its_parts_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = as_variants(tmp_path)
    gone = tmp_path / "gone" / PARTS[0]
    code, _out, err = ran(capsys, "split", gone, "--by", "arch", "--as", "variants", "--into", parts)
    assert (code, err.splitlines()[0].partition(": this file ")[0]) == (1, f"hatch-cubin: error: {gone}")


def test_a_wheel_that_is_not_named_as_it_says_is_not_split(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = finished_wheel(tmp_path)
    other = whole.rename(whole.with_name("The.Demo-2.0-py3-none-any.whl"))
    code, _out, err = ran(
        capsys, "split", other, "--by", "arch", "--as", "variants", "--into", tmp_path / "parts"
    )
    what = "contains The.Demo-1.0.dist-info, but the wheel's name says The.Demo-2.0 [wheel-renamed]"
    hint = "  hint: installers refuse such a wheel"
    assert (code, err.splitlines()) == (1, [f"hatch-cubin: error: {other}: {what}", hint])
    assert not (tmp_path / "parts").exists()


def test_json_names_the_wheels_and_what_describes_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = finished_wheel(tmp_path)
    words = ("split", whole, "--by", "arch", "--as", "variants", "--into", tmp_path / "parts")
    code, out, err = ran(capsys, *words, "--json")
    wheels = [{"wheel": name, "bytes": (tmp_path / "parts" / name).stat().st_size} for name in VARIANTS]
    facts = {"format": 1, "verb": "split", "wheels": wheels, "index": INDEX, "errors": []}
    assert (code, json.loads(out)) == (0, facts)
    code, out, err = ran(capsys, *words)
    assert out.splitlines()[-1] == str(tmp_path / "parts" / INDEX)
    assert err == (
        "hatch-cubin: warning: wheel variants are experimental: the drafts of them, PEP 825 and PEP 850, may"
        " change [experimental-variants]\n"
    )


# What cannot be split


def refusal(capsys: pytest.CaptureFixture[str], wheel: Path, into: Path, form: str = "variants") -> str:
    code, out, err = ran(capsys, "split", wheel, "--by", "arch", "--as", form, "--into", into)
    assert (code, out) == (1, "")
    return err


def test_parts_are_not_split_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    variant = as_variants(tmp_path / "a") / SM80
    companions = split_wheel(tmp_path / "b")
    for wheel, form in [(variant, "variants"), (variant, "companions"), (companions / PARTS[0], "variants")]:
        assert "manifest.json: was split already [already-split]" in refusal(
            capsys, wheel, tmp_path / "x", form
        )
    assert "is a companion of The.Demo 1.0 [companion-alone]" in refusal(
        capsys, companions / PARTS[1], tmp_path / "x"
    )
    assert not (tmp_path / "x").exists()


def test_a_variant_that_others_made_is_not_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = finished_wheel(tmp_path)
    inside, name = wheel_files(whole), f"{INFO}/variant.json"
    record = inside[f"{INFO}/RECORD"] + line_of(name, b"{}", "sha256").encode()
    make_wheel(whole, {**inside, name: b"{}", f"{INFO}/RECORD": record})
    assert f"{name}: is a wheel variant already [already-split]" in refusal(capsys, whole, tmp_path / "x")


def test_what_has_nothing_to_split_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = finished_wheel(tmp_path / "text", bundle(made("p", "compute_80"), folder="demo/_cubins"))
    assert "does not contain machine code for a variant [not-splittable]" in refusal(
        capsys, text, tmp_path / "x"
    )
    bare = make_wheel(tmp_path / "bare-1-py3-none-any.whl", inside("demo/_cubins", PLAIN))
    assert "has 0 files .dist-info/METADATA, and a wheel has one [metadata-not-once]" in refusal(
        capsys, bare, tmp_path / "x"
    )
    renamed = finished_wheel(tmp_path).rename(tmp_path / "renamed.whl")
    assert "is not named like a wheel: NAME-VERSION-" in refusal(capsys, renamed, tmp_path / "x")


def test_a_variant_on_which_a_gpu_could_run_nothing_is_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    built = [made("m", arch) for arch in ("sm_90", "sm_100a", "sm_120a")]
    whole = finished_wheel(tmp_path, bundle(*built, folder="demo/_cubins"))
    what = "would be installed for {}, and none of its kernels runs there"
    assert refusal(capsys, whole, tmp_path / "x").splitlines() == [
        (
            f"hatch-cubin: error: {whole}/demo/_cubins: the wheel variant sm100 "
            f"{what.format('10.3')} [gpu-not-served]"
        ),
        '  hint: add "sm_103" to archs, or PTX: "compute_100"',
        (
            f"hatch-cubin: error: {whole}/demo/_cubins: the wheel variant sm120 "
            f"{what.format('12.1')} [gpu-not-served]"
        ),
        '  hint: add "sm_121" to archs, or PTX: "compute_120"',
        "hatch-cubin: 2 errors",
    ]


def test_nothing_is_replaced_that_was_not_written_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = finished_wheel(tmp_path)
    assert "would be replaced by its own part" in refusal(capsys, whole, tmp_path)
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / INDEX).write_text("{}", "utf-8")
    said = refusal(capsys, whole, tmp_path / "parts")
    (tmp_path / "folder" / INDEX).mkdir(parents=True)
    assert f"{tmp_path / 'folder' / INDEX}: cannot be read: " in refusal(capsys, whole, tmp_path / "folder")
    assert (
        f"{tmp_path / 'parts' / INDEX}: is not what hatch-cubin writes"
        " [foreign-variant-index]\n  hint: --into takes" in said
    )
    assert [path.name for path in (tmp_path / "parts").iterdir()] == [INDEX]


# What the other verbs say of variants


@FORMS
def test_variants_are_verified_one_by_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: dict[str, bytes]
) -> None:
    parts = as_variants(tmp_path, files)
    code, out, err = ran(capsys, "verify", *(parts / name for name in VARIANTS))
    assert (code, err) == (0, "")
    assert [line.partition("hatch-cubin 0.1.0")[2] for line in out.splitlines()] == [
        "",
        *(f"; it is the wheel variant {label}" for label in ("null", "sm80", "sm90")),
    ]


def test_an_installed_variant_is_verified_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = install(tmp_path / "site", as_variants(tmp_path) / SM90)
    assert ran(capsys, "verify", site / "demo")[0] == 0


Files = dict[str, bytes]


def _lacks_a_file(files: Files) -> None:
    del files["demo/_cubins/a.sm_90.cubin"]


def _has_one_of_another(files: Files) -> None:
    files["demo/_cubins/a.sm_80.cubin"] = b"x"


def _says_another_label(files: Files) -> None:
    name = "demo/_cubins/manifest.json"
    files[name] = files[name].replace(b'"label":"sm90"', b'"label":"sm80"')


def _says_an_unknown_label(files: Files) -> None:
    name = "demo/_cubins/manifest.json"
    files[name] = files[name].replace(b'"label":"sm90"', b'"label":"sm75"')


def _describes_another(files: Files) -> None:
    files[f"{INFO}/variant.json"] = describe_variants(["sm80"])


def _describes_nothing(files: Files) -> None:
    del files[f"{INFO}/variant.json"]


def _is_unreadable(files: Files) -> None:
    files["demo/_cubins/manifest.json"] = b"{}"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_lacks_a_file, "a.sm_90.cubin: is missing [file-missing]"),
        (_has_one_of_another, "a.sm_80.cubin: does not belong to the wheel variant 'sm90' [wrong-variant]"),
        (
            _says_another_label,
            "does not leave the files to the wheel variant 'sm80' that its GPUs need [wrong-variant]",
        ),
        (
            _says_an_unknown_label,
            "says that it is the wheel variant 'sm75', which no split of its archs gives [wrong-variant]",
        ),
        (
            _describes_another,
            f"{INFO}/variant.json: does not describe the wheel variant 'sm90' [wrong-variant]",
        ),
        (
            _describes_nothing,
            "demo/_cubins: is a wheel variant, and its variant.json is missing [wrong-variant]",
        ),
        (_is_unreadable, "manifest.json: lacks 'format'"),
    ],
)
def test_a_variant_that_was_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Callable[[Files], None], said: str
) -> None:
    wheel = as_variants(tmp_path) / SM90
    files = wheel_files(wheel)
    del files[f"{INFO}/RECORD"]
    change(files)
    make_wheel(wheel, recorded(files))
    code, _out, err = ran(capsys, "verify", wheel)
    assert code == 1
    assert said in err


def test_check_says_what_the_gpus_run_that_a_variant_is_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = as_variants(tmp_path)
    words = ("--except", "b", "--json")
    seen = {}
    for name in VARIANTS:
        code, out, _err = ran(capsys, "check", parts / name, *words)
        (checked,) = json.loads(out)["results"][0]["bundles"]
        seen[name] = code, {each["gpu"]: (each["cubin"], each["ptx"]) for each in checked["gpus"]}
    gpus = {"8.0": (2, 1), "9.0": (3, 1)}
    assert seen == {
        WHOLE: (0, gpus),
        NULL: (0, {}),
        SM80: (0, {"8.0": gpus["8.0"]}),
        SM90: (0, {"9.0": gpus["9.0"]}),
    }
    code, out, err = ran(capsys, "check", parts / SM80, "--gpu", "7.5,8.6,9.0")
    assert "  kernels         8.6\n" in out
    assert "cannot run on 8.6" in err


def test_check_compares_a_label_with_the_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = as_variants(tmp_path)
    renamed = (parts / SM80).rename(parts / SM80.replace("sm80", "sm75"))
    assert (
        "its metadata has the variant label sm80, its name has sm75 [wheel-renamed]"
        in ran(capsys, "check", renamed)[2]
    )
    renamed = renamed.rename(parts / WHOLE)
    assert (
        "its metadata has the variant label sm80, its name has none [wheel-renamed]"
        in ran(capsys, "check", renamed)[2]
    )
    renamed = (parts / SM90).rename(parts / SM90.replace("sm90", "SM90"))
    assert "is not named like a wheel" in ran(capsys, "check", renamed)[2]


INDEXES = {
    "all": (json.dumps({"variants": {"null": {}, "sm80": {}, "sm90": {}}}), 0, ""),
    "not this": (
        json.dumps({"variants": {"null": {}, "sm80": {}}}),
        1,
        (
            f"{SM90}: is not listed in {INDEX}: installers choose another wheel for the "
            "GPUs of sm90 [wrong-variant-index]\n"
            "  hint: split all wheels of a version into one folder\n"
        ),
    ),
    "a list": (
        json.dumps({"variants": ["sm90"]}),
        1,
        f"{INDEX}: does not list variants [wrong-variant-index]\n",
    ),
    "no JSON": ("{", 1, f"{INDEX}: does not list variants [wrong-variant-index]\n"),
}


@pytest.mark.parametrize("case", INDEXES)
def test_check_looks_for_a_variant_in_the_file_that_describes_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    parts = as_variants(tmp_path)
    text, expected, said = INDEXES[case]
    (parts / INDEX).write_text(text)
    code, _out, err = ran(capsys, "check", parts / SM90, "--except", "b")
    assert (code, err.replace(f"hatch-cubin: error: {parts}/", "").partition("hatch-cubin: ")[0]) == (
        expected,
        said,
    )
    assert ran(capsys, "check", parts / WHOLE, "--except", "b")[0] == 0


def test_check_warns_of_a_variant_that_nothing_describes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = as_variants(tmp_path)
    (parts / INDEX).unlink()
    code, _out, err = ran(capsys, "check", parts / SM90, "--except", "b")
    assert code == 0
    assert err == (
        f"hatch-cubin: warning: {parts / SM90}: {INDEX} is missing beside it, "
        "and no installer chooses a variant without this file [wrong-variant-index]\n"
    )
    (parts / INDEX).mkdir()
    code, _out, err = ran(capsys, "check", parts / SM90, "--except", "b")
    assert code == 1
    assert f"{parts / INDEX}: cannot be read: it is a folder [file-not-readable]\n" in err


def test_inspect_shows_what_a_variant_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = as_variants(tmp_path)
    code, out, _err = ran(capsys, "inspect", parts / SM90, "--json")
    (facts,) = json.loads(out)["results"][0]["bundles"]
    assert (code, facts["wheel_variant"]) == (0, "sm90")
    assert {(unit["module"], unit["arch"]) for unit in facts["units"]} == UNITS[SM90]
    assert "  the wheel variant sm90: other variants have more\n" in ran(capsys, "inspect", parts / SM90)[1]
    assert ".entry copy" in ran(capsys, "inspect", parts / NULL, "--ptx", "copy")[1]
    assert ran(capsys, "inspect", parts / NULL, "--ptx", "a")[0] == 1


@FORMS
def test_a_variant_alone_is_not_unpacked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: dict[str, bytes]
) -> None:
    parts = as_variants(tmp_path, files)
    code, _out, err = ran(capsys, "unpack", parts / SM90, "--into", tmp_path / "out")
    what, hint = err.partition("/demo/_cubins: ")[2].splitlines()
    assert (code, what) == (
        1,
        "is the wheel variant sm90, which has only a part of the files [already-split]",
    )
    assert hint == "  hint: unpack the wheel that it was split from"


def test_a_budget_is_of_each_variant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = as_variants(tmp_path)
    code, _out, err = ran(capsys, "check", parts / SM90, "--except", "b", "--max-size", "20 KB")
    assert code == 1
    assert "more than max-size allows" in err
    assert "leaving out sm_80" not in err
