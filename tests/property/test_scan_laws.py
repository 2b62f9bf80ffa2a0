"""Whatever tokens surround an include: a header that the compiler reads is one that the scanner names."""

from __future__ import annotations

import random

import pytest

from hatch_cubin.project.scan import scan

_INCLUDE = '#include "v.h"\n'
_WORDS = (
    *(
        'R"(',
        ')"',
        '//)"',
        'u8R"-(',
        ')-"',
        'LR"',
        'UR"x(',
        ')x"',
        '"',
        '""',
        '"a"',
        '"\\""',
        '"\\\\"',
        '"a"_u',
    ),
    *(
        "'",
        "'a'",
        "'\"'",
        "'\\''",
        "u8'a'",
        "1",
        "1.",
        ".5e",
        "1e+",
        "1'000",
        "0x1p-",
        "1u",
        "1_k",
        "x1'0",
        "0b1",
    ),
    *(
        "R",
        "u8",
        "L",
        "xR",
        "$R",
        "_R",
        "a",
        "##",
        "#",
        "??/",
        "??/\n",
        "\\\n",
        "\\",
        "\\ \n",
        "(",
        ")",
        "+",
        "..",
    ),
    *(
        "//",
        "/*",
        "*/",
        "/",
        "*",
        " ",
        " ",
        " ",
        "\t",
        "\n",
        "\n",
        "\f",
        "\v",
        "%:",
        "??=",
        "<",
        ">",
        "<x//y>",
    ),
    *(
        "#define Q ",
        "\n#define Q ",
        "\n#if 0\n",
        "\n#endif\n",
        "\n#error don't ",
        "\n#pragma x ",
        "\n#line 1 ",
    ),
    *("\n#if 1\n", "\n#else\n", "\n#undef Q\n", '\n#include "x"', "\n#include <x>", "\n%:define Q "),
    *(
        "/*\n*/",
        '/*\n*/ #include "v.h"\n',
        '\n#inc\\\nlude "v.h"\n',
        '\n%:include "v.h"\n',
        '\n# /**/ include "v.h"\n',
    ),
    *('\n#include /* */ "v.h"\n', "\n#if __has_include(<x/*>)\n", '\n#ifdef R\n"\n#endif\n'),
)


def a_text(chance: random.Random) -> str:
    """Return a text of tokens, with an include somewhere."""
    before, after = ("".join(chance.choices(_WORDS, k=chance.randint(1, 6))) for _ in range(2))
    start = chance.choice(("#define Q ", "#define Q ", "#if 0\n", ""))
    end = chance.choice(("", '//)"\n', "//*/\n", '//"\n', "#endif\n"))
    return f"{start}{before}\n{_INCLUDE}{after}\n{end}"


def includes(text: str, std: str) -> bool:
    """Say whether the compiler reads the header."""
    from cuda.bindings import nvrtc

    names, contents = [b"v.h", b"x"], [b"#error it is read\n", b"\n"]
    _status, program = nvrtc.nvrtcCreateProgram(text.encode(), b"k.cu", len(names), contents, names)
    given = [b"-arch=sm_90", b"--fdevice-syntax-only", f"-std={std}".encode()]
    nvrtc.nvrtcCompileProgram(program, len(given), given)
    log = bytes(nvrtc.nvrtcGetProgramLogSize(program)[1])
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(program)
    return b"it is read" in log


@pytest.mark.nvrtc
@pytest.mark.parametrize("std", ["c++14", "c++17", "c++20"])
def test_no_include_is_overlooked(std: str) -> None:
    chance, read = random.Random(std), 0  # noqa: S311 - the same texts in each run
    for _ in range(120):
        text = a_text(chance)
        if includes(text, std):
            read += 1
            assert any(each.name == "v.h" or each.form == "unknown" for each in scan(text).includes), text
    assert read > 30
