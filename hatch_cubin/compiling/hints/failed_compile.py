"""A failed compile, with the facts that hints need: the project, the source and the version of CUDA."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ...config import toml_lines
from ...config.config import Config, Macros, ModuleRule, SourceRule
from ...config.value_checks import WrittenInstantiation
from ...errors import Location, SourceError
from ...headers.resolve import SearchFolder
from ...planning.unit_plan import Module
from ...project import disk
from ...project.source import Source, glob_regex
from ...project.source_roots import ProjectTree
from .include_chain import Step, include_chains_from


@dataclass(frozen=True, slots=True)
class FailedCompile:
    """A failed compile: its source, its project, and its version of CUDA."""

    tree: ProjectTree
    config: Config
    module: Module
    search: tuple[SearchFolder, ...]  # The folders in which the compiler searched for headers.
    headers: tuple[str, ...]  # The headers of the project that the source may include.
    version: tuple[int, int]
    sources: Mapping[str, str] = field(default_factory=dict)  # the texts of all sources of the project

    @property
    def path(self) -> str:
        """The path of the source, relative to the project."""
        return self.module.source.path

    @property
    def include_chains(self) -> Mapping[str, tuple[Step, ...]]:
        """A mapping from the name of each header to the chain of includes from the source to the header."""
        return include_chains_from(self.module.source, self.tree, self.search)

    def text_of(self, path: str) -> str:
        """Return the text of a source or header of the project; empty if the file was removed."""
        if path == self.path:
            return self.module.source.text
        return self._text_on_disk(path) if path in self.headers else ""

    def _text_on_disk(self, path: str) -> str:
        try:
            return disk.read_file(self.tree.disk_path(path), self.tree).decode("utf-8", "replace")
        except SourceError:
            return ""

    def texts_of_other(self, path: str) -> Iterator[str]:
        """Yield the texts of another source and of the project's headers that the other source includes."""
        yield self.sources[path]
        for header in include_chains_from(Source(path, self.sources[path]), self.tree, self.search):
            if header != path and not header.startswith("<"):
                yield self._text_on_disk(header)

    def line(self, key: str, value: Sequence[str]) -> str:
        """Return a line for pyproject.toml that adds the items of *value* to the list *key*."""
        produced = self.module.source.produced
        # The list 'exclude' contains file names, but a source that a script produces is not a file.
        if produced and key == "exclude":
            return produced.leave_out
        # The global include folders do not apply to calls of a library.
        if self.module.front and key == "include-dirs":
            path = self.module.source.path_for_globs
            lines = toml_lines.source_table(self.module.source_table_header, path, **{key: [*value]})
            return f"these lines add the folder for this source:{lines}"
        there = getattr(self.config, key.replace("-", "_"))
        return toml_lines.setting(key, [*there, *(each for each in value if each not in there)])

    def pasted(self, key: Literal["define", "options"], value: Mapping[str, Any]) -> str:
        """Return the end of a hint: lines for pyproject.toml that set macros or options.

        If a [[source]] table already sets one of the macros or options, the returned lines are a new
        [[source]] table, because a value in a [[source]] table takes precedence over the project's settings.
        """
        if value.keys() & self._of_rules(key):
            there = self.module.define if key == "define" else self.module.options
            values = {key: {**_written(there), **value}}
            path = self.module.source.path_for_globs
            return toml_lines.source_table(self.module.source_table_header, path, **values)
        there = self.config.define if key == "define" else self.config.options
        return f" {toml_lines.setting(key, {**_written(there), **value})}"

    def place_of_entry(self, name: str) -> Location | None:
        """Return the line of pyproject.toml that lists *name* in `instantiate`."""
        return next((place for place, _written in self._entries(name)), None)

    def is_of_product(self, name: str) -> bool:
        """Return whether *name* comes from a table in `instantiate` with lists of template arguments."""
        return any(not isinstance(written, str) for _place, written in self._entries(name))

    def _entries(self, name: str) -> Iterator[tuple[Location, str | Mapping[str, Any]]]:
        place, produced = self.config.place, self.module.source.produced
        for index, rule in self._rules():
            for number, written in _asking(rule, name):
                yield place.of("source", index, "instantiate", number), written
        if produced is not None:
            for _number, written in _asking(produced.rule, name):
                yield Location(produced.producer), written

    def shared_entry(self, path: str, name: str) -> str | Mapping[str, Any] | None:
        """Return the entry of `instantiate` for *name*, if the entry also applies to the source at *path*."""
        rules = (rule for _index, rule in self._rules() if path != self.path and name in rule.instantiate)
        shared = (rule for rule in rules if glob_regex(rule.path).fullmatch(path))
        return next((rule.instantiate[name].written for rule in shared), None)

    def place_of_macro(self, name: str) -> Location:
        """Return the line of pyproject.toml that defines a macro for the source."""
        for table, rule in self._tables():
            for key, values in (("variants", rule.variants), ("define", rule.define)):
                if name in dict(values):
                    return self.config.place.of(*table, key, name)
        return self.config.place.of("define", name)

    def place_of_false(self, name: str) -> Location | None:
        """Return the line of pyproject.toml, or the producer, whose value false leaves a macro undefined."""
        if name in self.module.undefined:
            return self.place_of_macro(name)
        produced, place = self.module.source.produced, self.config.place
        if produced is not None and name in produced.rule.undefined:
            return Location(produced.producer)
        for table, rule in self._tables():
            if name in rule.undefined:
                return place.of(*table, "define", name)
        # The global macros do not apply to calls of a library.
        is_false = place.has("define", name) and name not in dict(self.config.define)
        return place.of("define", name) if is_false and not self.module.front else None

    def _tables(self) -> Iterator[tuple[tuple[str, int], SourceRule | ModuleRule]]:
        """Yield the path and content of each table with settings for the source, first the one that wins."""
        yield from ((("source", index), rule) for index, rule in reversed([*self._rules()]))
        modules = enumerate(self.config.module)
        yield from ((("module", index), rule) for index, rule in modules if rule.name == self.module.part_of)

    def place_of_pre_include(self, header: str) -> Location | None:
        """Return the line of pyproject.toml with the option that includes a header before the source."""
        if header not in self.module.pre_includes:
            return None
        tables: list[tuple[str | int, ...]] = [("source", index) for index, _rule in self._rules()]
        paths = [
            (*table, "options", key) for table in ((), *tables) for key in ("pre-include", "pre_include")
        ]
        return next(self.config.place.of(*path) for path in reversed(paths) if self.config.place.has(*path))

    def _rules(self) -> Iterator[tuple[int, SourceRule]]:
        """Yield the number and content of each [[source]] table that matches the source."""
        for index, rule in enumerate(self.config.source):
            if glob_regex(rule.path).fullmatch(self.module.source.path_for_globs):
                yield index, rule

    def silencing(self, number: int) -> str:
        """Return a hint that silences the compiler warning *number* for the source."""
        if self.module.front:
            return (
                f'to silence this warning, add "--diag-suppress={number}" '
                f"to the options in the call of {self.module.front}"
            )
        there = self.module.options.get("diag_suppress", ())
        numbers = [*(there if isinstance(there, (list, tuple)) else [there]), number]
        return f"to silence this warning:{self.pasted('options', {'diag-suppress': numbers})}"

    def _of_rules(self, key: str) -> set[str]:
        """Return the macros or options that [[source]] tables set for this source."""
        rules = [rule for _index, rule in self._rules()]
        if key == "define":
            return {name for rule in rules for name in (*dict(rule.define), *rule.undefined)}
        return {name for rule in rules for name in _written(rule.options)}


def _asking(rule: SourceRule, name: str) -> Iterator[WrittenInstantiation]:
    """Yield the entries of `instantiate` in a [[source]] table that are equal to *name* except for spaces."""
    wanted = "".join(name.split())
    return (entry for each, entry in rule.instantiate.items() if "".join(each.split()) == wanted)


def _written(values: Macros | Mapping[str, Any]) -> dict[str, Any]:
    """Return macros or options as a mapping, with names as they are written in pyproject.toml."""
    if isinstance(values, Mapping):
        return {name.replace("_", "-"): value for name, value in values.items()}
    return dict(values)
