"""The CUDA toolkit that a build uses: its exact version, the compilers' options, cuda.core's part of keys."""

from __future__ import annotations

import errno
import os
import re
import sys
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ..common.arch_names import Arch
from ..common.capabilities import FAMILIES_SINCE
from ..errors import ToolchainError, problem
from ..planning.unit_plan import Module, Toolchain, Unit
from .installed_wheels import CORE, compiler, same_release, unmet, version_of
from .libraries import absent_from_home, candidates, system_major, with_builtins

DATA_MODEL = "llp64" if sys.platform == "win32" else "lp64"
# Another processor's compiler may take a plain `char` for unsigned, as that processor's own compilers do.
OTHER_MACHINE = "" if sys.platform == "win32" or os.uname().machine == "x86_64" else os.uname().machine

LINKER_FIELDS = (
    "max_register_count",
    "lineinfo",
    "debug",
    "ftz",
    "prec_div",
    "prec_sqrt",
    "fma",
    "split_compile",
    "ptxas_options",
)
_BUILD = re.compile(rb"Cuda compilation tools, release [\d.]+, V(\d+\.\d+\.\d+)")
_PROBE_PTX = b".version 6.4\n.target sm_75\n.address_size 64\n.visible .entry probe() { ret; }\n"
_FIRST_WITH_SEED = (12, 9)
# What has no linkage is named after the first thing that has linkage, or at random where nothing has.
_NAMESAKE = 'extern "C" __device__ void hatch_cubin_namesake() {}\n'
_NEWEST = 'toolkit = "13"'
_SYSTEM_HINT = (
    "CUDA_HOME has to name the folder of a toolkit with NVRTC; "
    "this line takes one from wheels, unless HATCH_CUBIN_TOOLKIT is set: "
)


class Keys(NamedTuple):
    """The key that a unit is stored under, and the one that cuda.core's Program.compile would ask for."""

    key: bytes
    program_key: bytes | None

    @classmethod
    def of(cls, key: str, program_key: str | None) -> Keys:
        """Return the keys that `hex` returned as text."""
        return cls(bytes.fromhex(key), None if program_key is None else bytes.fromhex(program_key))

    def hex(self) -> tuple[str, str | None]:
        """Return both keys as hexadecimal text."""
        return self.key.hex(), None if self.program_key is None else self.program_key.hex()


class Facts(NamedTuple):
    """What a build has to know of cuda.core and of the toolkit before it compiles anything."""

    core: str
    major: int
    nvrtc: str
    supported: tuple[int, ...]
    nvjitlink: str | None = None  # where a source has asked for it


