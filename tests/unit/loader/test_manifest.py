"""The manifest: what reading it costs, and what a damaged or hostile one can do."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin import loader
from hatch_cubin.bundle import loader_files
from hatch_cubin.bundle.manifest import canonical, module_line, write_manifest
from tests.helpers import bundle, load_bundle, made, refusal, sha256, write_tree
from tests.standin import ask, install

ENTRY = {
    "arch": "sm_90",
    "kind": "cubin",
    "file": "k.sm_90.cubin",
    "size": 1,
    "sha256": sha256(b"k"),
    "min_driver": 13000,
}
MODULE = {"source": "k.cu", "variant": {}, "kernels": {"k": "k"}, "options": {}, "entries": [ENTRY]}
HEADER = {"format": 1, "generator": {"name": "hatch-cubin", "version": "1"}, "toolchain": {}}


def manifest(
    module: Any = MODULE, *, header: dict[str, Any] | None = None, kernels: Any = None, name: str = "k"
) -> bytes:
    """Return a manifest whose checks all hold."""
    index = {"k": [name]} if kernels is None else kernels
    lines = [module_line(name, module)]
    return b"".join(write_manifest({**HEADER, **(header or {})}, index, lines))


def load_manifest(folder: Path, data: bytes) -> Any:
    return load_bundle(folder, {"manifest.json": data, "k.sm_90.cubin": b"k"})


def test_importing_the_loader_imports_os_and_sys_only(tmp_path: Path) -> None:
    write_tree(tmp_path, {f"pkg/_cubins/{name}": data for name, data in bundle(made("k")).items()})
    write_tree(tmp_path, {"pkg/__init__.py": ""})
    code = (
        "import os, sys; before = set(sys.modules); sys.path.insert(0, sys.argv[1]);"
        "import pkg._cubins; print(sorted(set(sys.modules) - before))"
    )
    command = [sys.executable, "-I", "-S", "-c", code, str(tmp_path)]
    assert subprocess.check_output(command, text=True).strip() == "['pkg', 'pkg._cubins']"


@pytest.mark.parametrize(
    "flags", [["-I", "-S"], ["-I", "-S", "-O"], ["-I", "-S", "-OO", "-bb", "-W", "error"]]
)
def test_the_standard_library_is_all_it_needs(tmp_path: Path, flags: list[str]) -> None:
    write_tree(tmp_path, {f"pkg/_cubins/{name}": data for name, data in bundle(made("k")).items()})
    write_tree(tmp_path, {"pkg/__init__.py": ""})
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pkg import _cubins as cubins;"
        "print([cubins.names(), cubins.read('k', cc=(9, 0)) == b'k for sm_90']);"
        "strange = [name for name in sys.modules if name.startswith(('cuda', 'numpy', 'hatch'))];"
        "print(strange, cubins.is_available())"
    )
    output = subprocess.check_output([sys.executable, *flags, "-c", code, str(tmp_path)], text=True)
    assert output.splitlines()[0] == "[('k',), True]"
    assert output.splitlines()[1].startswith("[] ")


def test_nothing_is_read_at_import(tmp_path: Path) -> None:
    cubins = load_bundle(tmp_path, {"manifest.json": b"damaged"})
    with pytest.raises(cubins.CubinDamagedError):
        cubins.names()


def test_one_of_ten_thousand_modules_is_found_without_parsing_the_others(tmp_path: Path) -> None:
    entries = [{**ENTRY, "arch": f"sm_{arch}"} for arch in (75, 80, 90, 100, 110, 120, 121)]
    names = [f"module_{number:05}" for number in range(10_000)]
    lines = [
        module_line(name, {**MODULE, "kernels": {f"k_{name}": "k"}, "entries": entries}) for name in names
    ]
    index = {f"k_{name}": [name] for name in names}
    data = b"".join(write_manifest(HEADER, index, lines))
    cubins = load_manifest(tmp_path, data)
    parsed: list[int] = []
    loads = cubins._loads

    def count(text: str) -> Any:
        parsed.append(len(text))
        return loads(text)

    cubins._loads = count
    assert cubins.find("k_module_04999", cc=(9, 0)).module == "module_04999"
    assert sum(parsed) < len(data) / 1000
    assert len(cubins.names()) == 10_000


PLAIN = [
    *(
        '{"a":[1,20,0],"b":null}',
        "[]",
        "{}",
        '{"":{"":[[]]}}',
        '"ü"',
        "true",
        "false",
        '["k",{"a":"b"}]',
        "7",
    ),
    *(
        '{"a":1}\n',
        '{"a":1,"a":2}',
        '"\u007f"',
        '"\\u00fc"',
        "-1",
        "1.5",
        "1e3",
        '{"a": 1}',
        "10000000000000000000000",
    ),
]
WRONG = [
    "",
    "{",
    "[",
    '{"a" 1}',
    '{"a"1}',
    "{1:2}",
    "[1,]",
    "[1 2]",
    "1 2",
    "nul",
    "01",
    '"',
    '{"a":1]',
    "[" * 9999,
]


@pytest.mark.parametrize("text", PLAIN)
def test_without_json_the_same_is_read(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "json")
    monkeypatch.setattr(loader, "_plain_left", [100])
    assert loader._loads(text) == json.loads(text)


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_what_is_no_json_is_an_error_whoever_reads_it(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises((json.JSONDecodeError, RecursionError)):
        loader._loads(text)
    monkeypatch.delitem(sys.modules, "json")
    monkeypatch.setattr(loader, "_plain_left", [1 << 16])
    with pytest.raises((json.JSONDecodeError, RecursionError)):
        loader._loads(text)


@pytest.mark.linux
def test_one_kernel_is_found_without_an_import_of_json(tmp_path: Path) -> None:
    write_tree(tmp_path, {"pkg/__init__.py": ""})
    write_tree(tmp_path, {f"pkg/_cubins/{name}": data for name, data in bundle(made("k")).items()})
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pkg import _cubins as cubins;"
        "cubins.read('k', cc=(9, 0)); print('json' in sys.modules, '_json' in sys.modules)"
    )
    said = subprocess.check_output([sys.executable, "-S", "-c", code, str(tmp_path)], text=True)
    assert said == "False False\n"


def test_large_and_small_manifests_read_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cubins = load_bundle(tmp_path, bundle(made("a"), made("b"), made("c")))
    monkeypatch.setattr(cubins, "_READ_WHOLE", 0)
    assert cubins.names() == ("a", "b", "c")
    assert [cubins.read(name, cc=(9, 0)) for name in "abc"] == [
        b"a for sm_90",
        b"b for sm_90",
        b"c for sm_90",
    ]


MANY = [made(f"k{number:03}", kernels={f"k{number:03}": "k"}) for number in range(60)]


@pytest.mark.parametrize("part", [100, 333, 1 << 20])
def test_parts_of_any_size_read_as_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    cubins = load_bundle(tmp_path, bundle(*MANY))
    monkeypatch.setattr(cubins, "_READ_WHOLE", 0)
    monkeypatch.setattr(cubins._part("_large"), "_PIECE", part)
    for built in (MANY[0], MANY[31], MANY[-1]):
        assert cubins.read(built.unit.module.base, cc=(9, 0)) == built.compiled.data
    with pytest.raises(cubins.CubinNotFoundError):
        cubins.find("k0300", cc=(9, 0))
    data, path = (tmp_path / "manifest.json").read_bytes(), str(tmp_path / "manifest.json")
    parts = cubins._manifest_data(path)
    for what in (b'{"check"', b"\n", b"\n},", b"}\n", b"nowhere", data[5:90]):
        assert (parts.find(what), parts.rfind(what)) == (data.find(what), data.rfind(what))
        assert parts.find(what, 100) == data.find(what, 100)
        assert parts.rfind(what, 9, 300) == data.rfind(what, 9, 300)


CUT = """
os.environ.clear()
cubins._READ_WHOLE = 0
cubins.names()
change()
for ask in (lambda: cubins.find("k059", cc=(9, 0)), cubins.names, cubins.archs):
    try: ask()
    except cubins.CubinDamagedError as exc: print(str(exc).partition("manifest.json ")[2].partition(";")[0])
