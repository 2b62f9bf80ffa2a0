"""`verify`: every way in which a wheel is not what was built, each with its sentence, all at once.

What finds them is in the room `wheels`; it is asked through the verb, as people see it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin import __version__
from hatch_cubin.bundle import layout, manifest, sbom
from hatch_cubin.bundle.kernel_parameters import signature
from hatch_cubin.bundle.stub import stub
from hatch_cubin.common import read_limits
from hatch_cubin.cubin.elf import read_resources
from hatch_cubin.cubin.kernel_names import demangle
from hatch_cubin.errors import Location, problem
from hatch_cubin.project.source_roots import ProjectTree
from hatch_cubin.wheels.checking import loader_releases
from tests.command_line import Command
from tests.cubins import FUNC, KERNEL, bill_for, cubin, elf, in_wheel, inside, make_wheel
from tests.helpers import COPY_PTX, Coded, bundle, made, sha256, write_tree
from tests.special_files import a_pipe
from tests.unit.cubin.test_target import of_13

Files = Mapping[str, bytes]

CODE, TEXT = cubin("k"), COPY_PTX.encode()
FILES = bundle(
    made("k", "sm_90", data=CODE),
    made("copy", "compute_80", {"copy": "copy"}, data=TEXT, variant={"N": "1"}),
    folder="demo/_cubins",
)
INFO = "demo-1.0.dist-info"
BILL = {f"{INFO}/sboms/{sbom.NAME}": bill_for(FILES)}
OURS = f"hatch-cubin {__version__}"
INIT, OTHER = b"x = 1\n", b"x = 2\n"


def digest_of(data: bytes, algorithm: str = "sha256") -> str:
    """Return a digest as RECORD has it."""
    return base64.urlsafe_b64encode(hashlib.new(algorithm, data).digest()).rstrip(b"=").decode()


def line_of(name: str, data: bytes, algorithm: str = "sha256") -> str:
    return f"{name},{algorithm}={digest_of(data, algorithm)},{len(data)}\n"


def recorded(files: Files, algorithm: str = "sha256") -> dict[str, bytes]:
    """Return a wheel's files with the RECORD that fits them."""
    record = "".join(line_of(name, data, algorithm) for name, data in files.items())
    return {**files, f"{INFO}/RECORD": f"{record}{INFO}/RECORD,,\n".encode()}


def wheel_of(root: Path, files: Files) -> Path:
    """Return a wheel with a bundle in `demo`, its bill of materials and its RECORD."""
    root.mkdir(exist_ok=True)
    inside_it = {**inside("demo/_cubins", files), **BILL}
    return make_wheel(root / "demo-1.0-py3-none-any.whl", recorded(inside_it))


class Answer:
    """How `verify` ended, and what it printed: errors by their places inside the wheel."""

    def __init__(self, command: Command, *arguments: object) -> None:
        self.code, self.out, self.err = command("verify", *arguments)
        heads = re.findall(r"^hatch-cubin: error: (.*)", self.err, re.MULTILINE)
        self.errors = [in_wheel(str(arguments[0]), head) for head in heads]


def test_a_sound_wheel(tmp_path: Path, command: Command) -> None:
    answer = Answer(command, wheel := wheel_of(tmp_path, FILES))
    said = f"{wheel}/demo/_cubins: all 8 files agree with the manifest; the loader is from {OURS}\n"
    assert (answer.code, answer.out, answer.err) == (0, said, "")


def test_the_facts(tmp_path: Path, command: Command) -> None:
    wheel = wheel_of(tmp_path, {**FILES, "more": b""})
    answer = Answer(command, wheel, "--json")
    assert answer.code == 1
    what = "does not belong to the bundle: the manifest does not list this file"
    error = problem("file-not-listed", what, Location(f"{wheel}/demo/_cubins/more"))
    result = {"named": str(wheel), "path": str(wheel), "bundles": ["demo/_cubins"], "ok": False}
    facts = {"format": 1, "verb": "verify", "ok": False, "results": [result], "errors": [error.facts()]}
    assert json.loads(answer.out) == facts


