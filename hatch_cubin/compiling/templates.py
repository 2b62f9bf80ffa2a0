"""Warn about kernel templates that are not in the wheel, because they are not instantiated."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping

from ..config import toml_lines
from ..errors import Problem, problem
from ..planning.unit_plan import Module
from ..project.conditional_lines import surely_read
from ..project.directives import included_names
from .hints.conditions import MOST_EXAMPLES
from .hints.kernel_declarations import (
    GAP,
    Kernel,
    about_extern_template,
    declared,
    examples,
    without_extern_templates,
)

_TEMPLATE_KERNEL = re.compile(r"\btemplate\b.*\b__(?:tile_)?global__\b", re.DOTALL)


def uninstantiated_templates(
    module: Module, kernels: Collection[str], sources: Mapping[str, str], tables: str
) -> list[Problem]:
    """Return a problem for each kernel template of a source that is not instantiated.

    *kernels* are the names of the kernels in the module's compiled code. *sources* maps the path of each
    source to its text. *tables* is the TOML header of [[source]] tables in pyproject.toml, such as
    `[[tool.hatch-cubin.source]]`. The function does not report templates inside an `#if`, or templates in a
    source that another source includes.
    """
    source = module.source
    if not source.is_cpp or not _TEMPLATE_KERNEL.search(source.text) or _is_included(source.path, sources):
        return []
    lacking = [*_lacking(module, {name.partition("<")[0].rpartition("::")[2] for name in kernels})]
    entries = examples(lacking)[:MOST_EXAMPLES]
    pasted = toml_lines.source_table(tables, source.path_for_globs, instantiate=entries)
    hint = f"if the wheel needs this template, list its instantiations; for example:{pasted}"
    if any(GAP in entry for entry in entries):
        hint = (
            "if the wheel needs this template, list its instantiations, "
            f"with a type or a value for each {GAP}; for example:{pasted}"
        )
    texts = {source.path: source.text}
    return [_problem(each, about_extern_template([each.base], texts) or hint) for each in lacking]


def _problem(kernel: Kernel, hint: str) -> Problem:
    what = f"the kernel template {kernel.base!r} is not in the wheel, because it is not instantiated"
    return problem("template-not-instantiated", what, kernel.where, hint)


def _lacking(module: Module, built: Collection[str]) -> Iterator[Kernel]:
    """Yield the kernel templates whose lines the compiler certainly reads, but that are not instantiated."""
    text = without_extern_templates(module.source.text)
    read = {number for _line, number in surely_read(module.source.text, frozenset())}
    named = {*built, *(name.partition("<")[0].rpartition("::")[2] for name in module.instantiate)}
    said = set[str]()
    for kernel in declared({module.source.path: module.source.text}):
        is_definition = kernel.code.endswith("}")
        is_of_module = kernel.is_tile == module.is_tile
        if not kernel.parameters or not is_definition or not is_of_module or kernel.base in named | said:
            continue
        said.add(kernel.base)
        if kernel.where.line in read and not _is_used(kernel.base, text, module):
            yield kernel


def _is_used(name: str, text: str, module: Module) -> bool:
    """Return whether a source text may instantiate the template *name*."""
    word = re.escape(name)
    if re.search(rf"\btemplate\s+(?!<)[^;{{}}]*\b{word}\b", text):
        return True
    # In an object file, a kernel may instantiate another kernel's template by launching that kernel. A
    # template that is mentioned twice counts as instantiated.
    return bool(module.part_of) and len(re.findall(rf"\b{word}\b", text)) > 1


def _is_included(path: str, sources: Mapping[str, str]) -> bool:
    name = posixpath.basename(path)
    every = (text for other, text in sources.items() if other != path and name in text)
    return any(posixpath.basename(each) == name for text in every for each in included_names(text))