"""


@pytest.mark.linux
@pytest.mark.parametrize("size", [0, 1, 4000])
def test_a_large_manifest_that_is_cut_off_in_place_is_damage_and_kills_nobody(
    tmp_path: Path, size: int
) -> None:
    large = {loader_files.LARGE: loader_files.read(loader_files.LARGE)}
    install(tmp_path / "pkg", {**bundle(*MANY), **large})
    change = f"def change(): os.truncate('pkg/_cubins/manifest.json', {size})\n"
    said = "is damaged: the file was truncated or replaced while it was in use"
    assert set(ask(tmp_path, change + CUT, None).splitlines()) == {said}


def test_a_large_manifest_that_is_overwritten_in_place_is_damage_and_no_endless_search(
    tmp_path: Path,
) -> None:
    cubins = load_bundle(tmp_path, bundle(*MANY))
    cubins._READ_WHOLE = 0
    cubins.names()
    for byte in (b"\0", b"\xff", b"\n"):
        (tmp_path / "manifest.json").write_bytes(byte * (tmp_path / "manifest.json").stat().st_size)
        for name in ("k000", "k031", "zzz"):
            with pytest.raises(cubins.CubinDamagedError):
                cubins.find(name, cc=(9, 0))


@pytest.mark.linux
def test_a_large_manifest_is_read_on_after_it_was_replaced_and_after_descriptors_were_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cubins = load_bundle(tmp_path, bundle(*MANY))
    monkeypatch.setattr(cubins, "_READ_WHOLE", 0)
    path = tmp_path / "manifest.json"
    assert len(cubins.names()) == 60
    os.close(cubins._manifest().data._descriptor)  # as a process does that becomes a daemon
    assert cubins.find("k001", cc=(9, 0)).module == "k001"
    path.rename(tmp_path / "before")
    assert cubins.find("k002", cc=(9, 0)).module == "k002"
    parts = cubins._manifest().data
    os.close(parts._descriptor)
    with pytest.raises(cubins.CubinDamagedError, match=r"cannot be read \(No such file"):
        cubins.find("k003", cc=(9, 0))
    path.write_bytes(b"another")
    with pytest.raises(cubins.CubinDamagedError, match="truncated or replaced"):
        cubins.find("k003", cc=(9, 0))
    parts.__del__()  # another file may have its descriptor's number by now: it is not closed twice


CALLS: tuple[Callable[[Any], Any], ...] = (
    lambda cubins: cubins.read("fill", cc=(9, 0)),
    lambda cubins: cubins.read("fill", cc=(9, 0), module="b"),
    lambda cubins: cubins.read("c", cc=(9, 0)),
    lambda cubins: cubins.read("red", cc=(9, 0)),
    lambda cubins: cubins.read("red", cc=(9, 0), N=2),
    lambda cubins: cubins.read("nothing", cc=(9, 0)),
    lambda cubins: cubins.find("b", cc=(9, 0)).kernels,
    lambda cubins: cubins.names(),
    lambda cubins: cubins.archs(),
)


def outcome(cubins: Any, call: Callable[[Any], Any]) -> object:
    """Return what a call gave, or the type of error of ours; anything else is raised."""
    try:
        return call(cubins)
    except cubins.CubinError as exc:
        return type(exc).__name__


@pytest.fixture
def damage(tmp_path: Path) -> Callable[[bytes], list[object]]:
    """Return what the calls give with another manifest, every time read anew."""
    files = bundle(
        made("b", kernels={"fill": "fill"}),
        made("c", kernels={"other": "other"}),
        made("fill", kernels={"f": "f"}),
        made("red", kernels={"r": "r"}, variant={"N": "1"}),
        made("red", kernels={"s": "s"}, variant={"N": "2"}),
    )
    cubins = load_bundle(tmp_path, files)
    whole = cubins._file_data

    def try_calls(data: bytes) -> list[object]:
        cubins._file_data = lambda path, *most: data if path.endswith("manifest.json") else whole(path, *most)
        results = []
        for call in CALLS:
            cubins._own.clear()
            results.append(outcome(cubins, call))
        return results

    return try_calls


def flips(data: bytes, every: int) -> Iterator[bytes]:
    for bit in range(0, len(data) * 8, every):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        yield bytes(flipped)


def test_one_wrong_bit_gives_the_same_answer_or_says_damaged(
    damage: Callable[[bytes], list[object]], tmp_path: Path
) -> None:
    data = (tmp_path / "manifest.json").read_bytes()
    right = damage(data)
    assert right == [
        *("CubinNotFoundError", b"b for sm_90", b"c for sm_90", "CubinNotFoundError", b"red[N=2] for sm_90"),
        *("CubinNotFoundError", {"fill": "fill"}, ("f", "fill", "other", "r", "s"), ("sm_90",)),
    ]
    for flipped in flips(data, 3):  # three shares no divisor with eight: every byte, every bit of its
        results = damage(flipped)
        wrong = [
            got for got, want in zip(results, right, strict=True) if got not in (want, "CubinDamagedError")
        ]
        assert not wrong, (flipped, results)
        assert "CubinDamagedError" in results, flipped


def test_a_cut_manifest_says_damaged(damage: Callable[[bytes], list[object]], tmp_path: Path) -> None:
    data = (tmp_path / "manifest.json").read_bytes()
    for length in range(0, len(data), 7):
        assert set(damage(data[:length])) == {"CubinDamagedError"}


def test_lines_in_the_wrong_place_give_no_wrong_bytes(
    damage: Callable[[bytes], list[object]], tmp_path: Path
) -> None:
    lines = (tmp_path / "manifest.json").read_bytes().split(b"\n")
    right = damage(b"\n".join(lines))
    for one, other in itertools.product(range(len(lines)), repeat=2):
        swapped = list(lines)
        swapped[one], swapped[other] = lines[other], lines[one]
        for got, want in zip(damage(b"\n".join(swapped)), right, strict=True):
            assert not isinstance(want, bytes) or got in (want, "CubinDamagedError", "CubinNotFoundError")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\n", id="a line break"),
        pytest.param(b"{}", id="no tables"),
        pytest.param(b"[" * 100_000, id="nested"),
        pytest.param(b'\n},"modules":{\n},', id="a frame alone"),
        pytest.param(b"\0" * 1000, id="zeros"),
        pytest.param(manifest().replace(b"\n", b"\r\n"), id="line ends of a careless transfer"),
        pytest.param(b"\xef\xbb\xbf" + manifest(), id="a byte order mark"),
    ],
)
def test_what_is_no_manifest_is_damage(tmp_path: Path, data: bytes) -> None:
    cubins = load_manifest(tmp_path, data)
    for call in (cubins.names, cubins.archs, lambda: cubins.read("k", cc=(9, 0))):
        with pytest.raises(
            cubins.CubinDamagedError, match=r"manifest\.json is damaged: .*; reinstall the package"
        ):
            call()


def entry(**fields: Any) -> dict[str, Any]:
    return {**MODULE, "entries": [{**ENTRY, **fields}]}


OUTSIDE = (
    *("../k", "/etc/passwd", "a/b", "a\\b", "C:k", "k\0", "", ".k"),
    *("..", "k\n", "\u202ek", "\ud800", 1, None, ["k"]),
)
HOSTILE = [
    *((f"file {name!r}", entry(file=name)) for name in OUTSIDE),
    *((f"size {size!r}", entry(size=size)) for size in ("1", 1.0, True, None, float("nan"))),
    *((f"arch {arch!r}", entry(arch=arch)) for arch in (90, None, "sm_90x", ["sm_90"])),
    ("sha256", entry(sha256=None)),
    ("kind", entry(kind=1)),
    ("min_driver", entry(min_driver="13000")),
    ("kernels of an entry", entry(kernels={"k": 1})),
    ("no kernels", {**MODULE, "kernels": None}),
    ("no entries", {**MODULE, "entries": {}}),
    ("entry", {**MODULE, "entries": [1]}),
    ("entry of text", {**MODULE, "entries": ["arch"]}),
    ("empty entry", {**MODULE, "entries": [{}]}),
    ("variant", {**MODULE, "variant": [["A", "1"]]}),
    ("source", {**MODULE, "source": 1}),
    ("nothing", {"source": ""}),
    ("no source", {**MODULE, "source": ""}),
    ("an arch twice", {**MODULE, "entries": [ENTRY, {**ENTRY, "kernels": {}}]}),
    ("resources", entry(resources=[])),
    ("resources of a kernel", entry(resources={"k": 32})),
    ("options", {**MODULE, "options": []}),
]


def with_line(body: str) -> bytes:
    """Return a manifest whose one module's line is *body* behind a check that holds."""
    data, text = manifest(), body.encode("utf-8", "surrogatepass")
    line = b'"k":{"check":"%b",%b' % (sha256(b'"k"' + text).encode(), text)
    start = b'\n},"modules":{\n'
    return data[: data.index(start) + len(start)] + line + data[data.rindex(b"\n},") :]


