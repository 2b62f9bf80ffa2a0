"""Files with recorded calls: their first line, their names, and what else is in their folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.errors import SourceError
from hatch_cubin.loader._text_key import text_key
from hatch_cubin.project.project import Project, read_sources
from tests.helpers import TABLE, codes, found, make_project, refusal

TEXT = "template <typename T> __global__ void f(T *x) { *x = N; }"
KEY = text_key("cupy", ["-DN=4"], TEXT)


def recorded(text: str = TEXT, **call: Any) -> str:
    line = {"front": "cupy", "options": ["-DN=4"], "instantiate": ["f<int>"], **call}
    return f"// {json.dumps(line)}\n{text}"


def project(folder: Path, files: dict[str, str], options: str = "") -> Project:
    return make_project(folder, files, f'recorded = ["demo/calls"]\n{options}')


def test_a_file_is_a_source_without_its_first_line(tmp_path: Path) -> None:
    files = {
        f"calls/{KEY}.cu": recorded(),
        f"calls/{KEY}-2.cu": recorded(),
        "calls/README.md": "",
        "a.cu": TEXT,
    }
    plain, other, one = read_sources(project(tmp_path, files))
    assert [plain.path, other.path] == ["demo/a.cu", f"demo/calls/{KEY}-2.cu"]
    assert (one.path, one.text, plain.recorded) == (f"demo/calls/{KEY}.cu", TEXT, None)
    assert one.recorded is not None
    assert (one.recorded.front, [*one.recorded.instantiate], one.recorded.define) == (
        "cupy",
        ["f<int>"],
        (("N", "4"),),
    )


def test_patterns_of_sources_skip_the_folder(tmp_path: Path) -> None:
    module = f'[[{".".join(TABLE)}.module]]\nname = "m"\nsources = ["demo/**/*.cu"]\nmode = "rdc"'
    files = {f"calls/{KEY}.cu": recorded(), "a.cu": TEXT}
    sources = read_sources(project(tmp_path, files, f'exclude = ["**/*.cu"]\n{module}'))
    assert sources.by_module_table == (("demo/a.cu",),)
    assert [each.path for each in sources] == ["demo/a.cu", f"demo/calls/{KEY}.cu"]


def test_line_ends_that_git_changed_do_not_count(tmp_path: Path) -> None:
    text = f"{TEXT}\n// end\n"
    key = text_key("cupy", ["-DN=4"], text)
    made = project(tmp_path, {})
    (tmp_path / "demo/calls").mkdir()
    (tmp_path / f"demo/calls/{key}.cu").write_bytes(recorded(text).replace("\n", "\r\n").encode())
    (one,) = read_sources(made)
    assert one.text == text


@pytest.mark.parametrize(
    "content",
    [
        TEXT,
        "",
        "// {not JSON}\n",
        '// {"front": "cupy"}\n',
        recorded(name="k"),
        recorded().replace("// {", "//{"),
    ],
)
def test_a_file_without_a_call_is_refused(tmp_path: Path, content: str) -> None:
    made = project(tmp_path, {f"calls/{KEY}.cu": content})
    assert found(refusal(SourceError, read_sources, made)) == [
        ("recorded-call-damaged", f"demo/calls/{KEY}.cu:1")
    ]


@pytest.mark.parametrize(
    ("call", "code"),
    [({"front": "numpy"}, "invalid-value"), ({"options": ["-G"]}, "option-without-key")],
)
def test_a_wrong_call_is_refused_at_its_line(tmp_path: Path, call: dict[str, Any], code: str) -> None:
    made = project(tmp_path, {f"calls/{KEY}.cu": recorded(**call)})
    assert found(refusal(SourceError, read_sources, made)) == [(code, f"demo/calls/{KEY}.cu:1")]


def test_an_edited_file_is_refused_with_its_name(tmp_path: Path) -> None:
    made = project(tmp_path, {f"calls/{KEY}.cu": recorded(TEXT + "\n")})
    error = refusal(SourceError, read_sources, made)
    assert found(error) == [("recorded-call-damaged", f"demo/calls/{KEY}.cu")]
    key = text_key("cupy", ["-DN=4"], TEXT + "\n")
    assert f"rename the file to {key}.cu" in str(error.problems[0].hint)
    (tmp_path / f"demo/calls/{KEY}.cu").rename(tmp_path / f"demo/calls/{key}.cu")
    assert len(read_sources(made).all) == 1


def test_before_the_first_recording_there_is_no_folder(tmp_path: Path) -> None:
    said: list[str] = []
    made = project(tmp_path, {})
    object.__setattr__(made, "warn", said.append)
    assert read_sources(made).all == ()
    assert codes("\n".join(f"hatch-cubin: warning: {each}" for each in said)) == ["recorded-folder-not-found"]
