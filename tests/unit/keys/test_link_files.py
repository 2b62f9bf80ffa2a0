"""What modules are linked with: files of the project and of wheels, proven, part of keys and bills."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import importlib.metadata
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline, sharding
from hatch_cubin.bundle import sbom
from hatch_cubin.config import nvidia_wheels
from hatch_cubin.config.config import ModuleRule
from hatch_cubin.cubin import objects
from hatch_cubin.errors import ConfigError, ToolchainError
from hatch_cubin.explaining import miss_reasons
from hatch_cubin.keys import jobs as jobs_module
from hatch_cubin.lockfile import lock_comparison
from hatch_cubin.project.project import Project, read_sources
from hatch_cubin.toolkit import linker, requirements
from hatch_cubin.toolkit.toolkit import Toolkit
from tests.helpers import COPY_PTX, SAXPY, TABLE, found, install_wheel, make_project, read_config, write_tree

pytestmark = pytest.mark.nvrtc

MODULE = f"\n[[{'.'.join(TABLE)}.module]]\n"
SOLVER = f'archs = ["sm_90"]{MODULE}name = "solver"\nsources = ["a.cu", "h.ptx"]\nmode = "rdc"\n'
USER = '__device__ int f(int); extern "C" __global__ void k(int *p) { *p = f(*p); }\n'
HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
FILES = {"a.cu": USER, "h.ptx": HEADER}
ADD_PTX = f"""{HEADER}.visible .func (.param .b32 r) _Z1fi(.param .b32 a) {{
  .reg .b32 %r<3>; ld.param.u32 %r1, [a]; add.s32 %r2, %r1, 1; st.param.b32 [r], %r2; ret; }}