@pytest.mark.parametrize("module", [row[1] for row in HOSTILE], ids=[row[0] for row in HOSTILE])
def test_wrong_fields_are_damage_even_where_the_checks_hold(tmp_path: Path, module: Any) -> None:
    cubins = load_manifest(tmp_path, with_line(canonical(module)[1:]))
    with pytest.raises(cubins.CubinDamagedError):
        cubins.read("k", cc=(9, 0))


@pytest.mark.parametrize("value", ["[" * 100_000, '{"a":1', "9" * 5000, "1,", "\ud800"])
def test_a_line_that_is_no_json_is_damage(tmp_path: Path, value: str) -> None:
    cubins = load_manifest(tmp_path, with_line(f'"source":{value}}}'))
    with pytest.raises(cubins.CubinDamagedError):
        cubins.archs()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(manifest(kernels={"k": [1]}), id="modules of a kernel as numbers"),
        pytest.param(manifest(kernels={"k": ["gone"]}), id="a module that is not there"),
        pytest.param(manifest({**MODULE, "kernels": {"other": "k"}}), id="a module that lacks the kernel"),
        pytest.param(manifest(header={"format": "1"}), id="format as text"),
        pytest.param(manifest(header={"format": None}), id="no format"),
        pytest.param(manifest(header={"toolchain": []}), id="toolchain as a list"),
    ],
)
def test_a_wrong_index_or_header_is_damage(tmp_path: Path, data: bytes) -> None:
    cubins = load_manifest(tmp_path, data)
    with pytest.raises(cubins.CubinDamagedError):
        cubins.read("k", cc=(9, 0))


