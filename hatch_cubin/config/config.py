"""`Config`, the checked configuration of a project, from pyproject.toml and environment variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import Problem
from ..loader._text_key import FRONTS
from .nvrtc_options import OptionValue
from .reader import KEYS, read_table
from .toml_positions import TableLocation
from .value_checks import Macros, Variants, WrittenInstantiation

if TYPE_CHECKING:
    from typing_extensions import Self  # Python's `typing` has this name only since Python 3.11

__all__ = [
    "DEFAULT_SOURCES",
    "CompileSettings",
    "Config",
    "Macros",
    "ModuleRule",
    "ProducerRule",
    "SourceRule",
    "TableLocation",
    "Variants",
    "make_config",
    "merge_macros",
    "parse_config",
]

_TOOLKIT_LINE = re.compile("(?:^|(?<=: ))toolkit = ")
_LINE = re.compile(rf"(?:^|(?<=: ))(?=(?:{'|'.join(KEYS)}) = )")  # the start of a line of TOML
DEFAULT_SOURCES = ("**/*.cu", "**/*.ptx", "**/*.tileir")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRule:
    """The settings of one [[source]] table, for the sources that its `path` matches."""

    path: str
    name: str | None = None
    archs: tuple[str, ...] | None = None
    include_dirs: tuple[str, ...] = ()
    define: Macros = ()
    undefined: tuple[str, ...] = ()
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    instantiate: Mapping[str, WrittenInstantiation] = field(default_factory=dict)
    variants: Variants = ()
    # `front` is the library that the key `as` names. `call_options` are the options of the library's call, as
    # they are written. `define`, `options` and `include_dirs` contain the same options, parsed.
    front: str = ""
    call_options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleRule:
    """The settings of one [[module]] table: a module that is linked from several sources."""

    name: str
    sources: tuple[str, ...]
    mode: str
    link: tuple[str, ...] = ()
    archs: tuple[str, ...] | None = None
    include_dirs: tuple[str, ...] = ()
    define: Macros = ()
    undefined: tuple[str, ...] = ()
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    variants: Variants = ()
    instantiate: ClassVar[tuple[str, ...]] = ()  # only [[source]] tables have this key

    @property
    def wheels(self) -> tuple[str, ...]:
        """The requirement of each item in `link` that names a wheel, such as `pkg>=1` in `pkg>=1: lib.a`."""
        return tuple(each.partition(":")[0].strip() for each in self.link if ":" in each)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CompileSettings:
    """The settings for one source: the project's settings, merged with the matching [[source]] tables.

    `Module` in `planning/unit_plan.py` inherits the fields of `CompileSettings`. To add a key of [[source]]
    tables that can change compiled code, add a field to `SourceRule` and a field to `CompileSettings`, and
    merge the field's values in `merged_with`. A new key of [[source]] tables also needs a field in `Config`
    and `ModuleRule`, because `merged_with` reads the key from these classes. If a key is allowed only in
    [[source]] tables, its field in `Config` and `ModuleRule` is an empty `ClassVar`, like the field
    `instantiate`. Also add a row for the new key to `keys/ingredients.py`, so that cache keys, records, the
    lock file and the messages of `explain` contain the key.
    """

    define: Macros = ()
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    include_dirs: tuple[str, ...] = ()
    instantiate: tuple[str, ...] = ()

    def merged_with(self, rule: Config | SourceRule | ModuleRule) -> Self:
        """Return a copy of these settings, changed by the values of a [[source]] table (*rule*)."""
        return replace(
            self,
            define=merge_macros(self.define, rule.define, rule.undefined),
            options={**self.options, **rule.options},
            include_dirs=tuple(dict.fromkeys((*rule.include_dirs, *self.include_dirs))),
            instantiate=tuple(dict.fromkeys((*self.instantiate, *rule.instantiate))),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerRule:
    """The settings of one [[producer]] table: a Python function that returns the texts of CUDA sources."""

    path: str
    call: str = "sources"
    produces: tuple[str, ...] = ("cu",)
    inputs: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    seconds: int = 60

    @property
    def name(self) -> str:
        """The name of the producer in cubin.lock: the path of its Python file, and its function."""
        return f"{self.path}:{self.call}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The project's checked configuration.

    In this configuration, values from environment variables have replaced values from pyproject.toml.
    """

    archs: tuple[str, ...] = ("all-major",)
    toolkit: str | None = None
    sources: tuple[str, ...] = DEFAULT_SOURCES
    exclude: tuple[str, ...] = ()
    package: str | None = None
    include_dirs: tuple[str, ...] = ()
    # each entry: a name, and the path of a folder above the project
    source_roots: tuple[tuple[str, str], ...] = ()
    header_packages: tuple[str, ...] = ()
    define: Macros = ()
    options: Mapping[str, OptionValue] = field(default_factory=dict)
    jobs: int | None = None
    cache_dir: str | None = None
    cache_size: int | None = None
    max_size: int | None = None  # in bytes: a larger wheel is an error
    trusted_keys: tuple[str, ...] = ()
    remote_cache: str | None = None
    pack: bool = False
    ship_sources: bool = False
    provenance: bool = False
    source: tuple[SourceRule, ...] = ()
    module: tuple[ModuleRule, ...] = ()
    producer: tuple[ProducerRule, ...] = ()
    # folders of files in which test runs recorded calls of a library's compiler
    recorded: tuple[str, ...] = ()
    backend: str | None = None  # the wrapped build backend
    backend_path: tuple[str, ...] = ()
    package_dir: str | None = None
    timeout_s: float = 1800.0
    # The executor is never read from pyproject.toml: a change of the project must not send code to other
    # machines.
    executor: str | None = None
    # the fraction of other machines' results that this machine compiles again, to compare the results
    recheck: float = 0.0
    # the top-level settings do not inherit macros, so there is nothing to undefine
    undefined: ClassVar[tuple[str, ...]] = ()
    instantiate: ClassVar[tuple[str, ...]] = ()  # Only [[source]] tables have this key.
    # Maps each field that an environment variable or a command-line option sets to the name of this variable
    # or option.
    replaced: Mapping[str, str] = field(default_factory=dict, compare=False)
    place: TableLocation = field(repr=False, compare=False)

    @property
    def packages(self) -> tuple[str, ...]:
        """A requirement such as `pkg>=1` for each wheel from which a build reads headers or links files."""
        linked = (wheel for rule in self.module for wheel in rule.wheels)
        return tuple(dict.fromkeys((*self.header_packages, *linked)))

    def fronts(self, *, runs_producers: bool) -> set[str]:
        """Return the libraries (such as CuPy) that may load kernels from the wheel.

        The function returns all supported libraries if the project records calls of CuPy or cuda.core in test
        runs, because a test run can record such calls only if the wheel contains the loader's files for these
        libraries. The function returns all supported libraries also if producers (functions that generate
        sources) do not run in this build, because their sources are then unknown.
        """
        is_unknown = bool(self.recorded) or (bool(self.producer) and not runs_producers)
        described = {rule.front for rule in self.source if rule.front}
        return described.union(FRONTS if is_unknown else ())

    def with_table(self, found: Problem) -> Problem:
        """Return a problem whose hint also names the table to which the user has to add the line.

        The hint does not name the table if the problem is about a line that is already in the table. If an
        environment variable or an option replaces the line, the hint says to build without it.
        """
        where, prefix, hint = found.where, f"under {self.place}: ", self.place.in_full(found.hint)
        is_in_table = where is not None and where.path == self.place.file and where != self.place.of()
        if hint is not None and not is_in_table and prefix not in hint:
            hint = _LINE.sub(prefix, hint)
        setter = self.replaced.get("toolkit")
        if hint is not None and setter and _TOOLKIT_LINE.search(hint) and setter not in hint:
            hint = f"build without {setter}, which replaces 'toolkit' in the table; {hint}"
        return found._replace(hint=hint)


def parse_config(table: Mapping[str, Any], place: TableLocation, environ: Mapping[str, str]) -> Config:
    """Return the configuration from pyproject.toml (*table*) and environment variables.

    A ConfigError lists all mistakes in the table and in the variables.
    """
    return make_config(read_table(table, place, environ))


def make_config(values: Mapping[str, Any]) -> Config:
    """Return a `Config` made of the values that `read_table` returned."""
    rules = tuple(SourceRule(**rule) for rule in values.get("source", ()))
    modules = tuple(ModuleRule(**rule) for rule in values.get("module", ()))
    producers = tuple(ProducerRule(**rule) for rule in values.get("producer", ()))
    return Config(**{**values, "source": rules, "module": modules, "producer": producers})


def merge_macros(base: Macros, over: Macros, undefined: tuple[str, ...] = ()) -> Macros:
    """Return *base* with the macros of *over* added, and without the *undefined* macros.

    A macro that is in both mappings keeps its position in *base* and gets its value from *over*.
    """
    merged = dict(base) | dict(over)
    return tuple((name, text) for name, text in merged.items() if name not in undefined)