def test_a_wheel_without_kernels_says_so(tmp_path: Path, command: Command) -> None:
    answer = Answer(command, write_tree(tmp_path / "_cubins", bundle(skipped=True)))
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.endswith("; no kernels, because HATCH_CUBIN_SKIP was set in the build\n")


def test_an_editable_install_may_have_its_notes_beside_and_a_wheel_may_not(
    tmp_path: Path, command: Command
) -> None:
    notes = layout.describe_editable(
        ProjectTree(tmp_path), "demo/_cubins", layout.EditableInputs([]), layout.HATCH_REBUILD
    )
    assert Answer(command, write_tree(tmp_path / "_cubins", {**FILES, **notes})).code == 0
    assert Answer(command, wheel_of(tmp_path, {**FILES, **notes})).errors == [
        Coded("file-not-listed", f"demo/_cubins/{name}") for name in ("_editable.py", "editable.json")
    ]


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


OTHER_KERNEL = cubin("other")
FOR_80 = bytearray(CODE)
FOR_80[8], FOR_80[49] = 8, 80
RELOCATABLE = elf(("k", FUNC, KERNEL, 7), kind=1)


def files_with(*built: layout.BuiltUnit, **header: Any) -> dict[str, bytes]:
    return bundle(*built, folder="demo/_cubins", **header)


def without(name: str) -> dict[str, bytes]:
    return {each: data for each, data in FILES.items() if each != name}


def rewritten(**entry: Any) -> dict[str, bytes]:
    """Return a bundle whose manifest says something else of `k`, with checks that hold."""
    fields = json.loads(FILES["manifest.json"])
    del fields["check"]
    modules = fields.pop("modules")
    for module in modules.values():
        del module["check"]
    modules["k"]["entries"][0].update(entry)
    lines = (manifest.module_line(*each) for each in modules.items())
    pieces = manifest.write_manifest(fields, fields.pop("kernels"), lines)
    return {**FILES, "manifest.json": b"".join(pieces)}


