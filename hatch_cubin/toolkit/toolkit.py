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
# Names without linkage are derived from the first name with linkage, or are random if there is none.
_NAMESAKE = 'extern "C" __device__ void hatch_cubin_namesake() {}\n'
_NEWEST = 'toolkit = "13"'
_SYSTEM_HINT = (
    "CUDA_HOME has to name the folder of a toolkit with NVRTC; "
    "this line takes one from wheels, unless HATCH_CUBIN_TOOLKIT is set: "
)


class Keys(NamedTuple):
    """The key under which a unit is stored, and the key that cuda.core's Program.compile would request."""

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
    """The facts about cuda.core and the toolkit that a build needs before it compiles anything."""

    core: str
    major: int
    nvrtc: str
    supported: tuple[int, ...]
    nvjitlink: str | None = None  # if a source needs it


class Toolkit:
    """The NVRTC and nvJitLink of this environment, identified to the exact build.

    *facts* come from an earlier build. With them, nothing is imported or loaded until it is needed.
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
        """The facts about the toolkit that are known now."""
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
        # nvrtcVersion() has no patch level, but the header of each PTX from NVRTC has it.
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
        """The exact build of ptxas, which assembles PTX sources: always NVRTC's build."""
        return self.nvrtc

    @property
    def ptxas_if_used(self) -> str | None:
        """The build of ptxas if this build has a PTX source."""
        return self.__dict__.get("ptxas")

    @property
    def compilers(self) -> dict[str, str | None]:
        """The builds of the compilers for the manifest; None for a compiler that this build does not use."""
        ptxas = {} if self.ptxas_if_used is None else {"ptxas": self.ptxas}
        return {"nvjitlink": self.nvjitlink_if_loaded, "nvrtc": self.nvrtc, **ptxas}

    @cached_property
    def assembler(self) -> str:
        """The path of ptxas; ToolchainError if this toolkit's ptxas is not installed."""
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
        """Return the name and build of the tool that makes a module's code, for messages."""
        if module.link:
            return f"nvJitLink {self.nvjitlink}"
        return f"ptxas {self.ptxas}" if module.source.is_ptx else f"NVRTC {self.nvrtc}"

    def toolchain(self) -> Toolchain:
        """Return the facts that planning needs."""
        return Toolchain(f"NVRTC {self.nvrtc}", self.supported, self.families)

    @property
    def libraries(self) -> tuple[str, ...]:
        """The libraries that a worker has to load before `cuda.bindings` looks for them itself."""
        linker = [self._load("nvJitLink")] if self.nvjitlink_if_loaded else []
        return (*with_builtins(Path(self._nvrtc_path)), *linker)

    @property
    def nvjitlink_if_loaded(self) -> str | None:
        """The build of nvJitLink if a source of this build needs it."""
        return self.__dict__.get("nvjitlink")

    def install_headers(self, folder: Path) -> bool:
        """Unpack the headers that NVRTC contains since 13.3. Return whether it has any.

        OSError if it has some but cannot write them; NVRTC does not give a reason.
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

        cuda-pathfinder searches the interpreter's own site-packages. Under pip's build isolation this is
        the *outer* environment, with another NVRTC or without one. A library that is already loaded
        wins, so the library of this build's environment is loaded first.
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
        """The hint how to get the compiler."""
        if self._wanted is None:
            return f"{self._install}; as a build dependency this line brings it: {_NEWEST}"
        return f"build with isolation, which installs the right one, or {self._install}"

    def _wanted_build(self, name: str, build: str) -> str:
        """Return the *build* of a library; ToolchainError if the table requires another version."""
        wanted = [] if self._wanted in {None, "system"} else str(self._wanted).split(".")[:2]
        if build.split(".")[: len(wanted)] != wanted:
            what = f"the table's toolkit is {self._wanted!r}, but the {name} here is {build}"
            raise ToolchainError(problem("wrong-toolkit-installed", what, hint=self._hint))
        return build

    def _check_release(self) -> str | None:
        """Return a warning if the release's patch level is unknown; ToolchainError if it is wrong."""
        if self._wanted is None or self._wanted.count(".") < 2:
            return None
        release = version_of("cuda-toolkit")
        if release is None:
            return (
                f"toolkit = {self._wanted!r}: without NVIDIA's cuda-toolkit here, only its minor is checked"
            )
        if same_release(release, self._wanted):
            return None
        what = f"the table's toolkit is {self._wanted!r}, but the cuda-toolkit here is {release}"
        raise ToolchainError(problem("wrong-toolkit-installed", what, hint=self._hint))


def _exact_build(name: str, path: str, kind: str, arch: str) -> str:
    """Compile an empty source, and return the exact version of the compiler from the result."""
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
    """Return the link mode of a module that is an object; None for other modules."""
    if not module.part_of:
        return None
    return "lto" if "link_time_optimization" in module.options else "rdc"


def core_key(unit: Unit, extra: str | None = None) -> bytes:
    """Return the key that cuda.core makes for a unit that NVRTC compiles.

    *extra* is the digest of the inputs that cuda.core does not see. With it, this is the key of hatch-cubin's
    own compile; without it, the key of `Program.compile`.
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
    """Return the options and the text that hatch-cubin adds to a module's compiles."""
    return list(filter(None, (*_seed(module, toolkit), preamble(module, toolkit))))


def _seed(module: Module, toolkit: Toolkit) -> tuple[str, ...]:
    """Return the option that makes names in anonymous namespaces reproducible; they are random without it."""
    if module.source.is_ptx or "frandom_seed" in module.options or toolkit.version < _FIRST_WITH_SEED:
        return ()
    # Objects of one link need different names, also if their sources have the same name in two folders.
    own = f"/{module.source.path}" if module.part_of else ""
    return (f"--frandom-seed=hatch-cubin{own}",)


def preamble(module: Module, toolkit: Toolkit) -> str:
    """Return code before a source that makes names reproducible, for compilers without the seed option."""
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
    """Return the `sm_` arch that a unit is compiled for: PTX is assembled too, as a check."""
    if not unit.module.source.is_ptx or unit.module.link:
        return unit.arch.real
    return unit.arch.real._replace(number=max(unit.arch.number, toolkit.supported[0]))
