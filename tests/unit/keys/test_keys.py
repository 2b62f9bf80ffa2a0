"""What a unit is stored under: another key exactly where something that it can read differs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.config.nvrtc_options import OF_PTX
from hatch_cubin.errors import ConfigError
from hatch_cubin.keys import ingredients
from hatch_cubin.keys.jobs import Job, make_jobs, reachable_files
from hatch_cubin.project.project import read_sources
from hatch_cubin.toolkit import assembler
from hatch_cubin.toolkit import toolkit as toolkit_module
from hatch_cubin.toolkit.toolkit import Toolkit
from tests.helpers import COPY_PTX, SAXPY, SCALE, make_project

pytestmark = pytest.mark.nvrtc

FILES = {
    "k.cu": '#include "a.h"\n' + SAXPY,
    "a.h": '#include "deep/b.h"\n',
    "deep/b.h": "#define B 1\n",
    "plain.cu": SAXPY,
    "copy.ptx": COPY_PTX,
}
OPTIONS = 'archs = ["sm_90"]\ndefine = { N = 4 }\noptions = { lineinfo = true }\n'
RULE = '[[tool.hatch.build.hooks.cubin.source]]\npath = "demo/k.cu"\n'


@pytest.fixture(scope="module")
def toolkit() -> Toolkit:
    return Toolkit(None)


def jobs(
    root: Path, toolkit: Toolkit, files: Mapping[str, str | bytes], options: str = OPTIONS
) -> dict[str, Job]:
    """Return a project's jobs by the names of their units."""
    project = make_project(root, files, options)
    return {job.unit.name: job for job in make_jobs(project, read_sources(project), toolkit)}


def keys(
    root: Path, toolkit: Toolkit, files: Mapping[str, str | bytes] = FILES, options: str = OPTIONS
) -> dict[str, bytes]:
    return {name: job.keys.key for name, job in jobs(root, toolkit, files, options).items()}


