"""Hints about files that are not CUDA C++: other languages, text templates, tile kernels, other encodings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...errors import Location
from ...project.conditional_lines import surely_read
from ...project.source import LFS_HINT, is_lfs_pointer, without_comments
from ...project.tile_kernels import TILE_CODE
from ..diagnostics import Diagnostic, Explanation, failure
from .failed_compile import FailedCompile

_A_TEMPLATE = (
    "this file looks like a text template, which a script must fill in before the compiler reads it: "
    "write macros in place of the placeholders, or fill the template in with a 'producer' table"
)
# For each language: patterns that match the compiler's message or the source line if a source is in this
# language.
_LANGUAGES = {
    "HIP": (
        r'source file "(?:hip|hipcub|hiprand|rocprim|rocrand|rocwmma)/'
        r"|\bhip(?:ThreadIdx|BlockIdx|BlockDim|GridDim|Malloc|Free|Memcpy|Launch|Stream|Device|Error)\w*"
    ),
    "OpenCL C": (
        r'source file "(?:CL/(?!sycl)|OpenCL/)|\b__kernel\b|\bget_(?:global|local|group)_(?:id|size)\b'
        r"|\bget_num_groups\b|\bCLK_\w+|\bkernel\s+void\s+\w+\s*\([^)]*\bglobal\b"
    ),
    "SYCL": r'source file "(?:CL/)?sycl|\bsycl::',
    "PTX": r"(?m:^)\s*\.(?:version|target) ",
    "Metal": r'source file "metal_|\[\[(?:buffer\(|thread\w*_in_\w+\]\])|\bkernel\s+void\b',
    "HLSL": r"\[numthreads\(|\bSV_\w+ID\b|\bRWStructuredBuffer\b",
    "Python": (
        r"(?m)^\s*(?:import \w[\w.]*(?: as \w+)?$|from \w[\w.]* import\b|def \w.*:$|class \w+\(.*\):$)"
        r"|\bcuda\.(?:grid|gridsize|threadIdx|blockIdx|blockDim|shared|local|atomic|syncthreads)\b"
        r"|^\s*@\w[\w.]*(?:\(.*\))?$|\"\"\"|'''"
    ),
    "GLSL": r"\blayout\s*\(\s*(?:local_size_|std430|binding)|\bgl_\w+ID\b|#\s*version\s+\d",
}
_PLACEHOLDER = re.compile(  # matches a placeholder of Jinja, CMake or Mako
    r"\{%.*?%\}|\{\{ *[A-Za-z_][\w.]* *\}\}(?=\s*[\w*&(\]<])|(?<!\w)@[A-Za-z_]\w*@|\$\{\w[^}]*\}"
)
# Matches a placeholder of Python (`%` operator, str.format, string.Template), outside of quotes.
_PYTHON_PLACEHOLDER = re.compile(
    r"%\(\w+\)[a-z]|[=(,\[<]\s*%[sdif]\b|[<+*/%\[]\s*\{\w+\}|[(,]\s*\{\w+\}\s+\*?\s*\w|\$[A-Za-z]\w*"
)
_NO_TOKEN = re.compile(r"unrecognized token|expected a file name")
# Matches a backslash of a string literal: before a quotation mark, or at a line break after a statement.
_ESCAPED = re.compile(r'^[^"]*\\"|[;{}]\s*\\n')
_STATEMENT = re.compile(
    r"no storage class or type specifier|expected a declaration|is undefined|host variable"
)
_FUNCTION_OR_TYPE = re.compile(
    r"\b(?!(?:if|for|while|switch)\b)\w+\s*\([^;{}]*\)\s*(?:const\s*)?\{|\b(?:struct|class|enum|namespace)\b|#"
)
_NOT_UTF8 = "\ufffd"  # Each invalid byte of a source was replaced with this character.
_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"')


def other_language(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """If a source is in another language, such as HIP, report only this, and not the resulting errors."""
    for each in found:
        if each.is_own and (not_cuda := _what_it_is(each, failed)) is not None:
            if failed.sources.keys() != {failed.path}:
                not_cuda = f"{not_cuda}; to leave the source out: {failed.line('exclude', [failed.path])}"
            return replace(each, hint=not_cuda).followed_by(len(found) - 1), []
    return None


def _what_it_is(error: Diagnostic, failed: FailedCompile) -> str | None:
    shown = "\n".join((error.text, *error.context[:1]))
    language = next((name for name, pattern in _LANGUAGES.items() if re.search(pattern, shown)), None)
    has_kernel = "__global__" in failed.text_of(failed.path)
    if language == "Python" and has_kernel:
        if failed.path.endswith(".py"):
            return "this file is Python, not CUDA C++: move its CUDA C++ code into a .cu file"
        return "this line is Python, not CUDA C++: leave only the CUDA C++ code in this file"
    # A source with __global__ is CUDA C++ or HIP, even if a function has the name of an OpenCL function.
    if language and (language == "HIP" or not has_kernel):
        return f"this is {language}, not CUDA C++"
    if _ESCAPED.search("".join(error.context[:1])):
        return r"this line is part of a string literal: write \" without the backslash, and a new line for \n"
    code = _QUOTED.sub('""', "".join(error.context[:1]))
    return _A_TEMPLATE if _PLACEHOLDER.search(shown) or _PYTHON_PLACEHOLDER.search(code) else None


def statements(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """If a source has only statements, like a body of CuPy's ElementwiseKernel, report only this."""
    text = without_comments(failed.text_of(failed.path))
    if (
        not text.strip()
        or not found
        or not _STATEMENT.search(found[0].text)
        or _FUNCTION_OR_TYPE.search(text)
    ):
        return None
    hint = (
        "a source must contain whole kernels, and not only the statements of a kernel: "
        'extern "C" __global__ void k(float *x, int n) { … }'
    )
    return replace(found[0], hint=hint).followed_by(len(found) - 1), []


