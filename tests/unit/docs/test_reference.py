"""The reference says of keys, variables, options, calls and messages what the code says of them."""

from __future__ import annotations

import argparse
import ast
import functools
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

from hatch_cubin import loader
from hatch_cubin.cache.records import Record
from hatch_cubin.cli import main
from hatch_cubin.common import arch_names
from hatch_cubin.config import known_names, ptxas_options, reader, reserved_macros, toml_positions
from hatch_cubin.config.config import (
    Config,
    ModuleRule,
    ProducerRule,
    SourceRule,
    TableLocation,
    parse_config,
)
from hatch_cubin.config.nvrtc_options import ALLOWED, REFUSED
from hatch_cubin.errors import ConfigError
from tests.docs_pages import code, page, rows, section
from tests.helpers import REPOSITORY, entry_fields, read_config

CONFIGURATION = page("reference/configuration")
COMMAND_LINE = page("reference/command-line")
ENVIRONMENT = page("reference/environment")
ERRORS = page("reference/errors")
LOADER = page("reference/loader")


# The keys of the table

KEYS = {
    key: cells
    for heading in (
        "## Keys",
        "## Source tables",
        "## Module tables",
        "## Producer tables",
        "## Around another backend",
    )
    for name, *cells in rows(section(CONFIGURATION, heading))
    for key in code(name)
}
# Something of each type; true is no integer, and an array of strings none of tables.
SAMPLES = {
    "string": '"sm_90"',
    "integer": "3",
    "boolean": "true",
    "array of strings": '["sm_90"]',
    "array of strings and tables": '["sm_90", { kernel = "f<{N}>", N = [1] }]',
    "table": "{ N = 1 }",
    "array of tables": "[{ N = 1 }]",
}
OF_A_MODULE = {"name": '"m"', "sources": '["k.cu"]', "mode": '"rdc"'}


def with_key(key: str, value: str) -> Config:
    """Return the configuration of a table that has one key."""
    if key.startswith("source."):
        path = "" if key == "source.path" else 'path = "k.cu"\n'
        return read_config(f"[[tool.hatch.build.hooks.cubin.source]]\n{path}{key[7:]} = {value}\n")
    if key.startswith("module."):
        rest = "".join(f"{name} = {text}\n" for name, text in OF_A_MODULE.items() if key != f"module.{name}")
        return read_config(f"[[tool.hatch.build.hooks.cubin.module]]\n{rest}{key[7:]} = {value}\n")
    if key.startswith("producer."):
        path = "" if key == "producer.path" else 'path = "gen.py"\n'
        return read_config(f"[[tool.hatch.build.hooks.cubin.producer]]\n{path}{key[9:]} = {value}\n")
    if key in reader._WRAPPER_CHECKS:
        table = {"backend": "x", **toml_positions.loads(f"{key} = {value}\n")}
        return parse_config(table, TableLocation("", "", (), wraps=True), {})
    return read_config(f"{key} = {value}\n")


def test_every_key_is_documented_and_no_other() -> None:
    of_sources = [f"source.{key}" for key in reader._SOURCE_CHECKS]
    of_modules = [f"module.{key}" for key in reader._MODULE_CHECKS]
    of_producers = [f"producer.{key}" for key in reader._PRODUCER_CHECKS]
    assert [*KEYS] == [*reader._CHECKS, *of_sources, *of_modules, *of_producers, *reader._WRAPPER_CHECKS]


@pytest.mark.parametrize("key", KEYS)
def test_a_key_takes_its_example_and_no_other_type(key: str) -> None:
    kind, _default, example, _meaning = KEYS[key]
    with_key(key, *code(example))
    for other, sample in SAMPLES.items():
        if other not in {kind, kind.removesuffix(" and tables")}:
            with pytest.raises(ConfigError, match=key.rpartition(".")[2]):
                with_key(key, sample)


def test_an_example_is_of_the_type_that_is_documented() -> None:
    plain: dict[type, str] = {str: "string", int: "integer", bool: "boolean", dict: "table"}

    def kind(value: Any) -> str:
        if not isinstance(value, list):
            return plain[type(value)]
        return f"array of {' and '.join(dict.fromkeys(f'{kind(item)}s' for item in value))}"

    found = {key: kind(toml_positions.loads(f"v = {code(cells[2])[0]}")["v"]) for key, cells in KEYS.items()}
    assert found == {key: cells[0] for key, cells in KEYS.items()}