"""


OF_ACME = "\n  hint: the wheel contains acme/changed.ptx, acme/gone.a, acme/x.a"


def project_of(root: Path, link: str, files: Mapping[str, str | bytes] = FILES) -> Project:
    return make_project(root, files, f"{SOLVER}link = [{link}]\n")


def refusal(project: Project) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        pipeline.make_plan(project)
    return [str(problem) for problem in caught.value.problems]


def recorded(site: Path, name: str, files: Mapping[str, bytes]) -> None:
    """Install a wheel whose RECORD has the digests of its files."""
    install_wheel(site, name, dict.fromkeys(files, ""))
    write_tree(site, files)
    record = next(site.glob(f"{name.replace('-', '_')}-*.dist-info/RECORD"))
    digests = {
        file: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        for file, data in files.items()
    }
    record.write_text("".join(f"{file},sha256={digest},\n" for file, digest in digests.items()))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    return folder


def test_files_of_the_project_and_of_wheels_are_linked_and_named(tmp_path: Path, site: Path) -> None:
    recorded(site, "Acme-Device", {"acme/lib/add.ptx": ADD_PTX.encode()})
    write_tree(tmp_path, {"lib/more.ptx": HEADER})
    project = project_of(tmp_path, '"lib/more.ptx", "acme-device == 1.2 : **/add.ptx"')
    plan = pipeline.make_plan(project)
    (job,) = (job for job in plan.jobs if job.linked)
    assert [(each.name, each.kind) for each in job.linked] == [
        ("demo/a.cu", "cubin"),
        ("demo/h.ptx", "ptx"),
        ("lib/more.ptx", "ptx"),
        ("acme-device/acme/lib/add.ptx", "ptx"),
    ]
    files = pipeline.build(project)
    bill = files[sbom.NAME].decode()
    for part in ('"name": "lib/more.ptx"', '"name": "demo/h.ptx"', '"name": "Acme-Device"', "nvJitLink"):
        assert part in bill
    needed = ["demo/a.cu", "demo/h.ptx", "lib/more.ptx"]
    assert pipeline.needed_files(project) == jobs_module.files_of(plan.jobs) == needed
    assert [*pipeline.sdist_files(project)] == needed
    assert project.config.packages == ("acme-device == 1.2",)
    assert "acme-device == 1.2" in requirements.build_requirements(project.config, {})


def test_each_file_that_cannot_be_linked_is_told_with_its_line(tmp_path: Path, site: Path) -> None:
    recorded(
        site, "acme", {"acme/x.a": b"!<arch>\n", "acme/changed.ptx": ADD_PTX.encode(), "acme/gone.a": b"x"}
    )
    write_tree(site, {"acme/changed.ptx": HEADER})
    (site / "acme/gone.a").unlink()
    (site / "acme/gone.a").mkdir()
    install_wheel(site, "unproven", {"unproven/y.ptx": HEADER})
    install_wheel(site, "pure", {"pure/__init__.py": ""})
    write_tree(
        tmp_path, {"lib/x.bc": b"BC\xc0\xde", "lib/lfs.ptx": "version https://git-lfs.github.com/spec/v1\n"}
    )
    (tmp_path / "lib/out.ptx").symlink_to(__file__)
    entries = (
        "lib/none.ptx",
        "libcublas.so",
        "lib/*.ptx",
        "lib/x.bc",
        "lib/lfs.ptx",
        "lib/out.ptx",
        "absent:**/*.a",
        "acme:**/y.a",
        "acme:acme/x.*o",
        "pure:**/*.a",
        "acme:**/changed.ptx",
        "acme:**/gone.a",
        "unproven:**/*.ptx",
    )
    project = project_of(tmp_path, ",\n".join(f'"{entry}"' for entry in entries))
    told = refusal(project)
    first = int(told[0].split(":")[1])
    install = requirements.install_command(project.config, {})
    assert [each.partition(": link: ")[2] for each in told] == [
        "'lib/none.ptx' is not a file of the project\n  hint: did you mean 'lib/out.ptx'?",
        f"'libcublas.so' is not a file of the project\n  hint: {nvidia_wheels.HOST_LIBRARY}",
        (
            "'lib/*.ptx' is not a file of the project\n"
            "  hint: write a file of a wheel as WHEEL:GLOB, as in 'nvidia-cuda-runtime:**/libcudadevrt.a'"
        ),
        f"lib/x.bc {objects._BITCODE_REFUSED}",
        (
            "lib/lfs.ptx is not PTX, LTO-IR, a relocatable cubin, a fatbin or an archive\n"
            "  hint: the file is only a pointer of Git LFS: 'git lfs pull' downloads its content"
        ),
        (
            "is a link to a place outside the project\n"
            "  hint: add the folder of the link's target to 'source-roots'"
        ),
        (
            "'absent' is not installed in the build environment\n"
            f"  hint: a build with isolation installs this wheel; for a build without isolation: {install}"
        ),
        f"'acme' 1.2 has no file that matches '**/y.a'{OF_ACME}",
        f"'acme' 1.2 has no file that matches 'acme/x.*o'{OF_ACME}",
        "'pure' 1.2 has no file that matches '**/*.a'",
        "acme/changed.ptx does not match its digest in the RECORD of 'acme' 1.2\n  hint: install acme again",
        "acme/gone.a of 'acme' cannot be read: it is a folder",
        (
            "unproven/y.ptx does not match its digest in the RECORD of 'unproven' 1.2\n"
            "  hint: install unproven again"
        ),
    ]
    assert [int(each.split(":")[1]) for each in told] == [*range(first, first + len(entries))]


def test_a_cubin_is_linked_for_its_own_arch_alone(tmp_path: Path) -> None:
    project = make_project(
        tmp_path,
        {"a.cu": USER, "b.cu": "__device__ int f(int a) { return a; }\n"},
        f'archs = ["sm_80", "sm_90"]{MODULE}name = "m"\nsources = ["a.cu", "b.cu"]\nmode = "rdc"\n',
    )
    plan = pipeline.make_plan(project)
    done = pipeline.attempt(project, plan).done
    cubins = {str(unit.arch): hit.data for unit, hit in done.items() if unit.module.name == "m/demo/b.cu"}
    write_tree(tmp_path, {f"lib/f.{arch}.cubin": data for arch, data in cubins.items()})
    options = f'archs = ["sm_80", "sm_90"]{MODULE}name = "m"\nsources = ["a.cu"]\nmode = "rdc"\n'
    link = 'link = ["lib/f.sm_80.cubin", "lib/f.sm_90.cubin"]\n'
    project = make_project(tmp_path, {"b.cu": SAXPY}, options + link)
    linked = {str(job.unit.arch): job.linked for job in pipeline.make_plan(project).jobs if job.linked}
    assert {arch: [each.name for each in inputs] for arch, inputs in linked.items()} == {
        "sm_80": ["demo/a.cu", "lib/f.sm_80.cubin"],
        "sm_90": ["demo/a.cu", "lib/f.sm_90.cubin"],
    }
    assert {"m.sm_80.cubin", "m.sm_90.cubin"} <= pipeline.build(project).keys()


@pytest.mark.parametrize(
    ("change", "again"),
    [
        (lambda text: text, []),
        (lambda text: text.replace('"lib/x.ptx", "lib/y.ptx"', '"lib/y.ptx", "lib/x.ptx"'), ["solver"]),
        (lambda text: text.replace(', "lib/y.ptx"', ""), ["solver"]),
        (lambda text: text.replace('"solver"', '"other"'), []),
        (
            lambda text: text.replace("link =", "options = { use-fast-math = true }\nlink ="),
            ["solver", "solver/demo/a.cu"],
        ),
        (
            lambda text: text.replace("link =", "options = { ptxas-options = ['-w'] }\nlink ="),
            ["solver", "solver/demo/a.cu"],
        ),
    ],
    ids=["nothing", "the order", "one file less", "the name", "fast math", "an option of the assembler"],
)
def test_what_a_link_is_made_of_is_its_key(
    tmp_path: Path, change: Callable[[str], str], again: list[str]
) -> None:
    text = f'{SOLVER}link = ["lib/x.ptx", "lib/y.ptx"]\n'
    write_tree(tmp_path, {"lib/x.ptx": ADD_PTX, "lib/y.ptx": f"{HEADER}// y\n"})

    def keys(options: str) -> dict[str, bytes]:
        jobs = pipeline.make_plan(make_project(tmp_path, FILES, options)).jobs
        return {job.unit.module.name.replace("other", "solver"): job.keys.key for job in jobs}

    before, after = keys(text), keys(change(text))
    assert [name for name in before if before[name] != after[name]] == again


def test_explain_says_which_input_of_a_link_differs(tmp_path: Path) -> None:
    write_tree(tmp_path, {"lib/x.ptx": ADD_PTX, "lib/y.ptx": HEADER})
    project = project_of(tmp_path, '"lib/x.ptx"')
    pipeline.build(project)
    write_tree(tmp_path, {"lib/x.ptx": ADD_PTX.replace("1;", "2;")})

    def why(link: str) -> list[str]:
        changed = project_of(tmp_path, link)
        jobs = [job for job in pipeline.make_plan(changed).jobs if job.linked]
        with pipeline.open_cache(changed) as cache:
            (found,) = miss_reasons.look_up_units(jobs, cache)
        return found.reason_lines(verbose=False)

    assert why('"lib/x.ptx"') == ["lib/x.ptx has changed"]
    assert why('"lib/x.ptx", "lib/y.ptx"') == ["lib/x.ptx has changed", "lib/y.ptx is now linked"]
    assert why("") == ["lib/x.ptx is no longer linked"]
    more = f"{HEADER}// another\n"
    write_tree(tmp_path, {"lib/x.ptx": ADD_PTX, "lib/z.ptx": more})
    pipeline.build(project_of(tmp_path, '"lib/x.ptx", "lib/y.ptx", "lib/z.ptx"'))
    (told,) = why('"lib/z.ptx", "lib/y.ptx", "lib/x.ptx"')
    assert told.endswith(
        ", lib/x.ptx, lib/y.ptx, lib/z.ptx -> demo/a.cu, demo/h.ptx, lib/z.ptx, lib/y.ptx, lib/x.ptx"
    )


def test_a_lock_has_all_that_is_linked(tmp_path: Path) -> None:
    write_tree(tmp_path, {"lib/x.ptx": ADD_PTX})
    project = project_of(tmp_path, '"lib/x.ptx"')
    lock = pipeline.make_lock(project)
    assert lock.modules["solver"]["link"] == ["lib/x.ptx"]
    assert {"demo/a.cu", "demo/h.ptx", "lib/x.ptx"} <= lock.files.keys()
    assert [*pipeline.check_lock(project, lock).changes] == []
    told = lock_comparison.plan_by_lock(lock, project, read_sources(project))
    assert (told.changes, told.doubts) == ((), ())
    assert [job.keys for job in told.jobs] == [job.keys for job in pipeline.make_plan(project).jobs]
    write_tree(tmp_path, {"lib/x.ptx": HEADER})
    assert [*pipeline.check_lock(project, lock).changes] == ["lib/x.ptx is changed"]
    other = project_of(tmp_path, "")
    assert (
        "link of solver is changed" in lock_comparison.plan_by_lock(lock, other, read_sources(other)).changes
    )


def test_a_link_is_in_one_shard_with_all_that_it_is_linked_of(tmp_path: Path) -> None:
    options = f'archs = ["sm_80", "sm_90"]{MODULE}name = "m"\nsources = ["a.cu", "b.cu"]\nmode = "lto"\n'
    options += f'{MODULE}name = "n"\nsources = ["b.cu", "c.cu"]\nmode = "lto"\n'
    project = make_project(tmp_path, {"a.cu": USER, "b.cu": "", "c.cu": USER, "saxpy.cu": SAXPY}, options)
    plan = pipeline.make_plan(project)
    shares = [
        sharding.share(project, plan.jobs, plan.toolkit, sharding.Shard(number, 3), ()).jobs
        for number in (1, 2, 3)
    ]
    assert sorted(job.unit.name for share in shares for job in share) == sorted(
        job.unit.name for job in plan.jobs
    )
    for share in shares:
        units = {job.unit for job in share}
        assert all(each.unit in units for job in share for each in job.linked)


def test_a_header_that_cannot_be_read_takes_its_link_along_and_no_other(tmp_path: Path) -> None:
    options = f'archs = ["sm_90"]{MODULE}name = "m"\nsources = ["a.cu", "b.cu"]\nmode = "lto"\n'
    options += f'{MODULE}name = "n"\nsources = ["c.cu"]\nmode = "lto"\n'
    files = {"a.cu": USER, "b.cu": '#include "pipe.h"\n', "c.cu": SAXPY}
    project = make_project(tmp_path, files, options)
    os.mkfifo(tmp_path / "demo/pipe.h")
    plan = pipeline.make_plan(project, in_part=True)
    assert [job.unit.module.name for job in plan.jobs if job.linked] == ["n"]
    assert [each.code for each in plan.refused] == ["not-a-regular-file"]


def test_ptx_alone_is_not_linked_as_lto_ir(tmp_path: Path) -> None:
    files = {"k.ptx": COPY_PTX, "h.ptx": ADD_PTX}
    table = f'archs = ["sm_90"]{MODULE}name = "m"\nsources = ["k.ptx", "h.ptx"]\nmode = '
    what = "all inputs of m are PTX, but mode = 'lto' needs at least one input with LTO-IR"
    told = refusal(make_project(tmp_path, files, f'{table}"lto"\n'))
    assert told == [f'pyproject.toml:14: {what}\n  hint: mode = "rdc"']
    assert "m.sm_90.cubin" in pipeline.build(make_project(tmp_path, files, f'{table}"rdc"\n'))


def test_lto_ir_that_is_newer_than_the_linker_is_refused_before_anything_is_compiled(tmp_path: Path) -> None:
    toolkit = Toolkit(None)
    vars(toolkit)["nvjitlink"] = "12.9.86"
    with pytest.raises(ToolchainError) as caught:
        linker.refuse_older(toolkit)
    assert found(caught.value) == [("nvjitlink-too-old", "")]
    what = f"nvJitLink 12.9.86 cannot link LTO-IR from the newer NVRTC {toolkit.nvrtc}"
    release = "{}.{}".format(*toolkit.version)
    hint = (
        f"install the nvJitLink of CUDA {release}; to use CUDA {release} for "
        f'NVRTC and nvJitLink, write toolkit = "{release}"'
    )
    assert str(caught.value) == f"{what}\n  hint: {hint}"


def test_the_names_of_wheels_are_read_of_what_is_linked() -> None:
    rule = ModuleRule(name="m", sources=(), mode="rdc", link=("lib/x.ptx", "a==1:**/x.a", "b:y.a"))
    config = dataclasses.replace(read_config('header-packages = ["b"]\n'), module=(rule,))
    assert (rule.wheels, config.packages) == (("a==1", "b"), ("b", "a==1"))


def test_dynamic_parallelism_is_linked_with_the_runtimes_own_archive(tmp_path: Path) -> None:
    child = 'extern "C" __global__ void c(int *p) { *p = 1; }\n'
    source = child + 'extern "C" __global__ void k(int *p) { c<<<1, 1>>>(p); }\n'
    name = "nvidia-cuda-runtime" if Toolkit(None).major >= 13 else "nvidia-cuda-runtime-cu12"
    options = f'archs = ["sm_80", "sm_90", "sm_120"]{MODULE}name = "m"\nsources = ["a.cu"]\nmode = "MODE"\n'
    link = f'link = ["{name}:**/libcudadevrt.a"]\n'
    for mode in ("rdc", "lto"):
        files = pipeline.build(
            make_project(tmp_path / mode, {"a.cu": source}, options.replace("MODE", mode) + link)
        )
        sizes = {name: len(data) for name, data in files.items() if name.endswith(".cubin")}
        assert sizes.keys() == {"m.sm_80.cubin", "m.sm_90.cubin", "m.sm_120.cubin"}
        assert min(sizes.values()) > 100_000
        assert f'"version": "{importlib.metadata.version(name)}"' in files[sbom.NAME].decode()