def unmatched(errors: Sequence[str], expected: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the errors that were not expected, and the expected ones that are missing.

    An expected error is its place, its code and words of its text, as in `keys.json: keys-differ k sm_80`.
    """
    more, left = [], [*expected]
    for error in errors:
        fitting = (each for each in left if _fits(error, *each.split(": ", 1)))
        if (fit := next(fitting, None)) is None:
            more.append(error)
        else:
            left.remove(fit)
    return more, left


def _fits(error: str, place: str, code_and_words: str) -> bool:
    code, *words = code_and_words.split()
    text = error.removeprefix(f"{place}: ")
    return text != error and text.endswith(f" [{code}]") and {*words} <= {*re.findall(r"[^\s,;:]+", text)}


WRONG_BUNDLES = {
    "a bit of a cubin": (
        {**FILES, "k.sm_90.cubin": flipped(CODE)},
        [f"k.sm_90.cubin: file-changed {sha256(flipped(CODE))} {sha256(CODE)}"],
    ),
    "a byte more": (
        {**FILES, "k.sm_90.cubin": CODE + b"x"},
        [f"k.sm_90.cubin: file-changed {len(CODE) + 1} {len(CODE)}"],
    ),
    "a cubin is gone": (without("k.sm_90.cubin"), ["k.sm_90.cubin: file-missing"]),
    "the keys are gone": (without("keys.json"), ["keys.json: file-missing"]),
    "the manifest is gone": (without("manifest.json"), ["manifest.json: file-missing"]),
    "the loader is gone": (without("__init__.py"), ["__init__.py: file-missing"]),
    "another loader": (
        {**FILES, "__init__.py": FILES["__init__.py"] + b"\n", "__init__.pyi": b""},
        [
            f"__init__.py: not-as-written {__version__}",
            f"__init__.pyi: not-as-written {__version__}",
        ],
    ),
    "an edited manifest": (
        {**FILES, "manifest.json": FILES["manifest.json"].replace(b"lp64", b"lp65")},
        ["manifest.json: not-as-written line 1"],
    ),
    "no manifest at all": (
        {**FILES, "manifest.json": b"{}"},
        ["manifest.json: manifest-unreadable 'format'"],
    ),
    "edited keys": (
        {**FILES, "keys.json": FILES["keys.json"].replace(b'"k":', b'"l":')},
        ["keys.json: not-as-written line 1"],
    ),
    "keys of another build": (
        {**FILES, "keys.json": files_with(made("k", "sm_80"))["keys.json"]},
        [
            "keys.json: keys-differ copy[N=1] compute_80",
            "keys.json: keys-differ k sm_80",
            "keys.json: keys-differ k sm_90",
        ],
    ),
    "another kernel, well recorded": (
        files_with(made("k", data=OTHER_KERNEL)),
        ["k.sm_90.cubin: wrong-kernels other k"],
    ),
    "another arch, well recorded": (
        files_with(made("k", data=bytes(FOR_80))),
        ["k.sm_90.cubin: wrong-arch sm_80 sm_90"],
    ),
    "code for one arch alone, under a plain name": (
        files_with(made("k", data=of_13(90, "-arch sm_90a", kernel="k"))),
        ["k.sm_90.cubin: wrong-arch sm_90a sm_90"],
    ),
    "plain code, under a family's name": (
        files_with(made("k", "sm_100f", data=of_13(100, "-arch sm_100", kernel="k"))),
        ["k.sm_100f.cubin: wrong-arch sm_100 sm_100f"],
    ),
    "code of a newer CUDA than its driver": (
        files_with(made("k", data=of_13(90, "-arch sm_90", release="14.0", kernel="k"))),
        ["k.sm_90.cubin: wrong-driver 14000 13000"],
    ),
    "PTX for another arch": (
        files_with(made("copy", "compute_90", {"copy": "copy"}, data=TEXT)),
        ["copy.compute_90.ptx: wrong-arch PTX compute_80 compute_90"],
    ),
    "PTX for one arch alone": (
        files_with(made("copy", "compute_80", {"copy": "copy"}, data=TEXT.replace(b"sm_80", b"sm_100a"))),
        ["copy.compute_80.ptx: wrong-arch compute_100a compute_80"],
    ),
    "a cubin as PTX": (
        rewritten(arch="compute_90", kind="ptx"),
        [
            "k.sm_90.cubin: wrong-arch cubin PTX",
            "keys.json: keys-differ k sm_90",
            "keys.json: keys-differ k compute_90",
        ],
    ),
    "PTX as a cubin": (
        files_with(made("copy", "sm_80", {"copy": "copy"}, data=TEXT)),
        ["copy.sm_80.cubin: code-unreadable cubin"],
    ),
    "no final code": (
        files_with(made("k", data=RELOCATABLE)),
        ["k.sm_90.cubin: code-unreadable relocatable"],
    ),
    "no code at all": (files_with(made("k")), ["k.sm_90.cubin: code-unreadable cubin"]),
    "other PTX": (files_with(made("k", "compute_80", data=TEXT)), ["k.compute_80.ptx: wrong-kernels copy k"]),
    "other numbers": (
        rewritten(resources={"k": {**read_resources(CODE)["k"], "registers": 1}}),
        ["k.sm_90.cubin: wrong-kernel-facts resources"],
    ),
    "other parameters": (
        rewritten(parameters={"k": [[0, 4]]}),
        [
            f"__init__.pyi: not-as-written {__version__}",
            "k.sm_90.cubin: wrong-kernel-facts parameters",
        ],
    ),
    "no parameters": (rewritten(parameters={"k": [[0]]}), ["manifest.json: manifest-unreadable [0]"]),
    "another driver": (rewritten(min_driver=12000), ["k.sm_90.cubin: wrong-driver 13000 12000"]),
    "another kind": (rewritten(kind="PTX"), ["k.sm_90.cubin: wrong-arch PTX"]),
    "a file outside": (
        rewritten(file="../k.cubin"),
        [
            "k.sm_90.cubin: file-not-listed",
            "manifest.json: unsafe-path '../k.cubin'",
        ],
    ),
    "all at once": (
        {**FILES, "k.sm_90.cubin": b"", "x/y": b"", "keys.json": b""},
        [
            f"k.sm_90.cubin: file-changed 0 {len(CODE)}",
            "keys.json: not-as-written JSON",
            "x/y: file-not-listed",
        ],
    ),
    "a tool whose version is a number": (
        files_with(made("k", data=CODE), toolchain={"nvrtc": 5}),
        ["manifest.json: manifest-unreadable 'nvrtc'"],
    ),
    "a text that should be a number": (
        rewritten(resources={"k": {"registers": "5"}}),
        ["manifest.json: manifest-unreadable 'registers'"],
    ),
    "numbers of a kernel that are no table": (
        rewritten(resources={"k": 5}),
        ["manifest.json: manifest-unreadable 'k'"],
    ),
}


@pytest.mark.parametrize(
    ("files", "expected"),
    WRONG_BUNDLES.values(),
    ids=WRONG_BUNDLES,
)
def test_what_is_wrong_with_a_bundle(
    tmp_path: Path, command: Command, files: Files, expected: list[str]
) -> None:
    wheel = wheel_of(tmp_path, files)
    answer = Answer(command, wheel)
    assert (answer.code, answer.out) == (1, "")
    assert unmatched(answer.errors, [f"demo/_cubins/{each}" for each in expected]) == ([], [])


CROWDED = b"[" + b"[]," * read_limits.PARTS + b"[]]"
MANY = f"is too large to read: it has more than {read_limits.PARTS} arrays and objects"


@pytest.mark.parametrize("name", ["manifest.json", "keys.json"])
@pytest.mark.parametrize("packed", [True, False], ids=["wheel", "folder"])
def test_json_that_would_fill_the_memory_is_not_read(
    tmp_path: Path, command: Command, name: str, *, packed: bool
) -> None:
    files = {**FILES, name: CROWDED}
    where = wheel_of(tmp_path, files) if packed else write_tree(tmp_path / "_cubins", files)
    answer = Answer(command, where)
    assert answer.code == 1
    assert [each for each in answer.errors if f"{name}: {MANY} [" in each] == answer.errors


NAMES = "the kernels in this file do not have the names that the manifest says"
TAKES = "the kernels in this file have other parameters than the manifest says"
T_INT, T_FLOAT = "_Z1tIiEvPT_", "_Z1tIfEvPT_"


def ptx_of(*symbols: str) -> bytes:
    """Return a PTX text with these kernels, each of which takes a pointer."""
    entries = (f".visible .entry {each}(.param .u64 {each}_0)\n{{ ret; }}\n" for each in {*symbols})
    kernels = "".join(sorted(entries))
    return f".version 8.0\n.target sm_80\n.address_size 64\n{kernels}".encode()


def named(kernels: Mapping[str, str]) -> dict[str, bytes]:
    """Return a bundle whose manifest gives the kernels of a PTX text these names."""
    return files_with(made("k", "compute_80", kernels, data=ptx_of(*kernels.values())))


@pytest.mark.parametrize(
    "kernels",
    [
        {"a": "b", "b": "a"},
        {"t<int>": T_FLOAT, "t<float>": T_INT},
        {"t<float>": T_INT},
        {"t<const float *>": "_Z1tIPKiEvPT_"},
        {"ns::t<5>": "_ZN2ns1tILi4EEEvPi"},
        {"t<float, 4u>": "_Z1tIfLi5EEvPT_"},
        {"b": "_Z1aPi", "a": "_Z1bPi"},
        {"a": "_Z1aPi", "_Z1aPi": "a"},
    ],
    ids=str,
)
def test_a_kernel_under_the_name_of_another_is_a_problem(
    tmp_path: Path, command: Command, kernels: dict[str, str]
) -> None:
    answer = Answer(command, wheel_of(tmp_path, named(kernels)))
    assert (answer.code, answer.errors) == (1, [f"demo/_cubins/k.compute_80.ptx: {NAMES} [wrong-kernels]"])


@pytest.mark.parametrize(
    "kernels",
    [
        {"KERNEL": "a", "ns::b": "b"},
        {"t<real>": T_FLOAT, "t<unsigned>": "_Z1tIjEvPT_", "t<int>": T_INT},
        {"ns::t<(4 > 3)>": "_ZN2ns1tILi1EEEvPi", "ns::t<010>": "_ZN2ns1tILi8EEEvPi"},
        {"t<float, 4>": "_Z1tIfLj4EEvPT_", "t<double>": "_Z1tIdLj4EEvPT_"},
        {"t<1>": "_Z1tILb1EEvPi"},
        {"t<real>": T_FLOAT, "NAME(float)": T_FLOAT, "t<float>": T_FLOAT, "t<int>": T_INT},
        {"_Z1oPi": "_Z1oPi", "_Z1oPf": "_Z1oPf"},
        {"t<int>": "_Z1tIiEvPT_", "_Z1tIiEvPPT_": "_Z1tIiEvPPT_"},
    ],
    ids=str,
)
def test_names_that_only_a_compiler_understands_are_none(
    tmp_path: Path, command: Command, kernels: dict[str, str]
) -> None:
    answer = Answer(command, wheel_of(tmp_path, named(kernels)))
    assert (answer.code, answer.errors) == (0, [])


@pytest.mark.parametrize(
    ("symbol", "parameters"),
    [
        (T_INT, [[0, 8, "float *"]]),
        (T_INT, [[0, 8]]),
        ("_Z1kPi", [[0, 8, "int"]]),
        ("k", [[0, 8, "int"]]),
    ],
)
def test_types_that_a_kernel_does_not_have_are_a_problem(
    tmp_path: Path,
    command: Command,
    symbol: str,
    parameters: list[list[object]],
) -> None:
    name = demangle(symbol)
    files = named({name: symbol})
    fields = json.loads(files["manifest.json"])
    modules, index = fields.pop("modules"), fields.pop("kernels")
    del fields["check"], modules["k"]["check"]
    modules["k"]["parameters"] = {name: parameters}
    lines = (manifest.module_line(*each) for each in modules.items())
    files["manifest.json"] = b"".join(manifest.write_manifest(fields, index, lines))
    files["__init__.pyi"] = stub({name}, {"k"}, {signature(name, parameters)})
    answer = Answer(command, wheel_of(tmp_path, files))
    assert (answer.code, answer.errors) == (
        1,
        [f"demo/_cubins/k.compute_80.ptx: {TAKES} [wrong-kernel-facts]"],
    )


# --- the loader, whoever says that he made it ----------------------------------------------------

OLD = b"# the loader of 0.0.1"
RELEASED = {"0.0.1": {"__init__.py": sha256(OLD), "_editable.py": sha256(b"# its notes")}}


def of_version(monkeypatch: pytest.MonkeyPatch, version: str, loader: bytes, **generator: str) -> Files:
    """Return a bundle whose manifest names this version, all of whose checks hold."""
    with monkeypatch.context() as patch:
        patch.setattr(layout, "GENERATOR", {"name": "hatch-cubin", "version": version, **generator})
        return {**files_with(made("k", data=CODE)), "__init__.py": loader}


@pytest.fixture
def released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader_releases, "RELEASED", RELEASED)


@pytest.mark.usefixtures("released")
def test_the_loader_of_an_older_release_is_known_by_its_digest(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {**of_version(monkeypatch, "0.0.1", OLD), "_editable.py": b"# its notes"}
    answer = Answer(command, write_tree(tmp_path / "_cubins", files))
    assert (answer.code, answer.errors) == (0, [])
    assert answer.out.endswith(
        "; the loader is from hatch-cubin 0.0.1, the type stub __init__.pyi was not compared\n"
    )


@pytest.mark.parametrize(
    ("version", "sentence"),
    [
        ("99.0", "was made by hatch-cubin 99.0, which is newer than this version [newer-release]"),
        (
            "evil",
            (
                f"names hatch-cubin evil as the builder of the wheel, but {OURS} does not "
                f"know evil [unknown-release]"
            ),
        ),
    ],
)
def test_the_sentence_of_each_code_about_releases(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, version: str, sentence: str
) -> None:
    folder = write_tree(tmp_path / "_cubins", of_version(monkeypatch, version, OLD))
    hint = (
        "upgrade hatch-cubin"
        if version == "99.0"
        else f"if hatch-cubin {version} exists, use this version to verify the wheel"
    )
    answer = Answer(command, folder)
    assert answer.errors == [f"{folder.as_posix()}/manifest.json: {sentence}"]
    assert f"  hint: {hint}" in answer.err


@pytest.mark.usefixtures("released")
@pytest.mark.parametrize(
    ("version", "code"),
    [
        *((version, "newer-release") for version in (f"{__version__}.1", "99rc1", "999999999999.0")),
        *((version, "unknown-release") for version in ("0.0.2", "0.0.1 ", "", "\u0669.0")),
        *((f"{__version__}{label}", "unknown-release") for label in ("rc1", ".post1", "+local")),
    ],
)
def test_no_version_that_is_claimed_lets_a_loader_pass(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, version: str, code: str
) -> None:
    """Neither one with code appended nor this version's own, which may say what it likes of the rest."""
    for loader in (FILES["__init__.py"] + b"\nimport evil\n", FILES["__init__.py"], OLD):
        folder = write_tree(tmp_path / "_cubins", of_version(monkeypatch, version, loader))
        answer = Answer(command, folder)
        place = f"{folder.as_posix()}/manifest.json"
        assert answer.code == 1
        assert answer.errors == [Coded(code, place, version)]


@pytest.mark.usefixtures("released")
def test_a_release_with_the_loader_of_another_is_a_problem(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version, loader in (("0.0.1", FILES["__init__.py"]), (__version__, OLD)):
        folder = write_tree(tmp_path / "_cubins", of_version(monkeypatch, version, loader))
        expected = (
            f"{folder.as_posix()}/__init__.py: differs from the file that hatch-cubin "
            f"{version} writes [not-as-written]"
        )
        assert Answer(command, folder).errors == [expected]


def test_another_generator_is_none_that_is_known(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = of_version(monkeypatch, __version__, b"evil", name="hatch-cubin2")
    unknown = Coded(
        "unknown-release", "demo/_cubins/manifest.json", "names hatch-cubin2 as the builder of the wheel"
    )
    assert unknown in Answer(command, wheel_of(tmp_path, files)).errors


# --- RECORD ---------------------------------------------------------------------------------------

GOOD = recorded({**inside("demo/_cubins", FILES), **BILL, "demo/__init__.py": INIT})


@pytest.mark.parametrize("algorithm", ["sha256", "sha384", "sha512"])
def test_every_digest_that_record_may_have_is_read(tmp_path: Path, command: Command, algorithm: str) -> None:
    files = recorded({**inside("demo/_cubins", FILES), **BILL}, algorithm)
    signed = {**files, f"{INFO}/RECORD.jws": b"signed"}
    assert Answer(command, make_wheel(tmp_path / "w.whl", signed)).errors == []


RECORD = GOOD[f"{INFO}/RECORD"].decode()
OWN = line_of("demo/__init__.py", INIT)


WRONG_WHEELS = {
    "an edited file": (
        {**GOOD, "demo/__init__.py": OTHER},
        [f"demo/__init__.py: file-changed {digest_of(OTHER)} {digest_of(INIT)}"],
    ),
    "a file more": ({**GOOD, "demo/more.py": b""}, ["demo/more.py: not-in-record"]),
    "no table": (
        {**GOOD, f"{INFO}/RECORD": b"x" * (1 << 18)},
        [f"{INFO}/RECORD: metadata-unreadable table (131072)"],
    ),
    "a file less": (
        {name: data for name, data in GOOD.items() if name != "demo/__init__.py"},
        ["demo/__init__.py: file-missing"],
    ),
    "no digest": (
        {**GOOD, f"{INFO}/RECORD": RECORD.replace(OWN, "demo/__init__.py,,\n").encode()},
        ["demo/__init__.py: not-in-record digest"],
    ),
    "a name alone": (
        {**GOOD, f"{INFO}/RECORD": RECORD.replace(OWN, "demo/__init__.py\n").encode()},
        ["demo/__init__.py: not-in-record digest"],
    ),
    "another size": (
        {**GOOD, f"{INFO}/RECORD": RECORD.replace(OWN, OWN.replace(",6", ",7")).encode()},
        ["demo/__init__.py: file-changed 6 7"],
    ),
    "no size": (
        {**GOOD, f"{INFO}/RECORD": RECORD.replace(OWN, OWN.replace(",6", ",")).encode()},
        ["demo/__init__.py: file-changed 6 nothing"],
    ),
    "no RECORD": (
        {name: data for name, data in GOOD.items() if "RECORD" not in name},
        ["W: metadata-not-once 0 .dist-info/RECORD"],
    ),
    "a line twice": (
        {**GOOD, f"{INFO}/RECORD": f"{RECORD}{OWN}".encode()},
        ["demo/__init__.py: file-repeated 2 RECORD"],
    ),
    "two RECORDs": (
        {**GOOD, "other-1.0.dist-info/RECORD": b""},
        ["W: metadata-not-once 2 .dist-info/RECORD"],
    ),
    "no text": ({**GOOD, f"{INFO}/RECORD": b"\xff"}, [f"{INFO}/RECORD: metadata-unreadable UTF-8"]),
    "names that lead away": (
        recorded({**inside("demo/_cubins", FILES), **BILL, "../evil.py": b"", "/etc/evil": b""}),
        ["../evil.py: unsafe-path outside", "/etc/evil: unsafe-path outside"],
    ),
    "names that are one on some file systems": (
        recorded({**inside("demo/_cubins", FILES), **BILL, "demo/_Cubins/k": b"", "demo/_cubins. /k": b""}),
        [f"demo/{alias}/k: unsafe-path case" for alias in ("_Cubins", "_cubins. ")],
    ),
    "a file that is installed over another": (
        recorded(
            {**inside("demo/_cubins", FILES), **BILL, "demo/a": b"", "demo-1.0.data/purelib/demo/a": b""}
        ),
        ["demo/a: file-repeated 2 wheel"],
    ),
}


@pytest.mark.parametrize(
    ("files", "expected"),
    WRONG_WHEELS.values(),
    ids=WRONG_WHEELS,
)
def test_what_is_wrong_with_a_wheel(
    tmp_path: Path, command: Command, files: Files, expected: list[str]
) -> None:
    errors = Answer(command, make_wheel(tmp_path / "w.whl", files)).errors
    assert unmatched([error.replace(f"{tmp_path}/w.whl: ", "W: ") for error in errors], expected) == ([], [])


def test_a_file_that_is_there_twice(tmp_path: Path, command: Command) -> None:
    wheel = make_wheel(tmp_path / "w.whl", GOOD)
    with zipfile.ZipFile(wheel, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("demo/__init__.py", INIT)
    assert Answer(command, wheel).errors == [Coded("file-repeated", "demo/__init__.py", " 2 ")]


@pytest.mark.parametrize("name", ["demo/__init__.py", f"{INFO}/RECORD"])
def test_a_damaged_file_of_the_archive(tmp_path: Path, command: Command, name: str) -> None:
    wheel = make_wheel(tmp_path / "w.whl", GOOD)
    data = bytearray(wheel.read_bytes())
    data[data.index(name.encode()) + len(name) + 1] ^= 0xFF
    wheel.write_bytes(data)
    assert Answer(command, wheel).errors == [Coded("file-damaged", name, "cannot be unpacked: ")]


@pytest.mark.linux
@pytest.mark.usefixtures("no_endless_wait")
@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("k.sm_90.cubin", "is a pipe [not-a-regular-file]"),
        ("keys.json", "is a pipe [not-a-regular-file]"),
        *((name, "must be a file, but is a pipe") for name in (sbom.NAME, "_editable.py", "stray")),
    ],
)
def test_a_pipe_in_a_folder_is_told_as_one(tmp_path: Path, command: Command, name: str, what: str) -> None:
    place = write_tree(tmp_path / "demo/_cubins", FILES)
    (place / name).unlink(missing_ok=True)
    a_pipe(place / name)
    assert Answer(command, place).errors[0] == Coded("not-a-regular-file", place / name, what)
