"""Sources: which files are found, how they are read, and the header of PTX."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from hatch_cubin.errors import Location, SourceError, problem
from hatch_cubin.project.source import (
    ProjectFiles,
    PtxHeader,
    Source,
    decode_source,
    glob_regex,
    ptx_entries,
    read_source,
    walk,
    without_comments,
)
from hatch_cubin.project.source_roots import ProjectTree
from tests.helpers import COPY_PTX, found, refusal, sha256, write_tree

FILES = (
    "demo/a.cu",
    "demo/k/b.cu",
    "demo/k/deep/c.cu",
    "demo/k/d.ptx",
    "demo/k/e.cuh",
    "demo/_cubins/x.ptx",
    "demo/.hidden/x.cu",
    "demo/__pycache__/x.cu",
    "other/f.cu",
    "kernels/g.cu",
    "h.cu",
    "own/._a.cu",
    "own/a.cu",
)
DEFAULT = ("**/*.cu", "**/*.ptx")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write_tree(tmp_path, dict.fromkeys(FILES, ""))


@pytest.mark.parametrize(
    ("patterns", "exclude", "matched"),
    [
        (DEFAULT, [], "demo/a.cu demo/k/b.cu demo/k/d.ptx demo/k/deep/c.cu"),
        (DEFAULT, ["k/**"], "demo/a.cu"),
        (DEFAULT, ["demo/k/*"], "demo/a.cu demo/k/deep/c.cu"),
        (DEFAULT, ["**/[bc].cu"], "demo/a.cu demo/k/d.ptx"),
        (["*.cu"], [], "demo/a.cu"),
        (["k/*.cu"], [], "demo/k/b.cu"),
        (["demo/k/**/*.cu"], [], "demo/k/b.cu demo/k/deep/c.cu"),
        (["demo/k/**/*.cu"], ["k/b.cu"], "demo/k/deep/c.cu"),
        (["demo/k/b.cu"], [], "demo/k/b.cu"),
        (["kernels/*.cu"], [], "kernels/g.cu"),
        (["kernels/g.cu", "h.cu"], [], "h.cu kernels/g.cu"),
        (["**/e.cuh"], [], "demo/k/e.cuh"),
        (["demo/.hidden/*.cu"], [], "demo/.hidden/x.cu"),
        (["own/*.cu"], [], "own/a.cu"),
        (["own/**"], [], "own/a.cu"),
        (["own/.*.cu"], [], "own/._a.cu"),
        (["own/._a.cu"], [], "own/._a.cu"),
    ],
)
def test_a_pattern_is_relative_to_the_project_or_to_a_package(
    tree: Path, patterns: list[str], exclude: list[str], matched: str
) -> None:
    paths, _unmatched = ProjectFiles(ProjectTree(tree), {"demo": "demo"}).find(patterns, exclude)
    assert " ".join(paths) == matched


@pytest.mark.parametrize(
    "pattern",
    [
        *("*.cpp", "demo/_cubins/*.ptx", "demo/_cubins/x.ptx", "**/x.ptx", "_cubins/*", "nowhere/**", "demo"),
        *("x" * 300, "x" * 300 + "/*.cu", "[]", "[", "[!]", "[z-a]", "[[]*", "[a&&b]"),
    ],
    ids=lambda pattern: pattern[:20],
)
def test_a_pattern_that_finds_nothing_is_returned(tree: Path, pattern: str) -> None:
    assert ProjectFiles(ProjectTree(tree), {"demo": "demo"}).find([pattern], []) == ([], [pattern])


@pytest.mark.parametrize("name", ["demo/k[1].cu", "other/k[1].cu", "other[1]/k.cu", "k[1].cu", ".k[!1].cu"])
def test_a_name_with_brackets_names_its_file(tmp_path: Path, name: str) -> None:
    files = ProjectFiles(ProjectTree(write_tree(tmp_path, {name: ""})), {"demo": "demo"})
    assert files.find([name], []) == ([name], [])
    assert files.find([name], [name]) == ([], [])


def test_a_pattern_whose_files_are_all_excluded_has_matched(tree: Path) -> None:
    assert ProjectFiles(ProjectTree(tree), {"demo": "demo"}).find(["*.cu"], ["**"]) == ([], [])


@pytest.mark.parametrize("folder", [".", ""])
def test_a_package_may_be_the_project_itself(tree: Path, folder: str) -> None:
    paths, unmatched = ProjectFiles(ProjectTree(tree), {"demo": folder}).find(["*.cu", "kernels/*.cu"], [])
    assert (paths, unmatched) == (["h.cu", "kernels/g.cu"], [])


def test_sources_of_several_packages_are_found_once_and_sorted(tree: Path) -> None:
    packages = {"other": "other", "demo": "demo", "alias": "demo"}
    assert ProjectFiles(ProjectTree(tree), packages).find(["f.cu", "a.cu"], [])[0] == [
        "demo/a.cu",
        "other/f.cu",
    ]


def test_links_to_folders_are_not_followed(tree: Path) -> None:
    (tree / "demo/link").symlink_to(tree / "kernels")
    (tree / "demo/loop").symlink_to(tree / "demo")
    assert ProjectFiles(ProjectTree(tree), {"demo": "demo"}).find(["**/g.cu", "**/a.cu"], [])[0] == [
        "demo/a.cu"
    ]


@pytest.mark.parametrize("pattern", ["out/**/*.cu", "out/x.cu", "loop/*.cu"])
def test_a_pattern_does_not_walk_out_of_the_project(tmp_path: Path, pattern: str) -> None:
    root = write_tree(tmp_path, {"outside/x.cu": "", "project/demo/a.cu": ""}) / "project"
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "loop").symlink_to(root / "loop")
    assert ProjectFiles(ProjectTree(root), {"demo": "demo"}).find([pattern], []) == ([], [pattern])


def test_a_walk_is_sorted_and_leaves_out_what_nobody_means(tree: Path) -> None:
    inside = [name for name in sorted(FILES) if not name.startswith(("demo/_", "demo/."))]
    assert sorted(walk(ProjectTree(tree), ".")) == inside
    assert list(walk(ProjectTree(tree), "demo/k")) == [
        "demo/k/b.cu",
        "demo/k/d.ptx",
        "demo/k/e.cuh",
        "demo/k/deep/c.cu",
    ]
    assert list(walk(ProjectTree(tree), "h.cu")) == ["h.cu"]
    assert list(walk(ProjectTree(tree), "nowhere")) == []


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.cu", "a.cu .cu", "a/b.cu a.cuh"),
        ("**/*.cu", "a.cu a/b.cu a/b/c.cu", "a.ptx"),
        ("a/**", "a/b a/b/c", "a ab b/a/c"),
        ("a/**/b", "a/b a/x/b a/x/y/b", "a/xb ab"),
        ("**/**/a", "a x/a x/y/a", "xa"),
        ("a**", "a ab a/b", "b"),
        ("a?c", "abc a.c", "a/c ac"),
        ("[ab].cu", "a.cu b.cu", "c.cu ab.cu"),
        ("k[1]/a[b.cu", "k1/a[b.cu k[1]/a[b.cu", "k[2]/a[b.cu k1]/a[b.cu"),
        ("[!ab].cu", "c.cu [!ab].cu", "a.cu /.cu"),
        ("[^ab].cu", "c.cu ^.cu", "a.cu"),
        ("[a-c]", "a b c", "d -"),
        ("[c-a]", "", "a b c -"),
        ("[!c-a]", "a b c", "/"),
        ("[a-]", "a -", "b"),
        ("[]a]", "] a", "b"),
        ("[!]a]", "b", "] a"),
        ("[]", "[]", "a"),
        ("[!]", "[!]", "a"),
        ("[[]", "[", "]"),
        ("[a^]", "a ^", "b"),
        ("[a&&b]", "a & b", "c"),
        ("[+--]", "+ , -", "/"),
        ("[.-0]", ". 0", "/ 1"),
        (r"[\d]", "\\ d", "1"),
        ("a.b+(c)", "a.b+(c)", "axb+(c)"),
        ("[", "[", "a"),
    ],
)
def test_a_glob_matches_as_a_shells_does(pattern: str, yes: str, no: str) -> None:
    regex = glob_regex(pattern)
    assert [text for text in yes.split() if not regex.fullmatch(text)] == []
    assert [text for text in no.split() if regex.fullmatch(text)] == []


@pytest.mark.parametrize("shape", ["*a", "**a", "**/a/", "*", "**/*a*a/"])
def test_a_glob_with_many_wildcards_is_decided(shape: str) -> None:
    folders = "/".join(["a" * 60] * 60) if "/" in shape else "a" * 240
    assert not glob_regex(f"{shape * 20}b").fullmatch(folders)
    assert glob_regex(f"{shape * 20}b").fullmatch(f"{shape.replace('*', 'a') * 20}b")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a\xc3\xa9\n", "aé\n"),
        (b"\xef\xbb\xbfa", "a"),
        (b"a\xe9", "aé"),
        (b"\xef\xbb\xbfa\xe9", "aé"),
        (b"a\r\nb\rc\n", "a\nb\nc\n"),
        (b"", ""),
    ],
    ids=["utf-8", "bom", "latin-1", "bom and latin-1", "line ends", "empty"],
)
def test_a_source_is_decoded_as_the_compiler_should_see_it(data: bytes, text: str) -> None:
    assert decode_source(data, Location("k.cu"))[0] == text


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_wide_characters_are_refused(tmp_path: Path, encoding: str) -> None:
    bom = "" if encoding in {"utf-16", "utf-32"} else "\ufeff"
    write_tree(tmp_path, {"k.cu": (bom + "int i;").encode(encoding)})
    error = refusal(SourceError, read_source, ProjectTree(tmp_path), "k.cu")
    what = "is UTF-16 or UTF-32: save it as UTF-8"
    assert error.problems == (problem("unsupported-encoding", what, Location("k.cu")),)


def test_a_nul_byte_is_refused(tmp_path: Path) -> None:
    write_tree(tmp_path, {"k.cu": b"int i;\0int j;"})
    error = refusal(SourceError, read_source, ProjectTree(tmp_path), "k.cu")
    what = "contains a NUL byte, at which the compiler would stop reading without an error"
    assert error.problems == (problem("nul-byte-in-source", what, Location("k.cu")),)
    write_tree(tmp_path, {"k.cu": "int i; int j;".encode("utf-16-le")})
    (wide,) = refusal(SourceError, read_source, ProjectTree(tmp_path), "k.cu").problems
    assert wide.hint == "the file is probably UTF-16: save it as UTF-8"


@pytest.mark.parametrize("magic", [b"\x7fELF", b"\x50\xed\x55\xba"])
def test_machine_code_is_refused(tmp_path: Path, magic: bytes) -> None:
    write_tree(tmp_path, {"k.ptx": magic + bytes(9)})
    error = refusal(SourceError, read_source, ProjectTree(tmp_path), "k.ptx")
    assert found(error) == [("machine-code-as-source", "k.ptx")]


def test_a_source_knows_its_stem_folder_and_kind(tmp_path: Path) -> None:
    write_tree(tmp_path, {"src/demo/my.k.PTX": "text"})
    source = read_source(ProjectTree(tmp_path), "src/demo/my.k.PTX")
    assert source == Source("src/demo/my.k.PTX", "text", sha256(b"text"))
    assert (source.stem, source.folder, source.is_ptx) == ("my.k", "src/demo", True)
    assert not Source("a.cu", "").is_ptx


def test_a_missing_source_is_refused_with_the_systems_reason(tmp_path: Path) -> None:
    error = refusal(SourceError, read_source, ProjectTree(tmp_path), "gone.cu")
    what = f"cannot be read: {os.strerror(errno.ENOENT)}"
    assert error.problems == (problem("file-not-readable", what, Location("gone.cu")),)


def test_a_link_to_nothing_or_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dangling.cu").symlink_to("gone.cu")
    (tmp_path / "loop.cu").symlink_to("loop.cu")
    for name in ("dangling.cu", "loop.cu"):
        with pytest.raises(SourceError) as caught:
            read_source(ProjectTree(tmp_path), name)
        assert found(caught.value) == [("file-not-readable", name)]


def test_a_link_may_lead_to_another_file_of_the_project_but_not_out_of_it(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"outside.cu": "out", "project/a.cu": "in"}) / "project"
    (root / "inside.cu").symlink_to("a.cu")
    (root / "outside.cu").symlink_to("../outside.cu")
    assert read_source(ProjectTree(root), "inside.cu").text == "in"
    error = refusal(SourceError, read_source, ProjectTree(root), "outside.cu")
    what, hint = (
        "is a link to a place outside the project",
        "add the folder of the link's target to 'source-roots'",
    )
    assert error.problems == (problem("link-leads-outside", what, Location("outside.cu"), hint),)


@pytest.mark.linux
def test_a_pipe_is_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.cu")
    error = refusal(SourceError, read_source, ProjectTree(tmp_path), "pipe.cu")
    what = "is not a regular file"
    assert error.problems == (problem("not-a-regular-file", what, Location("pipe.cu")),)


@pytest.mark.parametrize("name", ["a\nb.cu", 'a".cu', "a\\b.cu", "a\udcff.cu", "a\u200f.cu"], ids=ascii)
def test_a_file_name_that_cannot_be_passed_to_a_compiler_is_refused(tmp_path: Path, name: str) -> None:
    error = refusal(SourceError, read_source, ProjectTree(tmp_path), name)
    what = f"the name {name!r} has characters that cannot be passed to a compiler"
    assert error.problems == (problem("unusable-file-name", what, hint="rename the file"),)


def test_ptx_says_its_version_and_target_with_their_line() -> None:
    text = "// .version 1.0\n/* .target sm_10\n*/ .version 8.7\n  .target  sm_90a, debug // why\n"
    assert Source("k.ptx", text).ptx == PtxHeader((8, 7), "sm_90a", 4, ".target  sm_90a, debug")


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("", ".version"),
        (".version 8.0\n", ".target"),
        (".version x\n.target sm_90\n", ".version"),
        (f".version {'9' * 5000}.0\n", ".version"),
    ],
    ids=["empty", "no target", "odd version", "huge"],
)
def test_a_text_without_a_header_is_not_ptx(text: str, missing: str) -> None:
    error = refusal(SourceError, lambda: Source("k.ptx", text).ptx)
    what = f"does not have a {missing} directive, so it is not valid PTX"
    assert error.problems == (problem("ptx-header-missing", what, Location("k.ptx")),)


def test_cuda_code_in_a_ptx_file_is_told_its_suffix() -> None:
    error = refusal(SourceError, lambda: Source("a/k.ptx", "__global__ void k() {}").ptx)
    assert found(error) == [("ptx-header-missing", "a/k.ptx")]
    assert error.problems[0].hint == "this is CUDA C++: rename the file to a/k.cu"


@pytest.mark.parametrize(
    ("target", "hint"),
    [("compute_90", "write .target sm_90"), ("native", "write a valid arch, such as .target sm_90")],
)
def test_a_target_that_ptx_cannot_have_is_reported_at_its_line(target: str, hint: str) -> None:
    error = refusal(SourceError, lambda: Source("k.ptx", f".version 8.0\n.target {target}\n").ptx)
    what = f".target {target} is not a valid arch in PTX"
    assert error.problems == (problem("unknown-arch", what, Location("k.ptx", 2), hint),)


def test_a_pointer_of_git_lfs_has_a_hint_how_to_get_the_ptx() -> None:
    with pytest.raises(SourceError) as caught:
        _ = Source("k.ptx", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n").ptx
    assert found(caught.value) == [("ptx-header-missing", "k.ptx")]
    assert (
        caught.value.problems[0].hint
        == "the file is only a pointer of Git LFS: 'git lfs pull' downloads its content"
    )


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("sm_9", "'sm_9' is not an arch"),
        ("sm_9000", "'sm_9000' is not an arch"),
        ("sm_75a", "sm_75a does not exist: the first arch with this suffix is sm_90a"),
    ],
)
def test_a_target_that_does_not_exist_is_refused_at_its_line(target: str, reason: str) -> None:
    with pytest.raises(SourceError) as caught:
        _ = Source("k.ptx", f".version 8.0\n.target {target}\n").ptx
    assert caught.value.problems == (problem("unknown-arch", f".target: {reason}", Location("k.ptx", 2)),)


def test_a_version_that_is_too_old_for_the_target_is_refused_with_the_first_that_has_it() -> None:
    with pytest.raises(SourceError) as caught:
        _ = Source("k.ptx", "// PTX\n.version 7.8\n.target sm_100f\n").ptx
    what, place = ".version 7.8 is too old for .target sm_100f", Location("k.ptx", 2)
    hint = "write .version 8.8, or a later one"
    assert caught.value.problems == (problem("ptx-version-too-old", what, place, hint),)


def test_comments_are_blanked_line_by_line_and_strings_are_not() -> None:
    text = 'a // b\n/* c\n d */ e\n.file 1 "http://x/*.cu" // f\n'
    assert without_comments(text) == ('a     \n    \n      e\n.file 1 "http://x/*.cu"     \n')


def test_the_kernels_of_a_ptx_are_its_entries_each_once() -> None:
    text = (
        COPY_PTX
        + """
        .file 1 "/*.cu"
        // .visible .entry commented() { ret; }
        /* .entry commented_too() */
        .extern .func helper;
        .weak .entry weak_one() { ret; }
        .entry _Z4fill$x%y.z() { ret; }
        .visible
        .entry copy() { ret; }
        .file 2 "*/.cu"
        """
    )
    assert ptx_entries(text) == ("copy", "weak_one", "_Z4fill$x%y.z")