def not_text(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """If a file is in UTF-16, or is a Git LFS pointer, report only this, and not the resulting errors."""
    for each in found:
        path = each.where.path if each.where else ""
        text = failed.text_of(path)
        hint = LFS_HINT if is_lfs_pointer(text) else None
        if "\0" in text and not failed.module.source.is_tile_ir:
            hint = f"{path} contains null bytes, as in UTF-16 and UTF-32: save the file as UTF-8"
        if hint is not None:
            return replace(each, hint=hint, context=()).followed_by(len(found) - 1), []
    return None


def characters(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """If code contains a non-ASCII character, report only this character, and not the resulting errors."""
    for each in found:
        if each.where is None or not _NO_TOKEN.search(each.text):
            continue
        lines = without_comments(failed.text_of(each.where.path)).splitlines()
        line = _QUOTED.sub("", "".join(lines[(each.where.line or 1) - 1 :][:1]))
        strange = next((char for char in line if not char.isascii()), None)
        if strange is not None:
            others = [other for other in found if other.where != each.where]
            character = _named(strange)
            if each.where.path == failed.path and failed.module.source.encoding != "utf-8":
                likely = _named(strange.encode("latin-1").decode("cp1252", "replace"))
                character = (
                    f"the byte 0x{ord(strange):02X}, which is not UTF-8 and in Windows-1252 is {likely}"
                )
            hint = f"this line contains {character}, outside of quotes and comments"
            if strange == _NOT_UTF8:
                hint = f"a character of this line is not UTF-8: save {each.where.path} as UTF-8"
            return replace(each, hint=hint).followed_by(len(found) - len(others) - 1), others
    return None


def _named(char: str) -> str:
    import unicodedata  # lazy import: few sources contain wrong characters

    return f"U+{ord(char):04X} ({unicodedata.name(char, 'without a name').lower()})"


def place_of_tile_code(texts: Mapping[str, str]) -> Location | None:
    """Return the location of tile code (`__tile_global__`, `__tile__`) that the compiler certainly reads."""
    for path, text in texts.items():
        if "__tile" in text:
            for line, number in surely_read(text, frozenset()):
                if TILE_CODE.search(line):
                    return Location(path, number)
    return None


def tile_code_error(where: Location, failed: FailedCompile) -> Diagnostic:
    """Return an error about a source with tile code that is not compiled as CUDA Tile C++."""
    lines = failed.text_of(where.path).splitlines() if where.line else []
    shown = tuple(f"    {each}" for each in lines[(where.line or 1) - 1 :][:1])
    what = f"the compiler ignores tile code, because {failed.path} is not compiled as CUDA Tile C++"
    hint = f"write #include <cuda_tile.h> into {failed.path}, outside of every #if"
    if failed.module.front:
        hint = "a text that a library compiles at run time cannot have tile kernels"
    return failure("tile-code-ignored", what, where, hint, shown)


def tile_code(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """If the compiler ignores tile code, report only this, and not the resulting errors."""
    if failed.module.has_tile_code or not found:
        return None
    where = place_of_tile_code({path: failed.text_of(path) for path in (failed.path, *failed.headers)})
    return None if where is None else (tile_code_error(where, failed), [])