def test_the_defaults_are_those_that_are_documented() -> None:
    config = Config(place=TableLocation("", "", ()))
    rules: dict[str, object] = {
        "": config,
        "source": SourceRule(path=""),
        "module": ModuleRule(name="", sources=(), mode=""),
        "producer": ProducerRule(path=""),
    }
    nothing: tuple[object, ...] = (None, "", (), {})
    for key, (kind, default, *_rest) in KEYS.items():
        table, _, name = key.rpartition(".")
        value: Any = getattr(rules[table], "front" if name == "as" else name.replace("-", "_"))
        if not default:
            assert value in nothing, key
            continue
        shown = toml_positions.loads(f"v = {code(default)[0]}")["v"]
        if isinstance(value, (tuple, dict)):
            value = dict(value) if kind == "table" else [*value]
        assert value == shown


def test_hatchs_own_keys_are_named() -> None:
    named = set(code(section(CONFIGURATION, "## Keys").rpartition("| ")[2]))
    assert named == known_names.HATCHLING_KEYS


# What their values mean

CUDA_13_0 = (75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121)


@pytest.mark.parametrize(
    ("written", "archs"), [row[:2] for row in rows(section(CONFIGURATION, "## Archs"))], ids=str
)
def test_an_arch_builds_what_is_documented(written: str, archs: str) -> None:
    targets = arch_names.expand(code(written), CUDA_13_0, ())
    listed = [name for name in code(archs) if "_" in name]
    assert [str(target.arch) for target in targets] == listed


def test_the_groups_are_those_that_are_documented() -> None:
    groups = {name for row in rows(section(CONFIGURATION, "## Archs")) for name in code(row[0])}
    assert set(arch_names.GROUPS) - groups == {"native"}
    assert "`native` stands for the archs of the GPUs" in CONFIGURATION


@pytest.mark.parametrize("written", [row[0] for row in rows(section(CONFIGURATION, "## Toolkit"))])
def test_a_toolkit_can_be_written_as_documented(written: str) -> None:
    (text,) = code(written)
    assert read_config(f"toolkit = {text}").toolkit == text.strip('"')


@pytest.mark.parametrize(("written", "given"), list(rows(section(CONFIGURATION, "## Macros"))), ids=str)
def test_a_macro_is_given_to_the_compiler_as_documented(written: str, given: str) -> None:
    define = read_config(code(written)[0]).define
    assert [f"-D{name}={text}" for name, text in define] == code(given)


def test_the_reserved_names_are_those_that_are_documented() -> None:
    refused, _, free = section(CONFIGURATION, "## Macros").partition("Most names in capitals can be macros")
    listed = {name for line in re.findall(r"^(?:- |  ).*$", refused, re.MULTILINE) for name in code(line)}
    assert len(listed) > 30
    assert listed <= reserved_macros.NAMES
    free, _, called = free.partition("A macro with parameters")
    assert code(free)
    assert not set(code(free)) & reserved_macros.NAMES
    assert {name.partition("(")[0] for name in code(called)} <= reserved_macros.CALLED
    assert f"some {len(reserved_macros.NAMES) // 10 * 10 + 10} names" in refused


def test_the_options_are_those_that_are_documented() -> None:
    tables = list(rows(section(CONFIGURATION, "## Options")))
    prefix = "options that accept "
    allowed = {
        name: kind.removeprefix(prefix)
        for kind, names in tables
        if kind.startswith(prefix)
        for name in code(names)
    }
    refused = {each: why for names, why in tables if not names.startswith(prefix) for each in code(names)}
    assert allowed == dict(ALLOWED)
    assert refused == dict(REFUSED)


def test_the_options_of_ptxas_are_those_that_are_documented() -> None:
    allowed, refused = section(CONFIGURATION, "## Options of ptxas").split("| options | why |")
    for text, known in ((allowed, ptxas_options.ALLOWED), (refused, ptxas_options.REFUSED)):
        named = {
            name for name in code(text.partition("| --- |")[2]) if re.fullmatch("--?[A-Za-z][^=]*", name)
        }
        # A short name that is the long one is not repeated.
        same = {name[1:] for name in named if name.startswith("--") and name[1:] in known}
        assert named | same == {*known}