def changed(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> set[str]:
    return {
        name.partition(" ")[0] for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    }


def test_keys_are_the_same_in_any_folder(tmp_path: Path, toolkit: Toolkit) -> None:
    found = keys(tmp_path / "here", toolkit)
    assert found == keys(tmp_path / "the re/ünder", toolkit)
    assert list(found) == ["copy for sm_90", "k for sm_90", "plain for sm_90"]
    assert len(set(found.values())) == 3


@pytest.mark.parametrize(
    ("files", "affected"),
    [
        pytest.param({"plain.cu": SAXPY + " "}, {"plain"}, id="source"),
        pytest.param({"copy.ptx": COPY_PTX + " "}, {"copy"}, id="PTX"),
        pytest.param({"a.h": FILES["a.h"] + " "}, {"k"}, id="header"),
        pytest.param({"deep/b.h": "#define B 2\n"}, {"k"}, id="header of a header"),
        pytest.param({"deep/c.h": "", "README.md": "", "other.cuh": "x"}, set(), id="unrelated files"),
        pytest.param({"plain.cu": SAXPY.replace("\n", "\r\n")}, set(), id="line ends"),
        pytest.param({"plain.cu": b"\xef\xbb\xbf" + SAXPY.encode()}, set(), id="byte order mark"),
    ],
)
def test_a_changed_byte_changes_the_keys_of_what_reads_it(
    tmp_path: Path, toolkit: Toolkit, files: Mapping[str, str | bytes], affected: set[str]
) -> None:
    after = keys(tmp_path / "there", toolkit, {**FILES, **files})
    assert changed(keys(tmp_path / "here", toolkit), after) == affected


@pytest.mark.parametrize(
    ("options", "affected"),
    [
        pytest.param(OPTIONS.replace("N = 4", "N = 5"), {"k", "plain"}, id="macro"),
        pytest.param(OPTIONS.replace("true", "false"), {"k", "plain", "copy"}, id="option"),
        pytest.param(OPTIONS.replace("true", "true, ftz = true"), {"k", "plain"}, id="option of C++ alone"),
        pytest.param(OPTIONS.replace("sm_90", "sm_90a"), {"k", "plain", "copy"}, id="suffix"),
        pytest.param(OPTIONS.replace("sm_90", "sm_100"), {"k", "plain", "copy"}, id="arch"),
        pytest.param(OPTIONS + RULE + "define = { M = 1 }", {"k"}, id="own macro"),
        pytest.param(OPTIONS + RULE + 'options = { std = "c++20" }', {"k"}, id="own option"),
        pytest.param(OPTIONS + RULE + 'instantiate = ["f<1>"]', {"k"}, id="instantiation"),
        pytest.param(OPTIONS + "jobs = 1\ncache-size = '1 MB'\nship-sources = true", set(), id="no input"),
    ],
)
def test_a_changed_setting_changes_the_keys_of_what_it_is_for(
    tmp_path: Path, toolkit: Toolkit, options: str, affected: set[str]
) -> None:
    after = keys(tmp_path / "there", toolkit, FILES, options)
    assert changed(keys(tmp_path / "here", toolkit), after) == affected


def test_the_same_text_at_another_path_has_another_key(tmp_path: Path, toolkit: Toolkit) -> None:
    found = keys(tmp_path, toolkit, {"one.cu": SAXPY, "two.cu": SAXPY})
    assert len(set(found.values())) == 2


@pytest.mark.parametrize(("name", "compiled"), [("nvrtc", {"k", "plain"}), ("ptxas", {"copy"})])
def test_a_patch_of_a_compiler_changes_the_keys_of_what_it_compiles(
    tmp_path: Path, name: str, compiled: set[str]
) -> None:
    toolkit = Toolkit(None)
    before = keys(tmp_path / "here", toolkit)
    toolkit.__dict__[name] = toolkit.__dict__[name] + "9"
    assert changed(before, keys(tmp_path / "there", toolkit)) == compiled


def test_ptx_is_assembled_by_the_ptxas_of_nvrtcs_own_build(toolkit: Toolkit) -> None:
    assert toolkit.ptxas == toolkit.nvrtc


def test_another_processor_is_an_input(
    tmp_path: Path, toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = keys(tmp_path / "here", toolkit)
    monkeypatch.setattr(toolkit_module, "OTHER_MACHINE", "aarch64")
    assert changed(before, keys(tmp_path / "there", toolkit)) == {"k", "plain", "copy"}
    inputs = jobs(tmp_path / "there", toolkit, FILES, OPTIONS + RULE)["k for sm_90"].inputs
    assert inputs["compiler"] == f"{toolkit.nvrtc} aarch64"


def test_the_inputs_of_a_key_are_told(tmp_path: Path, toolkit: Toolkit) -> None:
    rule = RULE + 'instantiate = ["f<1>"]\noptions = { diag-suppress = [1] }'
    inputs = jobs(tmp_path, toolkit, FILES, OPTIONS + rule)["k for sm_90"].inputs
    assert {
        name: value for name, value in inputs.items() if name not in {"source", "headers", "implicit"}
    } == {
        "schema": "hatch-cubin 1",
        "path": "demo/k.cu",
        "arch": "sm_90",
        "compiler": toolkit.nvrtc,
        "data_model": toolkit_module.DATA_MODEL,
        "trees": [],
        "builds": {},
        "cuda_core": toolkit.core,
        "define": ["N=4"],
        "options": {"lineinfo": True, "diag_suppress": [1]},
        "instantiate": ["f<1>"],
        "search": [],
    }
    assert sorted(inputs["headers"]) == ["project/demo/a.h", "project/demo/deep/b.h"]


def test_headers_are_told_one_by_one_and_those_of_a_toolkit_together(
    tmp_path: Path, toolkit: Toolkit
) -> None:
    far = tmp_path / "far.h"
    far.write_text("")
    files = {
        "k.cu": f'#include "a.h"\n#include "{far.as_posix()}"\n#include <cuda_fp16.h>\n{SAXPY}',
        "a.h": "",
    }
    (job,) = jobs(tmp_path / "project", toolkit, files).values()
    inputs = job.inputs
    trees = {name for name in inputs["headers"] if "/" not in name}
    assert inputs["headers"].keys() - trees == {"project/demo/a.h", far.as_posix().removeprefix(far.drive)}
    assert trees
    assert inputs["builds"].keys() == trees
    assert len(job.closure.files) > 2 + len(trees)


def upstream_key(text: str, arch: str, target: str = "cubin", kind: str = "c++", **options: Any) -> bytes:
    """Return what cuda.core's Program asks its cache for."""
    from cuda.core import ProgramOptions
    from cuda.core.utils import make_program_cache_key

    wanted = ProgramOptions(arch=arch, **options)
    return bytes(make_program_cache_key(code=text, code_type=kind, target_type=target, options=wanted))


def program_key(root: Path, toolkit: Toolkit, files: Mapping[str, str | bytes], options: str) -> bytes | None:
    (job,) = jobs(root, toolkit, files, options).values()
    return job.keys.program_key


@pytest.mark.parametrize(
    ("options", "arch", "wanted"),
    [
        ('archs = ["sm_90"]', "sm_90", {}),
        ('archs = ["sm_90a"]', "sm_90a", {}),
        (
            """\
            archs = ["sm_90"]
            define = { N = 4, A = "b c" }
            options = { std = "c++17", use-fast-math = true, ptxas-options = ["-w", "-O2"] }
            """,
            "sm_90",
            {
                "define_macro": [("N", "4"), ("A", "b c")],
                "std": "c++17",
                "use_fast_math": True,
                "ptxas_options": ["-w", "-O2"],
            },
        ),
    ],
    ids=["bare", "suffix", "options"],
)
def test_the_program_key_is_the_one_that_cuda_core_makes(
    tmp_path: Path, toolkit: Toolkit, options: str, arch: str, wanted: Mapping[str, Any]
) -> None:
    text = "// größe\n" + SAXPY
    expected = upstream_key(text, arch, **wanted)
    assert program_key(tmp_path, toolkit, {"k.cu": "\ufeff" + text}, options) == expected


def test_a_virtual_archs_program_key_is_that_of_a_compile_to_ptx(tmp_path: Path, toolkit: Toolkit) -> None:
    found = program_key(tmp_path, toolkit, {"k.cu": SAXPY}, 'archs = ["compute_90"]')
    assert found == upstream_key(SAXPY, "compute_90", "ptx")


@pytest.mark.parametrize(
    ("files", "options"),
    [
        ({"k.cu": '#include "a.h"\n' + SAXPY, "a.h": ""}, ""),
        ({"k.cu": "#if 0\n#include <absent.h>\n#endif\n" + SAXPY}, ""),
        ({"k.cu": "#if __has_include(<absent.h>)\n#endif\n" + SAXPY}, ""),
        ({"k.cu": SCALE}, RULE + 'instantiate = ["scale<float, 4>"]'),
        ({"k.ptx": COPY_PTX}, 'archs = ["compute_90"]'),
        ({"k.ptx": COPY_PTX}, 'archs = ["sm_90"]'),
        ({"k.cu": SAXPY, "a.h": ""}, 'options = { pre-include = "a.h" }'),
    ],
    ids=[
        "header",
        "absent header",
        "asked header",
        "template",
        "PTX as it is",
        "PTX that cuda.core would link",
        "pre-included header",
    ],
)
def test_what_cuda_cores_key_cannot_see_has_no_program_key(
    tmp_path: Path, toolkit: Toolkit, files: Mapping[str, str | bytes], options: str
) -> None:
    archs = "" if "archs" in options else 'archs = ["sm_90"]\n'
    assert program_key(tmp_path, toolkit, files, archs + options) is None


def test_what_only_cuda_core_refuses_has_no_program_key(
    tmp_path: Path, toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cuda.core import utils

    real = utils.make_program_cache_key

    def refuse_without_digest(**parts: object) -> object:
        if "extra_digest" not in parts:
            raise ValueError("has side effects")
        return real(**parts)

    monkeypatch.setattr(utils, "make_program_cache_key", refuse_without_digest)
    assert program_key(tmp_path, toolkit, {"k.cu": SAXPY}, 'archs = ["sm_90"]') is None


def test_what_cuda_core_makes_no_key_for_is_an_error_that_names_the_unit(
    tmp_path: Path, toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cuda.core import utils

    def refuse(**_parts: object) -> None:
        raise TypeError("no such option")

    monkeypatch.setattr(utils, "make_program_cache_key", refuse)
    with pytest.raises(ConfigError) as caught:
        keys(tmp_path, toolkit, {"k.cu": SAXPY})
    assert str(caught.value) == "cuda.core cannot make a cache key for k for sm_90: no such option"


def options_of(job: Job, toolkit: Toolkit, *search: str) -> list[str]:
    return [option.decode() for option in toolkit_module.compiler_options(job.unit, toolkit, search)]


def test_a_compile_gets_the_options_and_the_search_path(tmp_path: Path, toolkit: Toolkit) -> None:
    job = jobs(tmp_path, toolkit, FILES)["k for sm_90"]
    found = options_of(job, toolkit, "/a", "/b")
    assert found[-3:] == ["--frandom-seed=hatch-cubin", "--include-path=/a", "--include-path=/b"]
    assert {"-arch=sm_90", "--define-macro=N=4", "--generate-line-info"} <= set(found)


@pytest.mark.parametrize(
    ("options", "version", "seeds"),
    [
        ("", "13.0.88", ["--frandom-seed=hatch-cubin"]),
        ("", "12.9.86", ["--frandom-seed=hatch-cubin"]),
        ("", "12.8.93", []),
        ('options = { frandom-seed = "mine" }', "13.0.88", ["--frandom-seed=mine"]),
    ],
    ids=["13.0", "12.9", "12.8 has no such option", "the user's own"],
)
def test_names_of_anonymous_templates_are_seeded(
    tmp_path: Path, options: str, version: str, seeds: list[str]
) -> None:
    toolkit = Toolkit(None)
    (job,) = jobs(tmp_path, toolkit, {"k.cu": SAXPY}, 'archs = ["sm_90"]\n' + options).values()
    toolkit.nvrtc = version
    found = options_of(job, toolkit)
    assert [
        option.replace("-frandom", "--frandom").replace("---", "--") for option in found if "seed" in option
    ] == seeds


def test_ptx_of_a_source_is_compiled_for_the_arch_that_assembles_it(tmp_path: Path, toolkit: Toolkit) -> None:
    options = 'archs = ["compute_90a", "sm_90a", "compute_90", "compute_80"]'
    found = jobs(tmp_path, toolkit, {"k.cu": SAXPY, "copy.ptx": COPY_PTX}, options)
    asked = {name: (job.inputs.get("assembled"), options_of(job, toolkit)[0]) for name, job in found.items()}
    assert asked == {
        "copy for compute_80": (None, "-arch=sm_80"),
        "copy for sm_90a": (None, "-arch=sm_90a"),
        "k for compute_80": ("sm_80", "-arch=sm_80"),
        "k for compute_90": ("sm_90", "-arch=sm_90"),
        "k for compute_90a": ("sm_90a", "-arch=sm_90a"),
        "k for sm_90a": (None, "-arch=sm_90a"),
    }


def test_ptx_that_was_not_assembled_is_no_hit(
    tmp_path: Path, toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keys_of() -> dict[str, bytes]:
        found = jobs(tmp_path, toolkit, {"k.cu": SAXPY, "copy.ptx": COPY_PTX}, archs)
        return {name: job.keys.key for name, job in found.items()}

    archs = 'archs = ["sm_80", "compute_80"]'
    after = keys_of()
    monkeypatch.setattr(ingredients, "_assembled", lambda _making: None)
    before = keys_of()
    assert {name for name in before if before[name] != after[name]} == {"k for compute_80"}


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ('std = "c++17", max-register-count = 32', ["-maxrregcount=32"]),
        ("lineinfo = true", ["-lineinfo"]),
        ("debug = true, lineinfo = true", ["-g"]),
        ("debug = false, lineinfo = false, disable-warnings = false", []),
        ("fma = false", ["-fmad=false"]),
        ("fma = true, disable-warnings = true", ["-fmad=true", "-w"]),
        ("split-compile = 2", ["-split-compile=2"]),
        ('ofast-compile = "max"', ["--Ofast-compile=max"]),
        ('ptxas-options = ["-O1", "-dlcm=cg"]', ["-O1", "-dlcm=cg"]),
        ('ptxas-options = "-O1"', ["-O1"]),
    ],
)
def test_ptx_is_assembled_with_the_options_that_ptxas_has(
    tmp_path: Path, toolkit: Toolkit, options: str, flags: list[str]
) -> None:
    table = f'archs = ["sm_90", "compute_90"]\noptions = {{ {options} }}'
    found = jobs(tmp_path, toolkit, {"copy.ptx": COPY_PTX, "k.cu": SAXPY}, table)
    assert options_of(found["copy for sm_90"], toolkit) == ["-arch=sm_90", *flags]
    assert options_of(found["copy for compute_80"], toolkit) == ["-arch=sm_80", *flags]


def test_the_options_of_ptx_are_those_that_ptxas_has() -> None:
    assert OF_PTX == assembler.TRANSLATED


def test_old_ptx_is_checked_on_the_oldest_arch_that_there_is(tmp_path: Path, toolkit: Toolkit) -> None:
    old = COPY_PTX.replace("sm_80", "sm_50")
    (job,) = jobs(tmp_path, toolkit, {"old.ptx": old}, 'archs = ["compute_90"]').values()
    assert options_of(job, toolkit)[0] == f"-arch=sm_{max(50, toolkit.supported[0])}"


def test_what_an_sdist_needs_is_found_without_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cuda.core", None)
    files = {**FILES, "k.cu": '#include "a.h"\n#include <cuda_fp16.h>\n#include "../include/c.h"\n'}
    project = make_project(tmp_path, {**files, "unused.h": "", "../include/c.h": "", "../../outside.h": ""})
    assert reachable_files(project, read_sources(project)) == [
        "demo/a.h",
        "demo/copy.ptx",
        "demo/deep/b.h",
        "demo/k.cu",
        "demo/plain.cu",
        "include/c.h",
    ]


def test_toolkit_headers_are_searched_only_where_the_projects_do_not_do(
    tmp_path: Path, toolkit: Toolkit
) -> None:
    own = '#include "a.h"\n' + SAXPY
    half = "#include <cuda_fp16.h>\n" + SAXPY
    found = jobs(tmp_path, toolkit, {"own.cu": own, "a.h": "", "half.cu": half, "twice.cu": half})
    assert [root.logical for root in found["own for sm_90"].search] == []
    assert {root.tree != "" for root in found["half for sm_90"].search} == {True}
    assert found["half for sm_90"].search == found["twice for sm_90"].search
    half_job = found["half for sm_90"]
    headers = half_job.closure.files
    assert next(name.rpartition("/")[2] for name in headers) == "cuda_fp16.h"
    assert half_job.inputs["headers"].keys() <= {"nvrtc", "cuda", "shims"}  # a digest for each tree


def test_notes_of_the_plan_are_said(tmp_path: Path, toolkit: Toolkit) -> None:
    import dataclasses

    said: list[str] = []
    project = make_project(
        tmp_path,
        {"copy.ptx": COPY_PTX.replace("sm_80", "sm_90").replace("7.0", "7.8")},
        'archs = ["all-major"]',
    )
    project = dataclasses.replace(project, inform=said.append)
    make_jobs(project, read_sources(project), toolkit)
    assert said[-1] == "demo/copy.ptx: not built for sm_80, which cannot run PTX with .target sm_90"