class Toolkit:
    """The NVRTC and nvJitLink of this environment, identified to the exact build.

    *facts* are what an earlier build found out. With them, nothing is imported or loaded until it is needed.
    """

    def __init__(
        self, wanted: str | None, install: str = "install it here", facts: Facts | None = None
    ) -> None:
        self._wanted = wanted
        self._install = install
        if facts is None:
            facts = self._ask()
        self.core, self.major, self.nvrtc, self.supported, self._nvjitlink = facts
        self._wanted_build("NVRTC", self.nvrtc)
        self.doubt = self._check_release()

    @property
    def facts(self) -> Facts:
        """What is known of the toolkit by now."""
        known = self.nvjitlink_if_loaded or self._nvjitlink
        return Facts(self.core, self.major, self.nvrtc, self.supported, known)

    def _ask(self) -> Facts:
        try:
            import cuda.bindings
            import cuda.core
        except ImportError as exc:
            what = f"cannot import cuda.core and cuda.bindings: {exc}"
            raise ToolchainError(problem("cuda-core-not-importable", what, hint=self._hint)) from exc
        if unmet([CORE]):
            what = f"cuda-core {cuda.core.__version__} is here, and hatch-cubin needs {CORE}"
            raise ToolchainError(problem("wrong-cuda-core", what, hint=self._hint))
        self.major = int(cuda.bindings.__version__.split(".")[0])
        self.load()
        from cuda.bindings import nvrtc

        supported = tuple(sorted(nvrtc.nvrtcGetSupportedArchs()[1]))
        # nvrtcVersion() lacks the patch level; the header of any PTX that NVRTC writes has it.
        build = _exact_build("NVRTC", self._nvrtc_path, "c++", f"-arch=compute_{supported[0]}")
        return Facts(cuda.core.__version__, self.major, build, supported)

    def load(self) -> None:
        """Load NVRTC before cuda.core looks for it: cuda.core would look elsewhere."""
        _ = self._nvrtc_path

    @cached_property
    def _nvrtc_path(self) -> str:
        return self._load("nvrtc")

    @property
    def version(self) -> tuple[int, int]:
        """NVRTC's major and minor version."""
        major, minor, _patch = self.nvrtc.split(".")
        return int(major), int(minor)

    @cached_property
    def ptxas(self) -> str:
        """The exact build of ptxas, which assembles PTX sources: only that of NVRTC is used."""
        return self.nvrtc

    @property
    def ptxas_if_used(self) -> str | None:
        """The build of ptxas if this build has a PTX source."""
        return self.__dict__.get("ptxas")

    @property
    def compilers(self) -> dict[str, str | None]:
        """The builds of the compilers as the manifest has them; one that this build does not use is None."""
        ptxas = {} if self.ptxas_if_used is None else {"ptxas": self.ptxas}
        return {"nvjitlink": self.nvjitlink_if_loaded, "nvrtc": self.nvrtc, **ptxas}

    @cached_property
    def assembler(self) -> str:
        """The path of ptxas; ToolchainError if that of this toolkit is not installed."""
        from . import assembler  # lazy: only with PTX sources

        return assembler.find(self._wanted, self.major, self.ptxas, self._assembler_hint)

    @property
    def _assembler_hint(self) -> str:
        if self._wanted == "system":
            return "install the toolkit's compiler (nvcc) into CUDA_HOME"
        from . import assembler

        line = f"pip install {assembler.wheel(self.major, self.ptxas)}"
        return line if self._wanted is None else f"build with isolation, which installs it, or {line}"

    @cached_property
    def nvjitlink(self) -> str:
        """The exact build of nvJitLink, which links modules of several sources."""
        build = self._nvjitlink
        if build is None:
            arch = f"-arch=sm_{max(75, self.supported[0])}"
            build = _exact_build("nvJitLink", self._load("nvJitLink"), "link", arch)
        return self._wanted_build("nvJitLink", build)

    @property
    def families(self) -> bool:
        return self.version >= FAMILIES_SINCE

    def compiler_of(self, module: Module) -> str:
        """Return what makes a module's code, as messages name it."""
        if module.link:
            return f"nvJitLink {self.nvjitlink}"
        return f"ptxas {self.ptxas}" if module.source.is_ptx else f"NVRTC {self.nvrtc}"

    def toolchain(self) -> Toolchain:
        """Return what planning needs to know."""
        return Toolchain(f"NVRTC {self.nvrtc}", self.supported, self.families)

    @property
    def libraries(self) -> tuple[str, ...]:
        """The libraries that a worker has to load before `cuda.bindings` looks for them itself."""
        linker = [self._load("nvJitLink")] if self.nvjitlink_if_loaded else []
        return (*with_builtins(Path(self._nvrtc_path)), *linker)

    @property
    def nvjitlink_if_loaded(self) -> str | None:
        """The build of nvJitLink where a source of this build has asked for it."""
        return self.__dict__.get("nvjitlink")

    def install_headers(self, folder: Path) -> bool:
        """Unpack the headers that NVRTC carries since 13.3; say whether it has any.

        OSError where it has some and could not write them; NVRTC does not say why.
        """
        self.load()
        from cuda.bindings import nvrtc

        install = getattr(nvrtc, "nvrtcInstallBundledHeaders", None)
        if install is None:
            return False
        if int(install(os.fsencode(folder), 0)[0]) == 0:
            return True
        carried = nvrtc.nvrtcGetBundledHeadersInfo()[1]
        if carried.available:
            needed = f"{carried.uncompressedSize >> 20} MB in {carried.numFiles} files"
            raise OSError(errno.EIO, f"NVRTC could not write them ({needed}); is the disk full?")
        return False

    def _load(self, name: str) -> str:
        """Load a library and return its path.

        cuda-pathfinder looks into the interpreter's own site-packages: under pip's build isolation
        that is the *outer* environment, with another NVRTC or none. What is loaded already wins, so
        the one that stands beside this build's packages is loaded first.
        """
        from ctypes import CDLL

        try:
            for candidate in candidates(name, self.major, self._wanted):
                if candidate.is_file():
                    for library in with_builtins(candidate):
                        CDLL(library)
                    return str(candidate)
            if self._wanted == "system":
                raise OSError(absent_from_home(self.major))
            from cuda.pathfinder import load_nvidia_dynamic_lib

            return str(load_nvidia_dynamic_lib(name).abs_path)
        except (OSError, RuntimeError) as exc:
            reason = str(exc).splitlines()[0]
            here = () if self._wanted == "system" else (f"here: {', '.join(compiler())}",)
            hint = self._hint
            if self._wanted == "system":
                other = system_major()
                bindings = "" if other in {None, self.major} else f"pip install 'cuda-bindings=={other}.*'"
                hint = bindings or f"{_SYSTEM_HINT}{_NEWEST}"
            what = f"cannot load {name}: {reason}"
            raise ToolchainError(problem("library-not-loadable", what, None, hint, here)) from exc

    @property
    def _hint(self) -> str:
        """What the user can do to get the compiler."""
        if self._wanted is None:
            return f"{self._install}; as a build dependency this line brings it: {_NEWEST}"
        return f"build with isolation, which installs the one asked for, or {self._install}"

    def _wanted_build(self, name: str, build: str) -> str:
        """Return the *build* of a library; ToolchainError where the table asks for another version."""
        wanted = [] if self._wanted in {None, "system"} else str(self._wanted).split(".")[:2]
        if build.split(".")[: len(wanted)] != wanted:
            what = f"toolkit = {self._wanted!r} is asked for, but the {name} here is {build}"
            raise ToolchainError(problem("wrong-toolkit-installed", what, hint=self._hint))
        return build

    def _check_release(self) -> str | None:
        """Return a warning where the release's patch cannot be checked; ToolchainError where it is wrong."""
        if self._wanted is None or self._wanted.count(".") < 2:
            return None
        release = version_of("cuda-toolkit")
        if release is None:
            return (
                f"toolkit = {self._wanted!r}: without NVIDIA's cuda-toolkit here, only its minor is checked"
            )
        if same_release(release, self._wanted):
            return None
        what = f"toolkit = {self._wanted!r} is asked for, but the cuda-toolkit here is {release}"
        raise ToolchainError(problem("wrong-toolkit-installed", what, hint=self._hint))