# Environment


def test_every_variable_is_documented_and_no_other() -> None:
    documented = {name.partition("=")[0] for row in rows(ENVIRONMENT) for name in code(row[0])}
    used = {
        name
        for path in (REPOSITORY / "hatch_cubin").rglob("*.py")
        for name in re.findall(r"HATCH_CUBIN_[A-Z_]+", path.read_text("utf-8"))
    }
    assert {name for name in documented if name.startswith("HATCH_CUBIN_")} == used


def test_a_variable_that_replaces_a_key_says_which() -> None:
    replaced = {
        code(row[0])[0]: code(row[1])[0] for row in rows(ENVIRONMENT) if row[1].startswith("replaces")
    }
    keys = {variable: name.replace("_", "-") for variable, (name, _read) in reader._VARIABLES.items()}
    assert keys.pop("HATCH_CUBIN_TIMEOUT") == "timeout-s"  # no key of the table
    assert keys.pop("HATCH_CUBIN_EXECUTOR") == "executor"  # likewise
    assert replaced == keys
    (timeout,) = (row for row in rows(ENVIRONMENT) if "HATCH_CUBIN_TIMEOUT" in row[0])
    assert float(code(timeout[1])[0]) == read_config().timeout_s


# Command line


def parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield every verb, and every action of a verb, with its parser."""

    def below(parser: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for choice, own in action.choices.items():
                    yield f"{name} {choice}".lstrip(), own
                    yield from below(own, f"{name} {choice}".lstrip())

    return below(main.make_parser([*main.VERBS]), "")


def arguments(parser: argparse.ArgumentParser) -> set[str]:
    """Return a parser's arguments, as the page writes them."""
    return {
        " ".join([*", ".join(action.option_strings).split(), *value_of(action)])
        for action in parser._actions
        if not isinstance(action, (argparse._SubParsersAction, argparse._HelpAction))
    }


def value_of(action: argparse.Action) -> list[str]:
    return [] if action.nargs == 0 else [str(action.metavar)]


PARSERS = dict(parsers())


# Without the options of all verbs: each option with the verbs that have it; none are named if all have it.
SHARED_OPTIONS = {
    row[0].replace("`", ""): code(row[1]) for row in rows(COMMAND_LINE.partition("\n## ")[0]) if len(row) == 3
}


def shared_options(name: str) -> set[str]:
    named = {name, name.partition(" ")[0]}
    return {option for option, verbs in SHARED_OPTIONS.items() if not verbs or named & {*verbs}}


def test_the_options_of_all_verbs_are_documented() -> None:
    introduction = COMMAND_LINE.partition("\n## ")[0]
    found = [row for row in rows(introduction) if len(row) == 2]
    options = {option.split()[0] for row in found for option in code(row[0])}
    assert options == {each for action in main.make_parser([])._actions for each in action.option_strings}


def documented_options(heading: str) -> set[str]:
    own = section(COMMAND_LINE, heading).partition("\n### ")[0]
    return {row[0].replace("`", "") for row in rows(own)}


def test_every_verb_is_documented_and_no_other() -> None:
    headings = re.findall(r"^##+ (.*)$", COMMAND_LINE, re.MULTILINE)
    assert sorted(headings) == sorted(PARSERS)


@pytest.mark.parametrize("name", PARSERS)
def test_a_verb_has_the_options_that_are_documented(name: str) -> None:
    verb, _, action = name.partition(" ")
    heading = f"### {name}" if action else f"## {verb}"
    if name != "cache":  # its actions have the options
        assert documented_options(heading) | shared_options(name) == arguments(PARSERS[name])


# The loader


def test_every_call_is_documented_with_its_parameters() -> None:
    def written(name: str) -> str:
        parameters = inspect.signature(getattr(loader, name)).parameters.values()
        bare = inspect.Signature([each.replace(annotation=inspect.Parameter.empty) for each in parameters])
        return f"{name}{bare}".replace(repr(loader._UNSET), "…")

    calls = {name for name in loader.__all__ if name[0].islower()}
    documented = [code(row[0])[0] for row in rows(section(LOADER, "## Calls"))]
    assert sorted(documented) == sorted(map(written, calls))


