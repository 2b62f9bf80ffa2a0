"""The documentation as a whole: links lead somewhere, snippets are what they say they are."""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hatch_cubin import loader
from hatch_cubin.building import pipeline
from hatch_cubin.cli import main
from hatch_cubin.config import table_location, toml_positions
from hatch_cubin.config.config import TableLocation, parse_config
from hatch_cubin.config.known_names import WRAPPER
from hatch_cubin.project.project import Project
from tests.docs_pages import PAGES, anchors, blocks, page, rows
from tests.helpers import REPOSITORY, SAXPY, bundle, load_bundle, made, make_project, run, write_tree

README = PAGES["README.md"]
LINKS = [
    (name, *link)
    for name, text in PAGES.items()
    for link in re.findall(r"\]\(([^)#:\s]*)(?:#([^)]*))?\)", text)
]


# Links


@pytest.mark.parametrize(("name", "path", "anchor"), LINKS)
def test_a_link_leads_somewhere(name: str, path: str, anchor: str) -> None:
    target = (REPOSITORY / name).parent / path if path else REPOSITORY / name
    assert target.exists()
    if anchor:
        assert anchor in anchors(target.read_text("utf-8"))


def test_the_index_has_every_guide_and_every_page_of_the_reference() -> None:
    there = {name.removeprefix("docs/") for name in PAGES if re.match(r"docs/(guides|reference)/", name)}
    assert there - {path for name, path, _anchor in LINKS if name == "docs/README.md"} == set()


def test_the_index_of_the_decisions_has_each_by_its_number_and_title() -> None:
    records = {
        name.removeprefix("docs/decisions/"): text for name, text in PAGES.items() if "decisions/0" in name
    }
    told = [
        [f"[{name[:4]}]({name})", text.partition("\n")[0].removeprefix(f"# {name[:4]} · ")]
        for name, text in sorted(records.items())
    ]
    assert told == rows(PAGES["docs/decisions/README.md"])


def test_the_readme_is_read_in_ten_minutes() -> None:
    assert len(README.splitlines()) <= 130
    assert len(README.split()) < 200 * 10


# Snippets

TOML = [(name, text) for name, content in PAGES.items() for text in blocks(content, "toml")]
PYTHON = [(name, text) for name, content in PAGES.items() for text in blocks(content, "python")]
COMMANDS = [
    (name, match)
    for name, content in PAGES.items()
    for language in ("sh", "console", "yaml")
    for text in blocks(content, language)
    for match in re.findall(r"^(?:\$ |[ -]*)?(?:\w+=\S+ )*(hatch-cubin .*)$", text, re.MULTILINE)
]


@pytest.mark.parametrize(("name", "text"), TOML, ids=[name for name, _text in TOML])
def test_a_table_is_valid(name: str, text: str) -> None:
    parsed = toml_positions.loads(text)
    for path in (("tool", "hatch", "build", "hooks", table_location.HOOK), table_location.OWN_TABLE):
        table = table_location.inside(parsed, *path)
        if table:
            wraps = table_location.inside(parsed, "build-system").get("build-backend") == WRAPPER
            parse_config(table, TableLocation(name, text, path, wraps=wraps), {})  # raises where it is not


@pytest.mark.parametrize(("name", "text"), PYTHON, ids=[name for name, _text in PYTHON])
def test_python_compiles(name: str, text: str) -> None:
    compile(text, name, "exec")


@pytest.mark.parametrize(("name", "command"), COMMANDS)
def test_a_command_is_one_that_there_is(name: str, command: str) -> None:
    _program, *arguments = shlex.split(re.split("[|;>&]", command)[0], comments=True)
    main.make_parser([*main.VERBS]).parse_args(arguments)  # ends this where it cannot be meant


# What needs no GPU runs


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the bundle of the example project, by whichever toolkit is here."""
    root = shutil.copytree(REPOSITORY / "example_project", tmp_path_factory.mktemp("example") / "waves")
    table, place, _backend = table_location.find_table(root)
    config = replace(parse_config(table, place, {}), toolkit=None)
    return pipeline.build(Project(root=root, packages={"waves": "src/waves"}, config=config))


@pytest.mark.nvrtc
def test_what_the_loaders_page_shows_is_what_the_example_project_gives(
    tmp_path: Path, example: dict[str, bytes]
) -> None:
    text = "\n".join(blocks(page("reference/loader"), "pycon"))
    shown = doctest.DocTestParser().get_doctest(
        text, {"cubins": load_bundle(tmp_path, example)}, "loader.md", None, None
    )
    said: list[str] = []
    results = doctest.DocTestRunner().run(shown, out=said.append)
    assert (results.failed, results.attempted > 5) == (0, True), "".join(said)


@pytest.mark.nvrtc
def test_the_pages_count_what_the_example_project_has(example: dict[str, bytes]) -> None:
    units = [name for name in example if name.endswith((".cubin", ".ptx"))]
    guide = page("guides/looking-into-wheels")
    files = len(example) - 1  # the bill of materials stands elsewhere
    assert re.findall(r"all (\d+) files", guide) == [str(files)] * 2
    assert f"of {len(units)} units compiled again, {len(units)} have exactly the same bytes" in guide
    assert f"{len(units)} units: 0 cached, {len(units)} compiled in" in README


def test_the_tests_that_a_guide_advises_run(tmp_path: Path) -> None:
    (text,) = (block for block in blocks(page("guides/without-a-compiler"), "python"))
    cubins = {"__init__.py": Path(loader.__file__).read_bytes(), **bundle(made("saxpy", "sm_80"))}
    write_tree(tmp_path / "mypkg/_cubins", cubins)
    write_tree(tmp_path, {"mypkg/__init__.py": "", "test_snippet.py": text})
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_snippet.py")
    done = run(*command, cwd=tmp_path, check=False)
    assert "1 failed" in done.stdout
    assert "no shipped code of 'saxpy' runs on compute capability 9.0" in done.stdout


def test_a_bundle_without_kernels_says_what_the_guide_says(tmp_path: Path) -> None:
    project = make_project(tmp_path, {"saxpy.cu": SAXPY}, HATCH_CUBIN_SKIP="1")
    cubins = load_bundle(tmp_path / "bundle", pipeline.build(project))
    (message,) = re.findall(
        r"^CubinNotFoundError: mypkg._cubins: (.*)$", page("guides/without-a-compiler"), re.MULTILINE
    )
    assert (cubins.names(), cubins.archs()) == ((), ())
    with pytest.raises(cubins.CubinNotFoundError, match=re.escape(message)):
        cubins.find("saxpy", cc=(9, 0))


@pytest.mark.nvrtc
def test_instantiations_take_less_room_than_variants(tmp_path: Path) -> None:
    (macro,) = blocks(page("guides/wheel-size"), "c++")
    template = re.sub(r"#ifndef.*?#endif\n", "", macro, flags=re.DOTALL)
    template = template.replace('extern "C"', "template <int BLOCK>")
    table = 'archs = ["sm_90"]\n[[tool.hatch.build.hooks.cubin.source]]\npath = "demo/sum.cu"\n'
    settings = {"variants = { BLOCK = [64, 256] }": macro, 'instantiate = ["sum<64>", "sum<256>"]': template}
    sizes = []
    for number, (setting, text) in enumerate(settings.items()):
        files = pipeline.build(make_project(tmp_path / str(number), {"sum.cu": text}, f"{table}{setting}\n"))
        sizes.append(sum(len(data) for name, data in files.items() if name.endswith(".cubin")))
    assert sizes[1] < 0.7 * sizes[0]