def _exact_build(name: str, path: str, kind: str, arch: str) -> str:
    """Compile a trifle and return the exact version of the compiler, which stands in the result."""
    from . import worker

    task = {"id": 0, "kind": kind, "code": b"", "name": b"probe", "instantiate": [], "ptx": kind == "c++"}
    inputs = [("ptx", b"probe", _PROBE_PTX)]  # of a link
    result = worker.compile_task({**task, "options": [arch.encode()], "inputs": inputs})
    match = _BUILD.search(result["ptx"] or result["output"])
    if match is None and result["ok"]:  # nvJitLink 12 leaves it out of results, but its own file has it
        match = _BUILD.search(Path(path).read_bytes())
    if match is None:
        what = f"cannot tell which build of {name} {path} is"
        details = tuple(result["log"].splitlines())
        raise ToolchainError(problem("unknown-library-build", what, details=details))
    return match[1].decode()


def mode_of(module: Module) -> str | None:
    """Return how an object is linked that a module is; None where it is no object."""
    if not module.part_of:
        return None
    return "lto" if "link_time_optimization" in module.options else "rdc"


def core_key(unit: Unit, extra: str | None = None) -> bytes:
    """Return the key that cuda.core makes for a unit that NVRTC compiles.

    With *extra*, the digest of what cuda.core does not see, it is the key of hatch-cubin's own compile.
    Without, it is the key of `Program.compile`.
    """
    from cuda.core.utils import make_program_cache_key

    module, source = unit.module, unit.module.source
    target = "ptx" if unit.arch.is_ptx else "cubin"
    if mode_of(module) == "lto":
        target = "ltoir"
    own: dict[str, Any] = {"options": _program_options(unit)}
    if extra is not None:
        own = {
            "options": _program_options(unit, name=source.path),
            "name_expressions": module.instantiate,
            "extra_digest": bytes.fromhex(extra),
        }
    return bytes(make_program_cache_key(code=source.text, code_type="c++", target_type=target, **own))


def flags(unit: Unit, toolkit: Toolkit) -> list[str]:
    """Return the flags with which ptxas assembles a unit."""
    from . import assembler

    return assembler.flags(unit.module.options, assembled_for(unit, toolkit))


def _program_options(unit: Unit, **names: str) -> Any:
    from cuda.core import ProgramOptions

    options = unit.module.plain_options
    if unit.module.macros:
        options["define_macro"] = list(unit.module.macros)
    return ProgramOptions(arch=str(unit.arch), **options, **names)


def implicit(module: Module, toolkit: Toolkit) -> list[str]:
    """Return what hatch-cubin adds to the options and the text of a module's compiles."""
    return list(filter(None, (*_seed(module, toolkit), preamble(module, toolkit))))


def _seed(module: Module, toolkit: Toolkit) -> tuple[str, ...]:
    """Return the option that fixes the names of templates in anonymous namespaces, random without it."""
    if module.source.is_ptx or "frandom_seed" in module.options or toolkit.version < _FIRST_WITH_SEED:
        return ()
    # What is linked with others must not have their names, as sources called alike in two folders would.
    own = f"/{module.source.path}" if module.part_of else ""
    return (f"--frandom-seed=hatch-cubin{own}",)


def preamble(module: Module, toolkit: Toolkit) -> str:
    """Return the code that fixes random names in front of a source, where the compiler takes no seed."""
    seeded = module.source.is_ptx or toolkit.version >= _FIRST_WITH_SEED
    return "" if seeded else _NAMESAKE


def compiler_options(unit: Unit, toolkit: Toolkit, search: tuple[str, ...]) -> tuple[bytes, ...]:
    """Return the options of a unit's real compile, the search path included."""
    if unit.module.source.is_ptx:
        return tuple(flag.encode() for flag in flags(unit, toolkit))
    toolkit.load()
    options = _program_options(unit._replace(arch=assembled_for(unit, toolkit))).as_bytes("nvrtc", "cubin")
    paths = (f"--include-path={folder}".encode() for folder in search)
    return (*options, *(option.encode() for option in _seed(unit.module, toolkit)), *paths)


def assembled_for(unit: Unit, toolkit: Toolkit) -> Arch:
    """Return the arch that a unit is really compiled for: PTX too, to know that it can be assembled."""
    if not unit.module.source.is_ptx or unit.module.link:
        return unit.arch.real
    return unit.arch.real._replace(number=max(unit.arch.number, toolkit.supported[0]))
