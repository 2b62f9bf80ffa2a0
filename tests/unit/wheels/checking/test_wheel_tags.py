"""What a wheel's name and its metadata promise has to fit: each other, and the platform of its kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.wheels.checking.wheel_tags import requirement_warnings, tag_problems, tag_warnings
from hatch_cubin.wheels.reading.bundles import open_wheel
from hatch_cubin.wheels.splitting.variant_index import index_problems, index_warnings
from tests.cubins import cubin, inside, make_wheel
from tests.helpers import Coded, bundle, made, wheel_files, write_tree
from tests.sample_wheels import INFO, METADATA, whole_wheel


def files(data_model: str = "lp64") -> dict[str, bytes]:
    return bundle(made("k", data=cubin("k")), data_model=data_model)


def problems(place: Path) -> list[str]:
    with open_wheel(str(place)) as opened:
        return [problem.with_code().replace(f"{place}", "W") for problem in tag_problems(opened)]


def warnings(place: Path) -> list[str]:
    with open_wheel(str(place)) as opened:
        return [problem.with_code() for problem in tag_warnings(opened)]


@pytest.mark.parametrize("tag", ["py3-none-any", "cp312-cp312-manylinux_2_28_x86_64"])
def test_a_wheel_of_linux(tmp_path: Path, tag: str) -> None:
    wheel = whole_wheel(tmp_path, files(), tag)
    assert (problems(wheel), warnings(wheel)) == ([], [])


def test_a_wheel_of_windows(tmp_path: Path) -> None:
    assert problems(whole_wheel(tmp_path, files("llp64"), "py3-none-win_amd64")) == []


@pytest.mark.parametrize(
    ("model", "tag"), [("llp64", "py3-none-any"), ("lp64", "py3-none-win_amd64")], ids=["windows", "linux"]
)
def test_kernels_of_another_platform(tmp_path: Path, model: str, tag: str) -> None:
    platform = tag.rpartition("-")[2]
    assert "".join(problems(whole_wheel(tmp_path, files(model), tag))) == (
        f"W: the kernels use the C type sizes of {model}, but {platform} has other sizes "
        "[wrong-platform]\n"
        "  hint: only a wheel that was built on Windows can have the platform tag win_amd64"
    )


def test_each_platform_of_a_name_is_looked_at(tmp_path: Path) -> None:
    both = {"WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\nTag: py3-none-win_amd64\n"}
    assert problems(whole_wheel(tmp_path, files(), "py3-none-any.win_amd64", **both)) == [
        Coded("wrong-platform", "W", "lp64", "win_amd64")
    ]


def test_several_tags_in_one_name_are_all_of_them(tmp_path: Path) -> None:
    said = b"Wheel-Version: 1.0\r\nTag: cp311-none-any\r\nTag: py3-none-any\r\n"
    assert problems(whole_wheel(tmp_path, files(), "py3.cp311-none-any", WHEEL=said)) == []


@pytest.mark.parametrize(
    ("said", "shown"), [(b"Tag: cp311-none-any\n", "cp311-none-any"), (b"Root-Is-Purelib: true\n", "no tag")]
)
def test_a_wheel_that_was_renamed(tmp_path: Path, said: bytes, shown: str) -> None:
    assert problems(whole_wheel(tmp_path, files(), WHEEL=b"Wheel-Version: 1.0\n" + said)) == [
        f"W/{INFO}/WHEEL: says {shown}, but the wheel's name says py3-none-any [wrong-tags]"
    ]


@pytest.mark.parametrize("release", ["demo-2.0", "other-1.0"])
def test_a_wheel_that_is_named_as_another_release(tmp_path: Path, release: str) -> None:
    wheel = whole_wheel(tmp_path, files())
    assert problems(wheel.rename(tmp_path / f"{release}-py3-none-any.whl")) == [
        Coded(
            "wheel-renamed", "W", f"contains {INFO}, but the wheel's name says {release}", "installers refuse"
        )
    ]


@pytest.mark.parametrize("name", ["Demo-1.0-py3-none-any.whl", "demo-1.0-1-py3-none-any.whl"])
def test_another_spelling_or_a_build_number_is_the_same_release(tmp_path: Path, name: str) -> None:
    assert problems(whole_wheel(tmp_path, files()).rename(tmp_path / name)) == []


def test_a_name_that_installers_do_not_know(tmp_path: Path) -> None:
    wheel = whole_wheel(tmp_path, files())
    (problem,) = problems(wheel.rename(tmp_path / "demo.whl").resolve())
    assert problem == Coded("wheel-misnamed", "W", "NAME-VERSION-PYTHON-ABI-PLATFORM.whl")


@pytest.mark.parametrize("part", ["cu130", "local", "sm90"])
@pytest.mark.parametrize("tag", ["py3-none-any", "cp312-abi3-win_amd64", "cp312-cp312-manylinux_2_28_x86_64"])
def test_a_part_of_a_name_that_is_not_a_build_number_is_one_problem(
    tmp_path: Path, tag: str, part: str
) -> None:
    wheel = whole_wheel(tmp_path, files(), tag)
    renamed = wheel.rename(tmp_path / f"demo-1.0-{part}-{tag}.whl")
    assert problems(renamed) == [Coded("wheel-misnamed", "W", repr(part), wheel.name)]
    with open_wheel(str(renamed)) as opened:
        assert [*index_problems(opened), *index_warnings(opened)] == []


def test_a_wheel_without_the_file_that_makes_it_one(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "demo-1.0-py3-none-any.whl", inside("demo/_cubins", files()))
    assert problems(wheel) == [Coded("metadata-not-once", "W", "has 0 .dist-info/WHEEL")]


def test_damaged_metadata_is_told_by_what_proves_it(tmp_path: Path) -> None:
    wheel, name = whole_wheel(tmp_path, files()), f"{INFO}/WHEEL".encode()
    data = bytearray(wheel.read_bytes())
    at = data.index(name) + len(name)
    data[at : at + 2] = b"\xff\xff"  # which no packed file begins with
    wheel.write_bytes(data)
    assert problems(wheel) == []


def test_a_manifest_that_cannot_be_read_is_told_by_what_proves_it(tmp_path: Path) -> None:
    said = {f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n", f"{INFO}/METADATA": METADATA}
    members = inside("demo/_cubins", {"manifest.json": b'{"format":99}'})
    wheel = make_wheel(tmp_path / "demo-1.0-py3-none-any.whl", members | said)
    assert problems(wheel) == []


def test_a_tag_that_pypi_refuses(tmp_path: Path) -> None:
    wheel = whole_wheel(tmp_path, files(), "cp312-cp312-linux_x86_64")
    assert problems(wheel) == []
    assert warnings(wheel) == [Coded("linux-tag", wheel)]


def test_a_folder_has_no_tags(tmp_path: Path) -> None:
    place = write_tree(tmp_path / "_cubins", files("llp64"))
    assert (problems(place), warnings(place)) == ([], [])


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        (b"Metadata-Version: 2.1\nName: demo\nVersion: 2.0\n", ["Version: 2.0,", " 1.0"]),
        (b"Metadata-Version: 2.1\r\nName: other\r\nVersion: 1.0\r\n", ["Name: other,", " demo"]),
        (b"Metadata-Version: 2.1\nName: demo\n\nVersion: 1.0\n", ["Version: nothing,", " 1.0"]),
        (METADATA + b"Version: 2.0\n", ["Version: 1.0, 2.0,", " 1.0"]),
    ],
    ids=["version", "name", "in the description", "twice"],
)
def test_metadata_of_another_release(tmp_path: Path, metadata: bytes, said: list[str]) -> None:
    wheel = whole_wheel(tmp_path, files(), METADATA=metadata)
    assert problems(wheel) == [Coded("wheel-renamed", f"W/{INFO}/METADATA", *said)]


@pytest.mark.parametrize("metadata", [b"name: Demo\nVERSION: 1.0 \n\nName: other\n", METADATA])
def test_the_same_release_spelled_otherwise(tmp_path: Path, metadata: bytes) -> None:
    assert problems(whole_wheel(tmp_path, files(), METADATA=metadata)) == []


def test_folders_of_installers_that_are_another_projects(tmp_path: Path) -> None:
    more = {"other-1.0.dist-info/METADATA": METADATA, "demo-2.0.data/purelib/x.py": b"", "demo/a.data/x": b""}
    wheel = whole_wheel(tmp_path, files())
    assert problems(make_wheel(wheel, wheel_files(wheel) | more)) == [
        Coded("foreign-metadata", f"W/{each}", "demo-1.0", "only its own .dist-info folder")
        for each in ("demo-2.0.data", "other-1.0.dist-info")
    ]


@pytest.mark.parametrize(("value", "told"), [("true", False), ("False", False), ("yes", True)])
def test_whether_the_root_is_pure_has_to_be_said_plainly(tmp_path: Path, value: str, *, told: bool) -> None:
    said = f"Wheel-Version: 1.0\nRoot-Is-Purelib: {value}\nTag: py3-none-any\n".encode()
    problem = Coded("wrong-tags", f"W/{INFO}/WHEEL", f"Root-Is-Purelib: {value},")
    assert problems(whole_wheel(tmp_path, files(), WHEEL=said)) == [problem] * told


@pytest.mark.parametrize(
    "line",
    [
        "Wheel-Version: 1.0",
        "Wheel-Version:1.9",
        "Wheel-Version: 1.0.0 \r",
        "Wheel-Version: 1.0\nWheel-Version: 9.0",
    ],
)
def test_a_version_of_the_format_that_installers_accept(tmp_path: Path, line: str) -> None:
    assert problems(whole_wheel(tmp_path, files(), WHEEL=f"{line}\nTag: py3-none-any\n".encode())) == []


# For each of these files, pip or uv refuses the wheel.
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Wheel-Version: 9.0\nTag: py3-none-any\n", "Wheel-Version: 9.0,"),
        ("Wheel-Version: 2.0\nWheel-Version: 1.0\nTag: py3-none-any\n", "Wheel-Version: 2.0,"),
        ("Wheel-Version: 0.9\nTag: py3-none-any\n", "Wheel-Version: 0.9,"),
        ("Wheel-Version: 1\nTag: py3-none-any\n", "Wheel-Version: 1,"),
        ("Wheel-Version: 1.x\nTag: py3-none-any\n", "Wheel-Version: 1.x,"),
        ("Wheel-Version:\nTag: py3-none-any\n", "Wheel-Version: ,"),
        ("Tag: py3-none-any\n", "no line Wheel-Version"),
        ("wheel-version: 1.0\nTag: py3-none-any\n", "no line Wheel-Version"),
        ("Tag: py3-none-any\n\nWheel-Version: 1.0\n", "no line Wheel-Version"),
    ],
)
def test_a_version_of_the_format_that_installers_refuse(tmp_path: Path, text: str, said: str) -> None:
    wheel = whole_wheel(tmp_path, files(), WHEEL=text.encode())
    assert problems(wheel) == [Coded("wrong-tags", f"W/{INFO}/WHEEL", said)]


def test_a_wheel_without_metadata(tmp_path: Path) -> None:
    wheel = whole_wheel(tmp_path, files())
    bare = {name: data for name, data in wheel_files(wheel).items() if not name.endswith("METADATA")}
    assert problems(make_wheel(wheel, bare)) == [Coded("file-missing", f"W/{INFO}/METADATA")]


@pytest.mark.parametrize(
    ("requirement", "warned"),
    [
        ("hatch-cubin", True),
        ("Hatch_Cubin[cli]>=0.1 ; python_version >= '3.10'", True),
        ("hatch-cubin ; extra == 'test'", False),
        ("hatch-cubin-extras", False),
        ("my-hatch-cubin", False),
    ],
)
def test_a_wheel_that_requires_hatch_cubin(tmp_path: Path, requirement: str, *, warned: bool) -> None:
    metadata = METADATA + f"Requires-Dist: {requirement}\n\nRequires-Dist: hatch-cubin\n".encode()
    wheel = whole_wheel(tmp_path, files(), METADATA=metadata)
    with open_wheel(str(wheel)) as opened:
        found = [each.with_code() for each in requirement_warnings(opened)]
    assert found == [Coded("required-at-run-time", f"{wheel}/{INFO}/METADATA")] * warned


def test_a_folder_requires_nothing(tmp_path: Path) -> None:
    write_tree(tmp_path, files())
    with open_wheel(str(tmp_path)) as opened:
        assert [*requirement_warnings(opened)] == []