def test_a_newer_format_is_told_from_damage(tmp_path: Path) -> None:
    cubins = load_manifest(tmp_path, manifest(header={"format": 4}))
    error = refusal(cubins.CubinError, cubins.names)
    assert type(error) is cubins.CubinError
    assert str(error).endswith(
        "manifest.json has format 4, but this loader reads at most 3 (bundle of hatch-cubin 1)"
    )


@pytest.mark.parametrize("generator", [None, 1, [], "text", {}, {"name": []}])
def test_errors_survive_a_strange_generator(tmp_path: Path, generator: Any) -> None:
    cubins = load_manifest(tmp_path, manifest(header={"generator": generator}))
    with pytest.raises(cubins.CubinNotFoundError, match=r"\(bundle of (unknown|None None|\[\] None)\)$"):
        cubins.find("gone", cc=(9, 0))


def test_the_manifest_is_canonical_json_in_lines() -> None:
    data = bundle(made("b"), made("a"))["manifest.json"]
    text = data.decode().replace(",\n", ",").replace("\n", "")
    assert text == canonical(json.loads(data))
    assert [line.partition(":")[0] for line in data.decode().splitlines()] == [
        *('{"check"', '"a"', '"b"', '},"modules"', '"a"', '"b"', '},"toolchain"')
    ]
    assert json.loads(data)["format"] == 1  # which every loader reads


def test_a_module_out_of_its_order_is_damage_and_not_a_missing_name(tmp_path: Path) -> None:
    data = bundle(made("a"), made("b"), made("c"))["manifest.json"]
    lines = data.split(b"\n")
    first = next(i for i, line in enumerate(lines) if line.startswith(b'"a":{"check"'))
    lines[first], lines[first + 2] = lines[first + 2] + b",", lines[first].rstrip(b",")
    cubins = load_manifest(tmp_path, b"\n".join(lines))
    with pytest.raises(cubins.CubinDamagedError):
        cubins.find("a", cc=(9, 0))


@pytest.mark.parametrize("cc", [(0, 9), (9, 10), (9, -1), (-1, 0)])
def test_a_capability_that_cannot_be_is_an_error(tmp_path: Path, cc: tuple[int, int]) -> None:
    cubins = load_bundle(tmp_path, bundle(made("a")))
    with pytest.raises(ValueError, match=re.escape(f"such as (9, 0), not {cc}")):
        cubins.find("a", cc=cc)