def test_every_field_of_an_entry_is_documented() -> None:
    assert {code(row[0])[0] for row in rows(section(LOADER, "## Entry"))} == entry_fields()


def test_every_error_of_the_loader_is_documented() -> None:
    named = {code(row[0])[0] for row in rows(section(LOADER, "## Errors"))}
    there = {name for name in loader.__all__ if name.endswith("Error")}
    assert there - named == {"CubinError"}
    assert named <= there
    assert "All errors of the loader are subclasses of `CubinError`" in LOADER


CAPABILITIES = (75, 80, 86, 87, 89, 90, 100, 101, 103, 107, 110, 120, 121)


@pytest.mark.parametrize(
    ("rule", "file", "runs_on"), rows(section(LOADER, "## Which file runs where")), ids=str
)
def test_a_file_runs_where_the_table_says(rule: str, file: str, runs_on: str) -> None:
    listed = [int(text.replace(".", "")) for text in re.findall(r"\d+\.\d", runs_on)]
    if "any newer" in runs_on:
        listed = [cc for cc in CAPABILITIES if cc >= listed[0]]
    (arch,) = code(file)
    chosen = {cc: loader.select(cc, None, [(arch, 0)]) for cc in CAPABILITIES}
    assert [cc for cc, found in chosen.items() if found == (arch, *code(rule))] == listed


@pytest.mark.parametrize(
    ("capability", "runs", "rule"),
    rows(section(page("guides/choosing-archs"), "## A list to start from")),
    ids=str,
)
def test_the_list_to_start_from_serves_what_the_guide_says(capability: str, runs: str, rule: str) -> None:
    guide = section(page("guides/choosing-archs"), "## A list to start from")
    archs = toml_positions.loads(guide.partition("```toml\n")[2].partition("```")[0])
    shipped = [(arch, 0) for arch in archs["tool"]["hatch"]["build"]["hooks"]["cubin"]["archs"]]
    found = loader.select(int(capability.replace(".", "")), None, shipped)
    assert found == ((code(runs)[0], rule) if code(runs) else None)


# Errors


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def rendered(node: ast.AST) -> str:
    """Return a text of the code, with `…` for what it fills in."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in parts)


def said() -> Iterator[str]:
    """Yield every text of the code but docstrings, which say nothing to a user."""
    for path in (REPOSITORY / "hatch_cubin").rglob("*.py"):
        nodes = [*ast.walk(ast.parse(path.read_text("utf-8")))]
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        yield from (rendered(node) for node in nodes if is_text(node) and id(node) not in docstrings)


@functools.cache
def all_said() -> str:
    return "\0".join(said())


@pytest.mark.parametrize("message", [each for row in rows(ERRORS) for each in row[-2].split("<br>")])
def test_a_message_that_is_documented_is_one_that_the_code_has(message: str) -> None:
    (text,) = re.fullmatch(r"`(.*)`", message).groups()  # type: ignore[union-attr]
    assert text in all_said()


_COMPOSED = ("…;", "…:")  # begins with a sentence that was worded before


def refusals() -> Iterator[str]:
    """Yield each sentence of `raise Cubin…Error(_message("…"))` and `raise _unavailable("…")`."""
    trees = [
        ast.parse(path.read_text("utf-8"))
        for path in sorted((REPOSITORY / "hatch_cubin/loader").glob("*.py"))
    ]
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            raised, (say, *_) = ast.unparse(node.exc.func), node.exc.args
            worded: list[ast.expr] = [say] if raised == "_unavailable" else []
            if raised.startswith("Cubin") and isinstance(say, ast.Call):
                worded = say.args
            texts = map(rendered, filter(is_text, worded))
            yield from (text for text in texts if not text.startswith(_COMPOSED))


def test_the_fields_of_a_record_are_documented() -> None:
    documented = rows(section(page("reference/shared-cache"), "## A record"))
    assert {name for field, _meaning in documented for name in code(field)} == {*Record._fields}


def test_every_refusal_of_the_loader_is_documented() -> None:
    messages = [text for row in rows(section(ERRORS, "## When a kernel is loaded")) for text in code(row[0])]
    sentences = list(refusals())
    assert len(sentences) > 10
    assert [each for each in sentences if not any(text in each for text in messages)] == []
