"""Find code that an `#if` hides from the compiler, and give hints about sources without kernels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from ...config import toml_lines
from ...errors import Location
from ...project.conditional_lines import DEFINED_BY_NVRTC, Condition, lines_with_conditions, surely_read
from ...project.directives import DEFINE
from ...project.source import may_have_kernel, without_comments
from ...project.tile_kernels import kernel_kinds
from .failed_compile import FailedCompile
from .kernel_declarations import GAP, about_extern_template, declared, examples
from .other_sources import used_elsewhere

_NAME = re.compile(r"(?<![\w.])[^\W\d_]\w*")
_GLOBAL = re.compile(r"\b__global__\b")
_COMMENTED = re.compile(r"\b__global__\b[^;{}()]*\w\s*\(")
_TEMPLATE = re.compile(r"\btemplate\b")
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\\\n|[^\n])*", re.MULTILINE)
MOST_EXAMPLES = 10
_ONLY_SOURCE = (
    "the source has only device functions: write a kernel with __global__; "
    "a project without kernels does not need hatch-cubin"
)
_ONLY_PTX_SOURCE = (
    "the source has only device functions: write a kernel as .visible .entry; "
    "a project without kernels does not need hatch-cubin"
)
_WITH_ARGUMENTS = "a template is compiled only if 'instantiate' lists the template with its arguments"


def about_no_kernel(failed: FailedCompile) -> str | None:
    """Return a hint for a source whose compiled result does not contain a kernel."""
    module = failed.module
    kinds = kernel_kinds(module.source)
    if module.is_tile and kinds.other and not kinds.tile_names:
        return (
            "remove the tile code and #include <cuda_tile.h>, or write them inside #ifdef __CUDACC_TILE__: "
            "the source has no tile kernel"
        )
    left_out = (
        "the source has only device functions or variables: "
        "mark a function with __global__ to make it a kernel, or exclude the source: "
        f"{failed.line('exclude', [failed.path])}"
    )
    if failed.sources.keys() == {failed.path}:
        left_out = _ONLY_PTX_SOURCE if module.source.is_ptx else _ONLY_SOURCE
    elif (call := used_elsewhere(failed)) is not None:
        left_out = call
    if module.source.is_ptx:
        return left_out
    texts = [*map(failed.text_of, (failed.path, *failed.headers))]
    unnamed = _about_templates(failed, left_out)
    written = {match[1] for text in texts for match in DEFINE.finditer(text)}
    given = DEFINED_BY_NVRTC | written | {name for name, value in module.macros if value != "0"}
    for condition in _around_kernels(module.source.text):
        lacking = condition.lacking(given)
        if lacking is None:
            return _may_hide(condition, given, failed)
        if lacking:
            pasted = failed.pasted("define", dict.fromkeys(lacking, True))
            return f"the condition {_shown(condition, failed)} hides the kernels from the compiler:{pasted}"
    return unnamed


def _shown(condition: Condition, failed: FailedCompile) -> str:
    shown = f"#{condition.kind} {condition.operand}".rstrip()
    return f"'{shown}' ({Location(failed.path, condition.line)})"


def _may_hide(condition: Condition, given: AbstractSet[str], failed: FailedCompile) -> str:
    """Return a hint about an `#if` condition that may hide the kernels: how to make the condition true."""
    shown = _shown(condition, failed)
    macros = [name for name in _NAME.findall(condition.operand) if name not in {*given, "defined"}]
    if "__CUDA_ARCH__" in condition.operand and re.search(r"\bsm_\d", condition.operand):
        return (
            f"the condition {shown} may hide the kernels from the compiler: "
            "__CUDA_ARCH__ is a number, so write 900 in place of sm_90"
        )
    if "__CUDA_ARCH__" in condition.operand:
        return (
            f"the condition {shown} may hide the kernels from the compiler: "
            "__CUDA_ARCH__ is 900 for sm_90, so set 'archs' to archs for which the condition holds"
        )
    if not macros or "__has_include" in condition.operand:
        return f"the condition {shown} may hide the kernels from the compiler"
    pasted = failed.pasted("define", dict.fromkeys(macros, "…"))
    return (
        f"the condition {shown} may hide the kernels from the compiler: "
        f"define the macro with a value in place of …:{pasted}"
    )


def _about_templates(failed: FailedCompile, left_out: str) -> str:
    """Return a hint that shows how to instantiate the kernel templates of a source or of its headers."""
    texts = {path: failed.text_of(path) for path in (failed.path, *failed.headers)}
    found = declared(texts)
    templates = [kernel for kernel in found if kernel.parameters and kernel.is_tile == failed.module.is_tile]
    own = [kernel for kernel in templates if kernel.where.path == failed.path]
    # A source with device functions may include a header with kernel templates for another reason.
    is_for_headers = "__device__" not in failed.text_of(failed.path)
    if (hint := about_extern_template([kernel.base for kernel in templates], texts)) is not None:
        return hint
    if entries := examples(own or templates)[:MOST_EXAMPLES]:
        if own or is_for_headers:
            path = failed.module.source.path_for_globs
            table = toml_lines.source_table(failed.module.source_table_header, path, instantiate=entries)
            if any(GAP in each for each in entries):
                return (
                    "a template is compiled only if 'instantiate' lists it, "
                    f"with a type or a value for each {GAP}; for example:{table}"
                )
            return f"a template is compiled only if 'instantiate' lists it; for example:{table}"
        return left_out
    return _about_text(failed, texts, left_out)


def _about_text(failed: FailedCompile, texts: Mapping[str, str], left_out: str) -> str:
    """Return a hint if no kernel template was found in a source and its headers."""
    macros = [text for macro in failed.module.macros for text in macro]
    if not failed.config.header_packages and not any(
        _TEMPLATE.search(without_comments(text)) for text in (*texts.values(), *macros)
    ):
        return _about_global(failed, left_out)
    if _GLOBAL.search(
        without_comments(failed.text_of(failed.path))
    ):  # The source contains `__global__`, but in a macro or inside a condition.
        return _WITH_ARGUMENTS
    if failed.config.header_packages or any(map(may_have_kernel, (*texts.values(), *macros))):
        return f"{_WITH_ARGUMENTS}; if there is no kernel template, {left_out}"
    return left_out


def _about_global(failed: FailedCompile, left_out: str) -> str:
    """Return a hint that explains why a source with `__global__`, but without templates, has no kernels."""
    text = failed.text_of(failed.path)
    code = without_comments(text)
    match = _GLOBAL.search(code) or _COMMENTED.search(text)
    if match is None:
        return left_out
    line = text.count("\n", 0, match.start()) + 1
    place = Location(failed.path, line)
    if match.re is _COMMENTED:
        return f"the __global__ in {place} is in a comment; {left_out}"
    before, stripped = ("".join(each.splitlines()[line - 2 : line - 1]) for each in (text, code))
    if before.endswith("\\") and not stripped.endswith("\\"):
        return (
            f"the __global__ in {place} is in a comment, "
            "because the comment in the line before ends with a backslash"
        )
    for macro in _MACRO.finditer(code):
        if macro.start() < match.start() < macro.end() and len(re.findall(rf"\b{macro[1]}\b", code)) == 1:
            return f"the __global__ in {place} is in the macro {macro[1]}, which the source does not use"
    return f"the compiler does not find the definition of a kernel after the __global__ in {place}"


def certain_kernels(path: str, text: str) -> set[str]:
    """Return the kernels that a source defines for all values of its macros; leave out kernel templates."""
    read = {number for _line, number in surely_read(text, frozenset())}
    return {
        each.name
        for each in declared({path: text})
        if not each.template and each.code.endswith("}") and each.where.line in read
    }


def _around_kernels(text: str) -> tuple[Condition, ...]:
    """Return the `#if` conditions around the first kernel if every kernel is inside an `#if`, or else ()."""
    found = [(line, around) for line, _number, around in lines_with_conditions(text) if line.strip()]
    kernels = [around for line, around in found if "__global__" in line]
    every = kernels or [around for _line, around in found]
    return every[0] if every and all(every) else ()
