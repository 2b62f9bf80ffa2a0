"""`inspect`: what is in a bundle, in facts, in lines and on a page.

What reads bundles is in the room `wheels`; it is asked through the verb, as people see it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin import __version__
from hatch_cubin.building import pipeline
from hatch_cubin.cli.main import main
from hatch_cubin.cubin.symbol_origins import digests_by_part
from hatch_cubin.wheels.reading.bundles import open_wheel
from tests.command_line import Command
from tests.cubins import FUNC, KERNEL, PTX, cubin, elf, facts_of, inside, make_wheel
from tests.helpers import SAXPY, Coded, bundle, made, make_project, sha256, write_tree
from tests.special_files import a_pipe
from tests.unit.wheels.reading.test_page import Page


def inspect_json(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Any:
    assert main(["inspect", "--json", *map(str, arguments)]) == 0
    return json.loads(capsys.readouterr().out)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["inspect", *map(str, arguments)])
    assert ended.value.code == 1
    return capsys.readouterr().err


def test_the_facts_in_full(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = cubin("_Z1fv")
    files = bundle(
        made("a", "sm_80", {"f": "_Z1fv"}, data=code),
        made("a", "sm_100", {"f": "_Z1fv"}, data=code),
        made("copy", "compute_80", {"copy": "copy"}, data=PTX),
    )
    wheel = make_wheel(tmp_path / "w.whl", inside("demo/_cubins", files))
    with open_wheel(str(wheel)) as opened:
        packed = opened.bundles[0].packed_sizes
    uses = {"registers": 40, "shared": 0, "stack": 0, "spills": 0}
    kernel = {
        "name": "f",
        "symbol": "_Z1fv",
        **uses,
        "signature": "f()",
        "tile": False,
        "parameters": [],
        "limits": {},
    }
    unit: dict[str, Any] = {
        "module": "a",
        "source": "demo/a.cu",
        "variant": {},
        "arch": "sm_80",
        "kind": "cubin",
        "file": "a.sm_80.cubin",
        "offset": None,
        "bytes": len(code),
        "packed": packed["a.sm_80.cubin"],
        "min_driver": 13000,
        "kernels": [kernel],
        "digests": {"all": sha256(code), **digests_by_part(code)},
        "problem": None,
    }
    unknown = dict.fromkeys(("registers", "shared", "stack", "spills"))
    takes = {"parameters": [{"offset": 0, "size": 8, "type": None}], "limits": {}}
    text = {
        **unit,
        "module": "copy",
        "source": "demo/copy.cu",
        "arch": "compute_80",
        "kind": "ptx",
        "file": "copy.compute_80.ptx",
        "bytes": len(PTX),
        "packed": packed["copy.compute_80.ptx"],
        "min_driver": 11000,
        "kernels": [
            {
                "name": "copy",
                "symbol": "copy",
                **unknown,
                "signature": "copy(8 bytes)",
                "tile": False,
                **takes,
            }
        ],
        "digests": {"all": sha256(PTX), "text": sha256(PTX)},
    }
    expected = {
        "place": "demo/_cubins",
        "where": f"{wheel}/demo/_cubins",
        "format": 1,
        "generator": f"hatch-cubin {__version__}",
        "toolchain": {"nvrtc": "13.0.88"},
        "data_model": "lp64",
        "skipped": False,
        "wheel_variant": None,
        "min_driver": {"cubin": 13000, "ptx": 11000},
        "totals": {
            "modules": 2,
            "units": 3,
            "kernels": 2,
            "files": 2,
            "bytes": len(code) + len(PTX),
            "packed": (packed["a.sm_80.cubin"] or 0) + (packed["copy.compute_80.ptx"] or 0),
            "shared": len(code),
        },
        "archs": {"sm_80": len(code), "sm_100": len(code), "compute_80": len(PTX)},
        "modules": {"a": len(code), "copy": len(PTX)},
        "content": {
            "other": len(code) - 2 * 25 - len("_Z1fv"),
            "PTX": len(PTX),
            "symbol tables of the rest": 2 * 25 + len("_Z1fv"),
        },
        "packed": {
            "archs": {
                "sm_80": packed["a.sm_80.cubin"],
                "sm_100": packed["a.sm_80.cubin"],
                "compute_80": packed["copy.compute_80.ptx"],
            },
            "modules": {"a": packed["a.sm_80.cubin"], "copy": packed["copy.compute_80.ptx"]},
        },
        "largest": {"a.sm_80.cubin": len(code), "copy.compute_80.ptx": len(PTX)},
        "shared": [{"file": "a.sm_80.cubin", "bytes": len(code), "units": ["a for sm_80", "a for sm_100"]}],
        "units": [unit, {**unit, "arch": "sm_100"}, text],
    }
    assert inspect_json(capsys, wheel) == {
        "format": 1,
        "verb": "inspect",
        "results": [{"named": str(wheel), "path": str(wheel), "bundles": [expected]}],
        "errors": [],
    }


def test_the_lines_in_full(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = elf(
        ("f", FUNC, KERNEL, 7),
        ("_Z1gv", FUNC, KERNEL, 7),
        more=[(".nv.info", 0x70000000, b"".join(_registers(symbol, 30 + symbol) for symbol in (1, 2)), 0)],
    )
    files = bundle(
        made("a", "sm_80", {"f": "f", "g<1>": "_Z1gv"}, data=code),
        made("a", "sm_90", {"f": "f", "g<1>": "_Z1gv"}, data=code),
        made("copy", "compute_80", {"copy": "copy"}, data=PTX),
    )
    place = write_tree(tmp_path / "_cubins", files).as_posix()
    assert main(["inspect", place]) == 0
    assert capsys.readouterr().out.splitlines() == [
        place,
        f"  built by hatch-cubin {__version__}, NVRTC 13.0.88, lp64",
        "  every cubin loads with driver 13.0 or later",
        "  all PTX loads with driver 11.0 or later",
        "",
        "module  arch         size  registers  shared  stack  spills  kernel",
        "a       sm_80       370 B         31       0      0       0  f()",
        "                                  32       0      0       0  g<1>()",
        "a       sm_90       370 B         31       0      0       0  f()",
        "                                  32       0      0       0  g<1>()",
        "copy    compute_80   90 B          -       -      -       -  copy(8 bytes)",
        "",
        "sm_80       370 B  ########################",
        "sm_90       370 B  ########################",
        "compute_80   90 B  ######",
        "",
        "2 modules, 3 units, 3 kernels: 460 B in 2 files",
        "made of: other 63 %, PTX 20 %, symbol tables of the rest 18 %",
        "the largest: a.sm_80.cubin 370 B, copy.compute_80.ptx 90 B",
        "identical, stored once as a.sm_80.cubin: a for sm_80, a for sm_90",
    ]


def _registers(symbol: int, count: int) -> bytes:
    return bytes.fromhex("042f0800") + symbol.to_bytes(4, "little") + count.to_bytes(4, "little")


def test_a_module_of_a_call_is_shown_by_its_source(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"cupy:{'1' * 64}"
    folder = write_tree(tmp_path / "_cubins", bundle(made(name, source="demo/k.cu", data=cubin("f"))))
    assert main(["inspect", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "demo/k.cu" in shown
    assert name not in shown
    assert f'"{name}"' in json.dumps(inspect_json(capsys, folder))


def test_several_bundles_of_one_wheel_are_all_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = bundle(made("k", data=cubin("k")))
    wheel = make_wheel(tmp_path / "w.whl", inside("a/_cubins", files) | inside("b/_cubins", files))
    (result,) = inspect_json(capsys, wheel)["results"]
    assert [each["place"] for each in result["bundles"]] == ["a/_cubins", "b/_cubins"]


def test_a_bundle_without_kernels_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = write_tree(tmp_path / "_cubins", bundle(skipped=True))
    assert main(["inspect", str(place), "--html", str(tmp_path / "page.html")]) == 0
    said = "the bundle contains no kernels, because HATCH_CUBIN_SKIP was set in the build"
    assert capsys.readouterr().out.splitlines()[-1] == f"  {said}"
    assert said in (tmp_path / "page.html").read_text("utf-8")


def test_a_newer_manifest_asks_for_a_newer_hatch_cubin(tmp_path: Path, command: Command) -> None:
    place = write_tree(tmp_path / "_cubins", {"manifest.json": b'{"format":4}'})
    values = (
        "has format 4, ",
        "formats up to 3",
        "hint: a newer version of hatch-cubin built this wheel: upgrade hatch-cubin",
    )
    errors = command("inspect", place).errors
    assert errors == [Coded("manifest-unreadable", place / "manifest.json", *values)]


def test_a_bundle_whose_manifest_is_gone_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = write_tree(tmp_path / "_cubins", {"keys.json": b"{}"})
    assert (
        refusal(capsys, place)
        == f"hatch-cubin: error: {place.as_posix()}/manifest.json: is missing [file-missing]\n"
    )


def test_files_that_cannot_be_read_are_shown_and_are_problems(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    units = (made("absent"), made("bad", data=b"\x7fELF"), made("good", data=cubin("good")))
    files = bundle(*units)
    del files["absent.sm_90.cubin"]
    place = write_tree(tmp_path / "_cubins", files).as_posix()
    with pytest.raises(SystemExit):
        main(["inspect", place, "--html", str(tmp_path / "page.html")])
    output = capsys.readouterr()
    assert [" ".join(line.split()) for line in output.out.splitlines()[5:8]] == [
        "absent sm_90 0 B is missing",
        "bad sm_90 4 B is not a cubin",
        f"good sm_90 {len(cubin('good'))} B 40 0 0 0 good()",
    ]
    assert output.err.splitlines()[:2] == [
        f"hatch-cubin: error: {place}/absent.sm_90.cubin: is missing [code-unreadable]",
        f"hatch-cubin: error: {place}/bad.sm_90.cubin: is not a cubin [code-unreadable]",
    ]
    assert [row[2] for row in Page((tmp_path / "page.html").read_text("utf-8")).units] == [
        *("is missing", "is not a cubin", "good")
    ]


def test_a_unit_without_a_kernel_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = write_tree(tmp_path / "_cubins", bundle(made("k", data=elf())))
    assert main(["inspect", str(place)]) == 0
    assert "contains no kernel" in capsys.readouterr().out


def test_kernels_that_the_manifest_does_not_name_get_plain_names(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, bundle(made("k", "sm_90", {}, data=cubin("_ZN2ns1fEv"))))
    assert [kernel["name"] for kernel in facts["units"][0]["kernels"]] == ["ns::f"]


def test_names_cannot_steer_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = write_tree(
        tmp_path / "_cubins", bundle(made("k", "sm_90", {"\x1b[2J\u202e": "k"}, data=cubin("k")))
    )
    assert main(["inspect", str(place)]) == 0
    assert "  \\x1b[2J\\u202e()\n" in capsys.readouterr().out


@pytest.mark.nvrtc
def test_a_real_bundle_with_the_report_of_its_build(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = make_project(
        tmp_path,
        {"saxpy.cu": SAXPY},
        'archs = ["sm_80", "sm_90"]',
        HATCH_CUBIN_REPORT=str(tmp_path / "r.json"),
    )
    place = write_tree(tmp_path / "demo" / "_cubins", pipeline.build(project))
    asked = (place, "--html", tmp_path / "page.html", "--report", tmp_path / "r.json")
    assert inspect_json(capsys, *asked)["results"][0]["bundles"][0]["totals"]["units"] == 2
    rows = Page((tmp_path / "page.html").read_text("utf-8")).units
    assert [row[:3] for row in rows] == [["saxpy", "sm_80", "saxpy"], ["saxpy", "sm_90", "saxpy"]]
    assert all(re.fullmatch(r"\d+\.\d\d s", row[4]) for row in rows)


@pytest.mark.parametrize(
    ("report", "code", "what"),
    [
        (None, "file-not-readable", "cannot be read: No such file or directory"),
        ("[]", "not-a-build-report", ""),
        ('{"units":[{"module":"k"}]}', "not-a-build-report", ""),
        (
            '{"units":[{"module":"k","arch":"sm_90","bytes":1e999,"seconds":1,"state":"hit"}]}',
            "not-a-build-report",
            "",
        ),
        (
            '{"units":[]}',
            "report-of-other-build",
            "it lists a different size for k for sm_90",
        ),
        (
            '{"units":[{"module":"k","arch":"sm_90","bytes":1,"seconds":1,"state":"compiled"}]}',
            "report-of-other-build",
            "k for sm_90",
        ),
    ],
)
def test_a_report_that_does_not_fit_is_refused(
    tmp_path: Path, command: Command, report: str | None, code: str, what: str
) -> None:
    place = write_tree(tmp_path / "_cubins", bundle(made("k", data=cubin("k"))))
    path = tmp_path / "r.json"
    if report is not None:
        path.write_text(report)
    assert command("inspect", place, "--report", path).errors == [Coded(code, path, what)]


def test_a_report_in_which_all_were_hits_shows_no_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = cubin("k")
    place = write_tree(tmp_path / "_cubins", bundle(made("k", data=code)))
    unit = {"module": "k", "arch": "sm_90", "bytes": len(code), "seconds": 0.0, "state": "hit"}
    write_tree(tmp_path, {"r.json": json.dumps({"units": [unit]})})
    inspect_json(capsys, place, "--report", tmp_path / "r.json", "--html", tmp_path / "page.html")
    assert "Compile time" not in (tmp_path / "page.html").read_text("utf-8")


def test_a_page_that_cannot_be_written_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = write_tree(tmp_path / "_cubins", bundle(made("k", data=cubin("k"))))
    path = tmp_path / "absent" / "page.html"
    assert refusal(capsys, place, "--html", path) == (
        f"hatch-cubin: error: {path}: cannot be written: No such file or directory [file-not-writable]\n"
    )


@pytest.mark.linux
@pytest.mark.usefixtures("no_endless_wait")
@pytest.mark.parametrize(
    ("option", "what"),
    [
        ("--html", "written: the file is a pipe, and no process reads from this file [file-not-writable]"),
        ("--report", "read: it is a pipe [file-not-readable]"),
    ],
)
def test_a_pipe_is_not_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, what: str
) -> None:
    place = write_tree(tmp_path / "_cubins", bundle(made("k", data=cubin("k"))))
    a_pipe(tmp_path / "pipe")
    said = f"hatch-cubin: error: {tmp_path / 'pipe'}: cannot be {what}\n"
    assert refusal(capsys, place, option, tmp_path / "pipe") == said


def test_a_kernel_counts_for_each_module_that_has_it_in_every_verb(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    variants = [
        made("red", arch, {"red": "red"}, data=cubin("red"), variant={"BLOCK": block})
        for block in ("64", "128")
        for arch in ("sm_80", "sm_90")
    ]
    files = bundle(*variants, made("other", "sm_80", {"red": "red"}, data=cubin("red")))
    wheel = make_wheel(tmp_path / "w.whl", inside("demo/_cubins", files))
    (counted,) = inspect_json(capsys, wheel)["results"][0]["bundles"]
    with pytest.raises(SystemExit):  # its tags and its metadata are made up
        main(["check", str(wheel), "--json"])
    (checked,) = json.loads(capsys.readouterr().out)["results"][0]["bundles"]
    main(["diff", str(wheel), str(wheel), "--json"])
    (compared,) = json.loads(capsys.readouterr().out)["bundles"]
    assert counted["totals"]["kernels"] == len(checked["kernels"]) == compared["kernels"] == 3
