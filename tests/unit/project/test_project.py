"""The project as a front end passes it to a build: its package, its folders, its sources."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import platformdirs
import pytest

from hatch_cubin.common.environment import WithOptions
from hatch_cubin.errors import ConfigError, Location, SourceError, problem
from hatch_cubin.keys.jobs import reachable_files
from hatch_cubin.project.project import _NO_FOLDER, Project, read_sources
from tests.helpers import SAXPY, TABLE, found, pyproject, read_config, refusal, write_tree

HEADER = pyproject("").count("\n")  # the line of the table's header
TABLE_PLACE = Location("pyproject.toml", HEADER)
FIRST_PLACE = Location("pyproject.toml", HEADER + 1)


def project(root: Path, options: str = "", packages: dict[str, str] | None = None, **environ: str) -> Project:
    config = read_config(options, environ)
    folders = {"demo": "src/demo"} if packages is None else packages
    return Project(root=root, packages=folders, config=config, environ=environ)


# --- the package ----------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write_tree(tmp_path, {"src/demo/gpu/a.cu": "", "src/ns/pkg/b.cu": "", "root.cu": ""})


def test_the_only_package_receives_the_bundle(tree: Path) -> None:
    made = project(tree)
    assert (made.package, made.bundle_folder) == ("demo", "src/demo/_cubins")


@pytest.mark.parametrize(
    ("packages", "package", "folder"),
    [
        ({"demo": "src/demo"}, "demo.gpu", "src/demo/gpu/_cubins"),
        ({"ns.pkg": "src/ns/pkg"}, "ns.pkg", "src/ns/pkg/_cubins"),
        ({"other": "src/ns", "demo": "src/demo"}, "demo", "src/demo/_cubins"),
        ({"demo": "."}, "demo", "_cubins"),
        ({"demo": ""}, "demo", "_cubins"),
        ({"demo": ""}, "demo.src", "src/_cubins"),
    ],
)
def test_a_named_package_receives_the_bundle(
    tree: Path, packages: dict[str, str], package: str, folder: str
) -> None:
    made = project(tree, f"package = '{package}'", packages)
    assert (made.package, made.bundle_folder) == (package, folder)


@pytest.mark.parametrize(
    ("files", "hint"),
    [
        (["p.py", "setup.py", "test_p.py"], "p.py is a single module: move it to p/__init__.py"),
        (["src/p.py"], "src/p.py is a single module: move it to src/p/__init__.py"),
        (["setup.py"], "add a package: a folder with a file __init__.py"),
    ],
)
def test_without_a_package_the_hint_says_how_to_make_one(tmp_path: Path, files: list[str], hint: str) -> None:
    write_tree(tmp_path, dict.fromkeys(files, ""))
    error = refusal(ConfigError, lambda: project(tmp_path, "", {}).package)
    assert found(error) == [("no-package-for-kernels", str(TABLE_PLACE))]
    assert hint in str(error.problems[0].hint)


@pytest.mark.parametrize(
    ("files", "package", "folder"),
    [
        (["src/acme/gpu/__init__.py"], "acme.gpu", "src/acme/gpu"),
        (["acme/gpu/__init__.py"], "acme.gpu", "acme/gpu"),
    ],
)
def test_the_package_in_a_namespace_is_named_for_a_wrapped_backend(
    tmp_path: Path, files: list[str], package: str, folder: str
) -> None:
    made = project(write_tree(tmp_path, dict.fromkeys(files, "")), "", {})
    made.config.place.wraps = True
    (said,) = refusal(ConfigError, lambda: made.package).problems
    lines = f'paste these lines:\n    package = "{package}"\n    package-dir = "{folder}"'
    assert (said.code, str(said.hint).partition(", ")[2]) == ("no-package-for-kernels", lines)


def test_of_several_packages_in_namespaces_none_is_named(tmp_path: Path) -> None:
    files = ("src/acme/a/__init__.py", "src/acme/b/__init__.py")
    made = project(write_tree(tmp_path, dict.fromkeys(files, "")), "", {})
    made.config.place.wraps = True
    (said,) = refusal(ConfigError, lambda: made.package).problems
    assert "add a package" in str(said.hint)


def test_with_several_packages_the_user_must_name_one(tree: Path) -> None:
    error = refusal(ConfigError, lambda: project(tree, "", {"a": "a", "b": "b"}).package)
    what = "the wheel has several packages ('a', 'b'): choose the package for the kernels"
    hint = 'for example: package = "a"'
    assert error.problems == (problem("package-not-chosen", what, TABLE_PLACE, hint),)


def test_the_package_with_sources_is_the_example(tree: Path) -> None:
    write_tree(tree, {"b/k.cu": ""})
    for path in (tree / "a").rglob("*.cu"):
        path.unlink()
    error = refusal(ConfigError, lambda: project(tree, "", {"a": "a", "b": "b"}).package)
    assert error.problems[0].hint == 'for example: package = "b"'


def test_a_glob_that_only_looks_inside_the_packages_has_a_hint(tmp_path: Path) -> None:
    write_tree(tmp_path, {"k.cu": ""})
    assert (
        refusal(SourceError, read_sources, project(tmp_path, 'sources = ["*.cu"]')).problems[0].hint
        == 'a glob that begins with a wildcard matches only files in packages: sources = ["k.cu"]'
    )
    (tmp_path / "k.cu").unlink()
    with pytest.raises(SourceError) as caught:
        read_sources(project(tmp_path, 'sources = ["*.cu"]'))
    assert caught.value.problems[0].hint is None


def test_a_variable_that_nothing_reads_is_warned_of(tmp_path: Path) -> None:
    said: list[str] = []
    environ = {"HATCH_CUBIN_ARCH": "sm_80", "HATCH_CUBIN_SKIP": "0", "HATCH_CUBIN_REPORT": "x", "OTHER": "1"}
    made = Project(root=tmp_path, packages={}, config=read_config(), environ=environ, warn=said.append)
    made.warn_of_variables()
    assert said == ["HATCH_CUBIN_ARCH is not a variable of hatch-cubin: did you mean HATCH_CUBIN_ARCHS?"]
    replace(made, environ={"HATCH_CUBIN_XYZZY": ""}).warn_of_variables()
    assert said[1:] == ["HATCH_CUBIN_XYZZY is not a variable of hatch-cubin"]
    replace(made, environ={"HATCH_CUBIN_CACHE_SIZE": "1"}).warn_of_variables()
    assert said[2:] == [
        "HATCH_CUBIN_CACHE_SIZE is not a variable of hatch-cubin: 'cache-size' is a key in pyproject.toml"
    ]


def test_a_variable_of_another_build_system_is_told_with_the_one_that_does_the_same(tmp_path: Path) -> None:
    said: list[str] = []
    environ = {"TORCH_CUDA_ARCH_LIST": "9.0", "MAX_JOBS": "4", "HATCH_CUBIN_JOBS": "4"}
    Project(
        root=tmp_path, packages={}, config=read_config(), environ=environ, inform=said.append
    ).warn_of_variables()
    assert said == ["TORCH_CUDA_ARCH_LIST has no effect on this build: use HATCH_CUBIN_ARCHS instead"]


def test_a_variable_that_changes_what_is_compiled_is_told(tmp_path: Path) -> None:
    said: list[str] = []
    environ = {"HATCH_CUBIN_ARCHS": "sm_90", "HATCH_CUBIN_TOOLKIT": "13"}
    config = read_config("archs = ['sm_80', 'sm_90']", environ)
    made = Project(root=tmp_path, packages={}, config=config, environ=environ, inform=said.append)
    made.warn_of_variables()
    assert [line.split()[0] for line in said] == ["HATCH_CUBIN_ARCHS=sm_90", "HATCH_CUBIN_TOOLKIT=13"]
    option = WithOptions({}, {"HATCH_CUBIN_ARCHS": ("--archs", "sm_90")})
    replace(made, config=read_config("", option), environ=option).warn_of_variables()
    assert said[2:] == []


def test_a_variable_with_flags_of_nvcc_is_told_with_the_key_for_options(tmp_path: Path) -> None:
    said: list[str] = []
    environ = {"NVCC_APPEND_FLAGS": "-lineinfo"}
    Project(
        root=tmp_path, packages={}, config=read_config(), environ=environ, inform=said.append
    ).warn_of_variables()
    assert said == ["NVCC_APPEND_FLAGS has no effect on this build: use 'options' of the table instead"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("HATCHCUBIN_ARCHS", "HATCH_CUBIN_ARCHS"),
        ("HATCH_CUBINS_SKIP", "HATCH_CUBIN_SKIP"),
        ("HATCH-CUBIN-JOBS", "HATCH_CUBIN_JOBS"),
        ("hatch_cubin_archs", "HATCH_CUBIN_ARCHS"),
        ("CUBIN_LOCKED", "HATCH_CUBIN_LOCKED"),
        ("HATCH_CUDA_ARCHS", "HATCH_CUBIN_ARCHS"),
        ("HATCH_CUBIN_SKIP_BUILD", "HATCH_CUBIN_SKIP"),
        ("HATCH_CUBIN_REMOTE_CACHE", "HATCH_CUBIN_REMOTE"),
        ("HATCH_CUBIN_TOKEN", "HATCH_CUBIN_REMOTE_TOKEN"),
        ("HATCH_CUBIN_CACHE_DIR_PATH", "HATCH_CUBIN_CACHE_DIR"),
    ],
)
def test_a_variable_whose_name_is_nearly_one_of_ours_is_warned_of(
    tmp_path: Path, name: str, meant: str
) -> None:
    said: list[str] = []
    Project(
        root=tmp_path, packages={}, config=read_config(), environ={name: "1"}, warn=said.append
    ).warn_of_variables()
    assert said == [f"{name} is not a variable of hatch-cubin: did you mean {meant}?"]


@pytest.mark.parametrize("name", ["NO_BUILD", "NO_CACHE", "NO_SKIP", "UNLOCKED", "DISABLE_STRICT"])
def test_a_variable_that_may_mean_the_opposite_has_no_suggestion(tmp_path: Path, name: str) -> None:
    said: list[str] = []
    variables = {f"HATCH_CUBIN_{name}": "1"}
    Project(
        root=tmp_path, packages={}, config=read_config(), environ=variables, warn=said.append
    ).warn_of_variables()
    assert said == [f"HATCH_CUBIN_{name} is not a variable of hatch-cubin"]


def test_all_documented_variables_are_known(tmp_path: Path) -> None:
    page = Path(__file__).parents[3] / "docs/reference/environment.md"
    names = {*re.findall(r"\bHATCH_CUBIN_[A-Z_]+\b", page.read_text("utf-8"))}
    said: list[str] = []
    made = Project(root=tmp_path, packages={}, config=read_config(), environ={}, warn=said.append)
    environ = dict.fromkeys(names, "0")
    replace(made, environ=environ).warn_of_variables()
    assert [line for line in said if "is not a variable" in line] == []


@pytest.mark.parametrize(
    ("environ", "idle"),
    [
        ({"HATCH_CUBIN_REMOTE_WRITE": "1"}, ["HATCH_CUBIN_REMOTE_WRITE"]),
        ({"HATCH_CUBIN_REMOTE_TOKEN": "t"}, ["HATCH_CUBIN_REMOTE_TOKEN"]),
        ({"HATCH_CUBIN_REMOTE_WRITE": "0", "HATCH_CUBIN_REMOTE_TOKEN": ""}, []),
    ],
)
def test_a_setting_of_a_store_without_a_store_is_warned_of(
    tmp_path: Path, environ: dict[str, str], idle: list[str]
) -> None:
    said: list[str] = []
    made = Project(root=tmp_path, packages={}, config=read_config(), environ=environ, warn=said.append)
    made.warn_of_variables()
    assert said == [
        f"{name} has no effect: set HATCH_CUBIN_REMOTE to the URL of the remote cache too" for name in idle
    ]


@pytest.mark.parametrize(
    "name",
    ["HATCH_CACHE_DIR", "HATCH_BUILD_HOOK_ENABLE_CUBIN", "CUDA_CACHE_PATH", "CUPY_CACHE_DIR", "HATCH_CUSTOM"],
)
def test_a_variable_of_others_is_not(tmp_path: Path, name: str) -> None:
    said: list[str] = []
    Project(
        root=tmp_path, packages={}, config=read_config(), environ={name: "1"}, warn=said.append
    ).warn_of_variables()
    assert said == []


@pytest.mark.parametrize("package", ["demos", "demo.cpu", "dem", "x" * 300, "demo." + "x" * 300])
def test_a_package_that_is_not_in_the_wheel_is_refused(tree: Path, package: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _ = project(tree, f"package = '{package}'").package
    what = f"package {package!r} is not in the wheel, whose packages are: 'demo'"
    refusal = problem("package-not-in-wheel", what, FIRST_PLACE, 'package = "demo"')
    assert caught.value.problems == (refusal,)


# --- folders and switches -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "folder"),
    [
        ("cache", "/p/cache"),
        ("/c/x", "/c/x"),
        ("~/c", "/home/me/c"),
        ("~no-such-user/c", "/p/~no-such-user/c"),
    ],
)
def test_a_cache_folder_is_relative_to_the_project_or_to_home(
    monkeypatch: pytest.MonkeyPatch, written: str, folder: str
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("USERPROFILE", "/home/me")
    made = project(Path("/p"), HATCH_CUBIN_CACHE_DIR=written)
    assert made.cache_folder == Path(folder)


def test_without_a_setting_the_cache_is_in_the_users_cache_folder() -> None:
    user = Path(platformdirs.user_cache_dir("hatch-cubin", appauthor=False))
    assert project(Path("/p")).cache_folder == user / "cubins"


@pytest.mark.parametrize(("value", "on"), [("", False), ("0", False), ("1", True), ("true", True)])
def test_a_project_says_which_switches_of_the_environment_are_on(value: str, *, on: bool) -> None:
    made = project(Path("/p"), HATCH_CUBIN_SKIP=value)
    assert (
        made.is_skipped,
        made.is_switched_on("HATCH_CUBIN_SKIP"),
        made.is_switched_on("HATCH_CUBIN_OTHER"),
    ) == (on, on, False)


def test_a_project_uses_the_environment_of_its_process_and_prints_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_SKIP", "1")
    made = Project(root=Path("/p"), packages={}, config=read_config())
    made.inform("x")
    made.warn("x")
    assert (made.is_skipped, capsys.readouterr()) == (True, ("", ""))


# --- sources --------------------------------------------------------------------------------------


def test_the_sources_are_read_in_the_order_of_their_paths(tmp_path: Path) -> None:
    write_tree(tmp_path, {"src/demo/z.cu": "z", "src/demo/a/k.ptx": "k", "src/demo/m.cu": "m"})
    read = [(source.path, source.text) for source in read_sources(project(tmp_path))]
    assert read == [("src/demo/a/k.ptx", "k"), ("src/demo/m.cu", "m"), ("src/demo/z.cu", "z")]


@pytest.mark.parametrize(
    ("packages", "where"),
    [({"demo": "src/demo"}, "src/demo/"), ({"a": "a", "b": "b"}, "a/, b/"), ({}, "the project")],
    ids=["one", "two", "none"],
)
def test_without_any_source_the_message_has_the_folders_that_were_searched(
    tmp_path: Path, packages: dict[str, str], where: str
) -> None:
    error = refusal(SourceError, read_sources, project(tmp_path, "", packages))
    what = f"there are no .cu, .ptx or .tileir sources in {where}"
    hint = "write a source there, or set 'sources' to the folder of your sources"
    assert error.problems == (problem("no-sources-found", what, TABLE_PLACE, hint),)


@pytest.mark.parametrize(
    ("files", "pattern"),
    [
        ({"csrc/deep/k.cu": "", "src/demo/_cubins/saxpy.compute_90.ptx": ""}, "csrc/deep/**/*.cu"),
        ({"k.ptx": "", "tests/t.cu": ""}, "k.ptx"),
        ({"src/demo/K.CU": ""}, "src/demo/K.CU"),
        (
            {"src/demo/k.cuh": SAXPY, "src/demo/a.h": "int f();", "src/demo/b.py": "", "tools/x.c": SAXPY},
            "src/demo/k.cuh",
        ),
        ({"src/demo/k.c": SAXPY}, "src/demo/k.c"),
        ({"src/demo/k.cuda": SAXPY, "src/demo/m.cu.txt": SAXPY}, 'src/demo/k.cuda", "src/demo/m.cu.txt'),
        ({"src/demo/a.cuh": SAXPY, "src/demo/b.cuh": SAXPY}, 'src/demo/a.cuh", "src/demo/b.cuh'),
        ({"src/demo/a.h": "\0", "src/demo/k.hpp": SAXPY}, "src/demo/k.hpp"),
    ],
    ids=[
        "in a folder",
        "in the project's",
        "in capitals",
        "called like a header",
        "called like C",
        "with other suffixes",
        "several called like headers",
        "beside what is no text",
    ],
)
def test_without_any_source_the_hint_names_files_with_kernels(
    tmp_path: Path, files: dict[str, str], pattern: str
) -> None:
    write_tree(tmp_path, files)
    with pytest.raises(SourceError) as caught:
        read_sources(project(tmp_path))
    assert [each.hint for each in caught.value.problems] == [f'sources = ["{pattern}"]']


def test_if_every_source_is_excluded_the_message_names_them(tmp_path: Path) -> None:
    write_tree(tmp_path, {"src/demo/k.cu": SAXPY, "src/demo/a/m.ptx": "", "other/k.cu": SAXPY})
    error = refusal(SourceError, read_sources, project(tmp_path, 'exclude = ["src/demo/**"]'))
    what = "'exclude' excludes all sources: src/demo/a/m.ptx, src/demo/k.cu"
    hint = "a project without kernels does not need hatch-cubin"
    assert error.problems == (problem("all-sources-excluded", what, FIRST_PLACE, hint),)


def test_a_folder_in_place_of_a_glob_has_a_hint(tmp_path: Path) -> None:
    write_tree(tmp_path, {"kernels/a.cu": ""})
    error = refusal(SourceError, read_sources, project(tmp_path, 'sources = ["kernels/"]'))
    what, hint = (
        "sources: 'kernels' matches no file",
        'the path is a folder: write "kernels/**/*.cu" for the sources in the folder',
    )
    assert error.problems == (problem("pattern-matches-nothing", what, FIRST_PLACE, hint),)


def test_a_glob_in_a_wrong_folder_is_told_where_the_sources_are(tmp_path: Path) -> None:
    write_tree(tmp_path, {"src/demo/k.cu": SAXPY, "src/demo/a/l.cu": SAXPY, "src/demo/readme.md": ""})
    with pytest.raises(SourceError) as caught:
        read_sources(project(tmp_path, 'sources = ["kernels/**/*.cu"]'))
    assert [each.hint for each in caught.value.problems] == ["sources are in: src/demo/*.cu, src/demo/a/*.cu"]


def test_a_path_in_exclude_that_is_not_a_source_is_warned_of(tmp_path: Path) -> None:
    said: list[str] = []
    write_tree(tmp_path, {"src/demo/k.cu": SAXPY, "src/demo/old.cu": SAXPY})
    for exclude in ("src/demo/odl.cu", "src/demo/old.cu", "**/test_*.cu"):
        made = replace(project(tmp_path, f'exclude = ["{exclude}"]'), warn=said.append)
        read_sources(made)
    what, hint = "exclude: 'src/demo/odl.cu' matches no source", "'hatch-cubin plan' lists the sources"
    assert said == [f"{FIRST_PLACE}: {what}\n  hint: {hint}"]


def test_a_header_in_exclude_is_not_taken_for_a_source_with_a_similar_name(tmp_path: Path) -> None:
    said: list[str] = []
    write_tree(tmp_path, {"src/demo/k.cu": SAXPY, "src/demo/k.cuh": ""})
    read_sources(replace(project(tmp_path, 'exclude = ["src/demo/k.cuh"]'), warn=said.append))
    assert "need not be excluded" in said[0]


def test_a_source_with_a_suffix_in_capital_letters_is_warned_of(tmp_path: Path) -> None:
    files = dict.fromkeys(("src/demo/a.cu", "src/demo/b.CU", "src/demo/c.PTX", "src/demo/d.CUH"), SAXPY)
    write_tree(tmp_path, files)
    said: list[str] = []
    read_sources(replace(project(tmp_path, 'exclude = ["**/c.*"]'), warn=said.append))
    assert said == [
        "src/demo/b.CU: is not compiled, because its suffix is in capital letters\n  hint: rename the file"
    ]
    read_sources(replace(project(tmp_path, 'sources = ["**/*.cu"]'), warn=said.append))
    assert len(said) == 1


@pytest.mark.parametrize(
    ("exclude", "glob"),
    [
        ("e.cu", "**/e.cu"),
        ("draft/", "draft/**"),
        ("old", "**/old/**"),
        ("*_test.cu", "**/*_test.cu"),
        ("old/**", "**/old/**"),
    ],
)
def test_a_name_in_exclude_is_warned_of_with_the_glob_for_sources_of_this_name(
    tmp_path: Path, exclude: str, glob: str
) -> None:
    said: list[str] = []
    names = ("k.cu", "draft/e.cu", "draft/old/a.cu", "draft/a_test.cu")
    write_tree(tmp_path, {f"src/demo/{name}": SAXPY for name in names})
    read_sources(replace(project(tmp_path, f'exclude = ["{exclude}"]'), warn=said.append))
    (warning,) = said
    assert f'write "{glob}"' in warning
    said.clear()
    read_sources(replace(project(tmp_path, f'exclude = ["{glob}"]'), warn=said.append))
    assert said == []


def test_a_folder_in_exclude_is_warned_of_with_the_glob_for_its_files(tmp_path: Path) -> None:
    said: list[str] = []
    write_tree(tmp_path, {"src/demo/k.cu": SAXPY, "src/demo/draft/e.cu": SAXPY})
    made = replace(project(tmp_path, 'exclude = ["src/demo/draft"]'), warn=said.append)
    read_sources(made)
    assert '"src/demo/draft/**"' in said[0]
    made = replace(project(tmp_path, 'exclude = ["src/demo/draft/**"]'), warn=said.append)
    assert [source.path for source in read_sources(made).all] == ["src/demo/k.cu"]
    assert len(said) == 1


def test_a_path_that_is_nearly_one_of_the_project_is_guessed(tmp_path: Path) -> None:
    write_tree(tmp_path, {"kernels/reduce.cu": SAXPY, "headers/common.h": ""})
    module = f'[[{".".join(TABLE)}.module]]\nname = "m"\nmode = "lto"\nsources = ["kernels/reduces.cu"]'
    options = f'sources = ["kernels/redcue.cu"]\ninclude-dirs = ["header"]\n{module}'
    with pytest.raises(SourceError) as caught:
        read_sources(project(tmp_path, options))
    assert [(each.code, each.hint) for each in caught.value.problems] == [
        ("pattern-matches-nothing", "did you mean 'kernels/reduce.cu'?"),
        ("pattern-matches-nothing", "did you mean 'kernels/reduce.cu'?"),
        ("include-folder-not-found", "did you mean 'headers'?"),
    ]


def test_a_path_from_another_folder_is_named_from_the_projects_folder(tmp_path: Path) -> None:
    files = {f"src/demo/{name}/detail/k.h": "" for name in ("a", "b")}
    write_tree(tmp_path, {"src/demo/kernels/reduce.cu": SAXPY, "lib/inc/x.h": "", **files})
    options = 'sources = ["reduce.cu", "demo/kernels/reduce.cu"]\ninclude-dirs = ["inc", "detail", "x/y"]\n'
    with pytest.raises(SourceError) as caught:
        read_sources(project(tmp_path, options))
    assert [each.hint for each in caught.value.problems] == [
        "did you mean 'src/demo/kernels/reduce.cu'?",
        "did you mean 'src/demo/kernels/reduce.cu'?",
        "did you mean 'lib/inc'?",
        "did you mean 'src/demo/a/detail' or 'src/demo/b/detail'?",
        _NO_FOLDER,
    ]


def test_every_problem_of_the_sources_is_reported_at_once(tmp_path: Path) -> None:
    write_tree(tmp_path, {"src/demo/a.cu": b"\0", "src/demo/b.cu": "", "src/demo/inc/x.h": ""})
    (tmp_path / "src/demo/c.cu").symlink_to("gone.cu")
    options = f"""\
        sources = [
          "**/*.cu",
          "kernels/*.cu",
          "**/*.ptx",
        ]
        include-dirs = ["src/demo/inc", "include"]
        [[{".".join(TABLE)}.source]]
        path = "**/a.cu"
        include-dirs = [
          "src/demo/a.cu",
        ]
        """
    error = refusal(SourceError, read_sources, project(tmp_path, options))
    assert found(error) == [
        ("pattern-matches-nothing", f"pyproject.toml:{HEADER + 3}"),
        ("include-folder-not-found", f"pyproject.toml:{HEADER + 6}"),
        ("include-folder-not-found", f"pyproject.toml:{HEADER + 10}"),
        ("nul-byte-in-source", "src/demo/a.cu"),
        ("file-not-readable", "src/demo/c.cu"),
    ]
    assert [each.what for each in error.problems[1:3]] == [
        f"include-dirs: {folder!r} is not a folder of the project" for folder in ("include", "src/demo/a.cu")
    ]
    assert [each.hint for each in error.problems[1:3]] == [
        (
            "a path in 'include-dirs' begins at the project's folder; "
            "'header-packages' is for headers in wheels such as nvidia-cutlass"
        ),
        'the path is a file: write the name of its folder, "src/demo"',
    ]


def test_the_sources_of_several_tables_may_be_in_one_folder(tmp_path: Path) -> None:
    names = ["a.cu", "b.cu", "c.cu", "d.cu", "e.cu"]
    write_tree(tmp_path, {**{f"src/demo/{name}": SAXPY for name in names}, "lib/f.cu": SAXPY})
    tables = {
        "m": ["src/demo/b.cu", "lib/*.cu"],
        "n": ["src/demo/a.cu", "src/demo/d.cu"],
        "o": ["**/[ce].cu"],
    }
    rules = (
        f'[[{".".join(TABLE)}.module]]\nname = "{name}"\nmode = "rdc"\nsources = {json.dumps(sources)}\n'
        for name, sources in tables.items()
    )
    made = project(tmp_path, "".join(rules))
    sources = read_sources(made)
    assert sources.by_module_table == (
        ("src/demo/b.cu", "lib/f.cu"),
        ("src/demo/a.cu", "src/demo/d.cu"),
        ("src/demo/c.cu", "src/demo/e.cu"),
    )
    assert reachable_files(made, sources) == ["lib/f.cu", *(f"src/demo/{name}" for name in names)]


def test_a_default_pattern_may_find_nothing(tmp_path: Path) -> None:
    write_tree(tmp_path, {"src/demo/a.cu": ""})
    made = project(tmp_path, "sources = ['**/*.cu', '**/*.ptx']")
    assert [source.path for source in read_sources(made)] == ["src/demo/a.cu"]


@pytest.mark.linux
def test_include_folders_that_lead_out_of_the_project_are_refused(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "p", {"src/demo/a.cu": "", "real/x.h": ""})
    (root / "out").symlink_to("/etc")
    (root / "up").symlink_to(tmp_path)
    (root / "here").symlink_to("real")
    error = refusal(SourceError, read_sources, project(root, 'include-dirs = ["here", "out", "up"]'))
    what = "include-dirs: {!r} is a link to a place outside the project"
    hint = "copy the headers into the project"
    assert error.problems == tuple(
        problem("link-leads-outside", what.format(name), FIRST_PLACE, hint) for name in ("out", "up")
    )
