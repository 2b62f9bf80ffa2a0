"""`split --as variants`: a wheel, and one for the GPUs of each capability, which all other verbs know."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hatch_cubin.bundle.unpacked_form import manifest_before_split
from hatch_cubin.wheels.splitting.variants import describe_variants
from tests.command_line import Command
from tests.cubins import inside, make_wheel
from tests.helpers import Coded, bundle, made, run, wheel_files
from tests.split_wheels import INDEX, PACKED, PARTS, PLAIN, VARIANTS, finished_wheel, install, split_wheel

from .test_verify import line_of, recorded

WHOLE, NULL, SM80, SM90 = VARIANTS
FORMS = pytest.mark.parametrize("files", [PLAIN, PACKED], ids=["plain", "packed"])
INFO = "The.Demo-1.0.dist-info"
COMMAND = (sys.executable, "-m", "hatch_cubin")
WRONG = "wrong-variant"
UNITS = {  # of which c has the same bytes for both
    NULL: {("b", "compute_80")},
    SM80: {("a", "sm_80"), ("b", "compute_80"), ("c", "sm_80"), ("c", "sm_90")},
    SM90: {("a", "sm_90"), ("b", "sm_90"), ("b", "compute_80"), ("c", "sm_80"), ("c", "sm_90")},
}


def as_variants(folder: Path, files: dict[str, bytes] = PLAIN) -> Path:
    """Return a folder with the variants of a wheel."""
    return split_wheel(folder, files, "--as", "variants")


def refusal(command: Command, wheel: Path, into: Path, form: str = "variants") -> str:
    """Return the one error of a split."""
    ended = command("split", wheel, "--by", "arch", "--as", form, "--into", into)
    (error,) = ended.errors
    assert ended.out == ""
    return error


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
    assert manifest_before_split(data) == PLAIN["manifest.json"]


def test_a_variant_describes_itself_and_the_file_beside_the_wheels_all_of_them(tmp_path: Path) -> None:
    parts = as_variants(tmp_path)
    assert wheel_files(parts / SM90)[f"{INFO}/variant.json"] == describe_variants(["sm90"])
    assert (parts / INDEX).read_bytes() == describe_variants(["null", "sm80", "sm90"])


def test_two_splits_give_the_same_bytes_into_an_old_folder_too(tmp_path: Path) -> None:
    one, two = (as_variants(tmp_path / name) for name in "ab")
    before = {path.name: path.read_bytes() for path in one.iterdir()}
    assert {path.name: path.read_bytes() for path in two.iterdir()} == before
    assert {path.name: path.read_bytes() for path in as_variants(tmp_path / "a").iterdir()} == before


def test_wheels_of_a_version_are_described_together(tmp_path: Path, command: Command) -> None:
    """As those for several Pythons and systems are, which may have other archs each."""
    parts = as_variants(tmp_path)
    files, tag = bundle(made("a", "sm_75"), folder="demo/_cubins"), "py3-none-manylinux_2_28_aarch64"
    other = finished_wheel(tmp_path / "other", files, tag=tag)
    assert command("split", other, "--by", "arch", "--as", "variants", "--into", parts).code == 0
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


@pytest.mark.parametrize(
    "there", ["The.Demo-1.0-py3-none-any-sm75.whl", "The.Demo-1.0-1-py3-none-any-sm90.whl"]
)
def test_variants_of_another_build_do_not_stay_beside_those_of_this_one(
    tmp_path: Path, command: Command, there: str
) -> None:
    parts = as_variants(tmp_path)
    (parts / there).write_bytes(b"")
    assert refusal(command, finished_wheel(tmp_path), parts) == (
        f"hatch-cubin: error: {parts / there}: is a variant of another build of "
        f"{finished_wheel(tmp_path).name}, but installers may choose this variant too"
        " [variant-of-other-build]\n  hint: remove this variant, or name another folder with --into"
    )


def test_a_wheel_that_is_gone_is_told_also_where_its_parts_are(tmp_path: Path, command: Command) -> None:
    parts = as_variants(tmp_path)
    gone = tmp_path / "gone" / PARTS[0]
    assert refusal(command, gone, parts) == Coded("no-such-wheel", gone)


def test_a_wheel_that_is_not_named_as_it_says_is_not_split(tmp_path: Path, command: Command) -> None:
    whole = finished_wheel(tmp_path)
    other = whole.rename(whole.with_name("The.Demo-2.0-py3-none-any.whl"))
    names = (" The.Demo-1.0.dist-info,", " The.Demo-2.0 ")
    assert refusal(command, other, tmp_path / "parts") == Coded("wheel-renamed", other, *names)
    assert not (tmp_path / "parts").exists()


def test_json_names_the_wheels_and_what_describes_them(tmp_path: Path, command: Command) -> None:
    whole = finished_wheel(tmp_path)
    words = ("split", whole, "--by", "arch", "--as", "variants", "--into", tmp_path / "parts")
    code, out, err = command(*words, "--json")
    wheels = [{"wheel": name, "bytes": (tmp_path / "parts" / name).stat().st_size} for name in VARIANTS]
    facts = {"format": 1, "verb": "split", "wheels": wheels, "index": INDEX, "errors": []}
    assert (code, json.loads(out)) == (0, facts)
    code, out, err = command(*words)
    assert out.splitlines()[-1] == str(tmp_path / "parts" / INDEX)
    assert err == (
        "hatch-cubin: warning: wheel variants are experimental: their drafts, PEP 825 and PEP 850, may"
        " change [experimental-variants]\n"
    )


# What cannot be split


def test_parts_are_not_split_again(tmp_path: Path, command: Command) -> None:
    variant = as_variants(tmp_path / "a") / SM80
    companions = split_wheel(tmp_path / "b")
    for wheel, form in [(variant, "variants"), (variant, "companions"), (companions / PARTS[0], "variants")]:
        place = f"{wheel}/demo/_cubins/manifest.json"
        assert refusal(command, wheel, tmp_path / "x", form) == Coded("already-split", place)
    part = companions / PARTS[1]
    assert refusal(command, part, tmp_path / "x") == Coded("companion-alone", part, "The.Demo 1.0")
    assert not (tmp_path / "x").exists()


def test_a_variant_that_others_made_is_not_split(tmp_path: Path, command: Command) -> None:
    whole = finished_wheel(tmp_path)
    inside, name = wheel_files(whole), f"{INFO}/variant.json"
    record = inside[f"{INFO}/RECORD"] + line_of(name, b"{}", "sha256").encode()
    make_wheel(whole, {**inside, name: b"{}", f"{INFO}/RECORD": record})
    already = Coded("already-split", f"{whole}/{name}", "is a wheel variant already")
    assert refusal(command, whole, tmp_path / "x") == already


def test_what_has_nothing_to_split_says_so(tmp_path: Path, command: Command) -> None:
    text = finished_wheel(tmp_path / "text", bundle(made("p", "compute_80"), folder="demo/_cubins"))
    nothing = Coded(
        "not-splittable",
        f"{text}/demo/_cubins",
        "does not contain machine code from which a variant could be made",
    )
    assert refusal(command, text, tmp_path / "x") == nothing
    bare = make_wheel(tmp_path / "bare-1-py3-none-any.whl", inside("demo/_cubins", PLAIN))
    missing = Coded("metadata-not-once", bare, "has 0 .dist-info/METADATA")
    assert refusal(command, bare, tmp_path / "x") == missing
    renamed = finished_wheel(tmp_path).rename(tmp_path / "renamed.whl")
    assert refusal(command, renamed, tmp_path / "x") == Coded("wheel-misnamed", renamed)


def test_a_variant_on_which_a_gpu_could_run_nothing_is_not_made(tmp_path: Path, command: Command) -> None:
    built = [made("m", arch) for arch in ("sm_90", "sm_100a", "sm_120a")]
    whole = finished_wheel(tmp_path, bundle(*built, folder="demo/_cubins"))
    place = f"{whole}/demo/_cubins"
    ended = command("split", whole, "--by", "arch", "--as", "variants", "--into", tmp_path / "x")
    what = (
        "installers would choose the variant sm100 for GPU 10.3, but this GPU cannot "
        "run any kernel of the variant"
    )
    hint = 'add "sm_103" to archs, or PTX: "compute_100"'
    assert ended.errors == [
        f"hatch-cubin: error: {place}: {what} [gpu-not-served]\n  hint: {hint}",
        Coded("gpu-not-served", place, " sm120 ", " 12.1,", '"sm_121"', '"compute_120"'),
    ]
    assert ended.err.endswith("hatch-cubin: 2 errors\n")


def test_nothing_is_replaced_that_was_not_written_so(tmp_path: Path, command: Command) -> None:
    whole = finished_wheel(tmp_path)
    assert refusal(command, whole, tmp_path) == Coded("wheel-overwrites-itself", whole)
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / INDEX).write_text("{}", "utf-8")
    foreign = Coded("foreign-variant-index", tmp_path / "parts" / INDEX, "hint: name another folder")
    assert refusal(command, whole, tmp_path / "parts") == foreign
    (tmp_path / "folder" / INDEX).mkdir(parents=True)
    unreadable = Coded("file-not-readable", tmp_path / "folder" / INDEX)
    assert refusal(command, whole, tmp_path / "folder") == unreadable
    assert [path.name for path in (tmp_path / "parts").iterdir()] == [INDEX]


# What the other verbs say of variants


@FORMS
def test_variants_are_verified_one_by_one(tmp_path: Path, command: Command, files: dict[str, bytes]) -> None:
    parts = as_variants(tmp_path, files)
    code, out, err = command("verify", *(parts / name for name in VARIANTS))
    assert (code, err) == (0, "")
    assert [line.partition("hatch-cubin 0.1.0")[2] for line in out.splitlines()] == [
        "",
        *(f"; this is the wheel variant {label}" for label in ("null", "sm80", "sm90")),
    ]


def test_an_installed_variant_is_verified_too(tmp_path: Path, command: Command) -> None:
    site = install(tmp_path / "site", as_variants(tmp_path) / SM90)
    assert command("verify", site / "demo")[0] == 0


INDEX_OF_KERNELS = "demo/_cubins/manifest.json"


@pytest.mark.parametrize(
    ("changed", "data", "code", "place", "value"),
    [
        ("demo/_cubins/a.sm_90.cubin", None, "file-missing", "a.sm_90.cubin", ""),
        ("demo/_cubins/a.sm_80.cubin", b"x", WRONG, "a.sm_80.cubin", "is in the wheel variant 'sm90'"),
        (
            INDEX_OF_KERNELS,
            b'"label":"sm80"',
            WRONG,
            "manifest.json",
            "does not list exactly the files that belong to the wheel variant 'sm80'",
        ),
        (
            INDEX_OF_KERNELS,
            b'"label":"sm75"',
            WRONG,
            "manifest.json",
            "claims to be the wheel variant 'sm75', but the manifest's archs do not allow this variant",
        ),
        (INDEX_OF_KERNELS, b"{}", "manifest-unreadable", "manifest.json", "'format'"),
        (f"{INFO}/variant.json", describe_variants(["sm80"]), WRONG, f"{INFO}/variant.json", "'sm90'"),
        (f"{INFO}/variant.json", None, WRONG, "demo/_cubins", "does not contain variant.json"),
    ],
)
def test_a_variant_that_was_changed(
    tmp_path: Path, command: Command, changed: str, data: bytes | None, *, code: str, place: str, value: str
) -> None:
    """A label replaces the label in the index; a file without data is missing."""
    wheel = as_variants(tmp_path) / SM90
    files = wheel_files(wheel)
    del files[f"{INFO}/RECORD"]
    if data is None:
        del files[changed]
    else:
        is_label = data.startswith(b'"label"')
        files[changed] = files[changed].replace(b'"label":"sm90"', data) if is_label else data
    make_wheel(wheel, recorded(files))
    where = f"{wheel}/{place}" if "/" in place else f"{wheel}/demo/_cubins/{place}"
    assert Coded(code, where, value) in command("verify", wheel).errors


def test_check_says_what_the_gpus_run_that_a_variant_is_for(tmp_path: Path, command: Command) -> None:
    parts = as_variants(tmp_path)
    words = ("--except", "b", "--json")
    seen = {}
    for name in VARIANTS:
        code, out, _err = command("check", parts / name, *words)
        (checked,) = json.loads(out)["results"][0]["bundles"]
        seen[name] = code, {each["gpu"]: (each["cubin"], each["ptx"]) for each in checked["gpus"]}
    gpus = {"8.0": (2, 1), "9.0": (3, 1)}
    assert seen == {
        WHOLE: (0, gpus),
        NULL: (0, {}),
        SM80: (0, {"8.0": gpus["8.0"]}),
        SM90: (0, {"9.0": gpus["9.0"]}),
    }
    code, out, err = command("check", parts / SM80, "--gpu", "7.5,8.6,9.0")
    assert "  kernels         8.6\n" in out
    assert "cannot run on 8.6" in err


def test_check_compares_a_label_with_the_name(tmp_path: Path, command: Command) -> None:
    parts = as_variants(tmp_path)
    renamed = (parts / SM80).rename(parts / SM80.replace("sm80", "sm75"))
    labels = Coded(
        "wheel-renamed",
        renamed,
        "the wheel's metadata has the variant label sm80, but the wheel's name has sm75",
    )
    assert labels in command("check", renamed).errors
    renamed = renamed.rename(parts / WHOLE)
    assert Coded("wheel-renamed", renamed, " sm80, ", " none") in command("check", renamed).errors
    renamed = (parts / SM90).rename(parts / SM90.replace("sm90", "SM90"))
    assert Coded("wheel-misnamed", renamed) in command("check", renamed).errors


@pytest.mark.parametrize(
    ("text", "place", "values"),
    [
        (
            json.dumps({"variants": {"null": {}, "sm80": {}}}),
            SM90,
            (
                f" {INDEX}, ",
                "the GPUs of sm90",
                "hint: run 'hatch-cubin split' for all wheels of this version with the same folder as --into",
            ),
        ),
        (json.dumps({"variants": ["sm90"]}), INDEX, ("does not list variants",)),
        ("{", INDEX, ()),
    ],
    ids=["not this", "a list", "no JSON"],
)
def test_check_looks_for_a_variant_in_the_file_that_describes_all(
    tmp_path: Path, command: Command, text: str, place: str, values: tuple[str, ...]
) -> None:
    parts = as_variants(tmp_path)
    (parts / INDEX).write_text(json.dumps({"variants": {"null": {}, "sm80": {}, "sm90": {}}}))
    assert command("check", parts / SM90, "--except", "b")[::2] == (0, "")
    (parts / INDEX).write_text(text)
    errors = command("check", parts / SM90, "--except", "b").errors
    assert errors == [Coded("wrong-variant-index", parts / place, *values)]
    assert command("check", parts / WHOLE, "--except", "b").code == 0


def test_check_warns_of_a_variant_that_nothing_describes(tmp_path: Path, command: Command) -> None:
    parts = as_variants(tmp_path)
    (parts / INDEX).unlink()
    code, _out, err = command("check", parts / SM90, "--except", "b")
    assert code == 0
    assert err == (
        f"hatch-cubin: warning: {parts / SM90}: {INDEX} is not in the wheel's folder, "
        "but installers need this file to choose a variant [wrong-variant-index]\n"
    )
    (parts / INDEX).mkdir()
    unreadable = Coded("file-not-readable", parts / INDEX, "it is a folder")
    assert command("check", parts / SM90, "--except", "b").errors == [unreadable]


def test_inspect_shows_what_a_variant_has(tmp_path: Path, command: Command) -> None:
    parts = as_variants(tmp_path)
    code, out, _err = command("inspect", parts / SM90, "--json")
    (facts,) = json.loads(out)["results"][0]["bundles"]
    assert (code, facts["wheel_variant"]) == (0, "sm90")
    assert {(unit["module"], unit["arch"]) for unit in facts["units"]} == UNITS[SM90]
    assert (
        "  this wheel is the variant sm90: other variants have code for other GPUs\n"
        in command("inspect", parts / SM90)[1]
    )
    assert ".entry copy" in command("inspect", parts / NULL, "--ptx", "copy")[1]
    assert command("inspect", parts / NULL, "--ptx", "a")[0] == 1


@FORMS
def test_a_variant_alone_is_not_unpacked(tmp_path: Path, command: Command, files: dict[str, bytes]) -> None:
    parts = as_variants(tmp_path, files)
    values = (
        "is the wheel variant sm90, which has only",
        "hint: unpack the complete wheel from which the variant was made",
    )
    errors = command("unpack", parts / SM90, "--into", tmp_path / "out").errors
    assert errors == [Coded("already-split", f"{parts / SM90}/demo/_cubins", *values)]


def test_a_budget_is_of_each_variant(tmp_path: Path, command: Command) -> None:
    parts = as_variants(tmp_path)
    code, _out, err = command("check", parts / SM90, "--except", "b", "--max-size", "20 KB")
    assert code == 1
    assert "but max-size allows only" in err
    assert "leaving out sm_80" not in err
