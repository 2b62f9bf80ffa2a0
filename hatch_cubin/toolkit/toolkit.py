"""The CUDA toolkit of a build: its exact version and compiler options, and the cache keys of cuda.core."""

from __future__ import annotations

import errno
import os
import re
import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..common.arch_names import Arch
from ..common.capabilities import FAMILIES_SINCE, FIRST_TILE, TILE_SINCE
from ..errors import ToolchainError, problem
from ..planning.unit_plan import Module, Toolchain, Unit
from .installed_wheels import CORE, compiler, same_release, unmet, version_of
from .libraries import absent_from_home, candidates, system_major, with_builtins

if TYPE_CHECKING:
    from .tile_assembler import TileAssembler

DATA_MODEL = "llp64" if sys.platform == "win32" else "lp64"
# The machine's processor if it is not x86-64, because on other processors `char` may be unsigned.
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
# A function that is put before each source if NVRTC does not have the option --frandom-seed. NVRTC derives
# names in anonymous namespaces from the first name with external linkage. If a source does not have such a
# name, NVRTC makes random names.
_NAMESAKE = 'extern "C" __device__ void hatch_cubin_namesake() {}\n'
_NEWEST = 'toolkit = "13"'
_SYSTEM_HINT = (
    "set CUDA_HOME to the folder of a toolkit with NVRTC; "
    "or, unless HATCH_CUBIN_TOOLKIT is set, use a toolkit from wheels: "
)


class Keys(NamedTuple):
    """The cache key of a unit, and the key with which cuda.core's Program.compile would cache the source."""

    key: bytes
    program_key: bytes | None

    @classmethod
    def of(cls, key: str, program_key: str | None) -> Keys:
        """Return the cache keys of a unit from the hexadecimal texts that `hex` returns."""
        return cls(bytes.fromhex(key), None if program_key is None else bytes.fromhex(program_key))

    def hex(self) -> tuple[str, str | None]:
        """Return `key` (the unit's cache key) and `program_key` as hexadecimal texts."""
        return self.key.hex(), None if self.program_key is None else self.program_key.hex()


class Facts(NamedTuple):
    """The facts about cuda.core and the CUDA toolkit that each build needs, even if it compiles nothing."""

    core: str
    major: int
    nvrtc: str
    supported: tuple[int, ...]
    # The exact version of nvJitLink; None if no linked module has needed nvJitLink so far.
    nvjitlink: str | None = None
    # The exact versions of tileiras and of its tools; None if no tile kernel has needed tileiras so far.
    tileiras: str | None = None


class Toolkit:
    """The NVRTC and nvJitLink that are installed in this environment, with their exact versions.

    *facts* are the facts about the toolkit that an earlier build has recorded. If *facts* is given, no
    library is imported or loaded until a compile needs the library.
    """

    def __init__(
        self, wanted: str | None, install: str = "install it here", facts: Facts | None = None
    ) -> None:
        self._wanted = wanted
        self._install = install
        if facts is None:
            facts = self._ask()
        self.core, self.major, self.nvrtc, self.supported, self._nvjitlink, self._tileiras = facts
        self._wanted_build("NVRTC", self.nvrtc)
        self.doubt = self._check_release()

    @property
    def facts(self) -> Facts:
        """The facts that are known about the CUDA toolkit; a build stores these facts for later builds."""
        known = self.nvjitlink_if_loaded or self._nvjitlink
        return Facts(
            self.core, self.major, self.nvrtc, self.supported, known, self.tileiras_if_used or self._tileiras
        )

    def _ask(self) -> Facts:
        try:
            import cuda.bindings
            import cuda.core
        except Exception as exc:
            what = f"cannot import cuda.core and cuda.bindings: {exc}"
            details, hint = _overwritten_bindings() or ((), self._hint)
            raise ToolchainError(
                problem("cuda-core-not-importable", what, hint=hint, details=details)
            ) from exc
        if unmet([CORE]):
            what = f"cuda-core {cuda.core.__version__} is installed, but hatch-cubin needs {CORE}"
            raise ToolchainError(problem("wrong-cuda-core", what, hint=self._hint))
        self.major = int(cuda.bindings.__version__.split(".")[0])
        self.load()
        from cuda.bindings import nvrtc

        try:
            supported = tuple(sorted(nvrtc.nvrtcGetSupportedArchs()[1]))
        except RuntimeError as exc:  # cuda.bindings loads the library a second time
            raise self._not_loadable("nvrtc", exc) from exc
        # nvrtcVersion() does not return the patch level, but the header of each PTX from NVRTC contains it
        build = _exact_build("NVRTC", self._nvrtc_path, "c++", f"-arch=compute_{supported[0]}")
        return Facts(cuda.core.__version__, self.major, build, supported)

    def load(self) -> None:
        """Load this environment's NVRTC now, because cuda.core would load NVRTC from another folder."""
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
        """The exact version of ptxas; a build requires that ptxas and NVRTC have the same exact version."""
        return self.nvrtc

    @property
    def ptxas_if_used(self) -> str | None:
        """The exact version of ptxas; None if the project does not have PTX sources."""
        return self.__dict__.get("ptxas")

    @property
    def compilers(self) -> dict[str, str | None]:
        """The exact versions of the compilers, for the manifest; None for each compiler that was not used."""
        others = {"ptxas": self.ptxas_if_used, "tileiras": self.tileiras_if_used}
        used = {tool: build for tool, build in others.items() if build is not None}
        return {"nvjitlink": self.nvjitlink_if_loaded, "nvrtc": self.nvrtc, **used}

    @cached_property
    def assembler(self) -> str:
        """The path of ptxas; ToolchainError if the toolkit's ptxas is not installed."""
        from . import assembler  # lazy import: needed only for PTX sources

        return assembler.find(self._wanted, self.major, self.ptxas, self._assembler_hint)

    @property
    def extras(self) -> frozenset[str]:
        """The extras of NVIDIA's wheel cuda-toolkit for the tools that this build needs besides NVRTC."""
        tools = {"nvcc": self.ptxas_if_used, "tileiras": self.tileiras_if_used}
        return frozenset(extra for extra, build in tools.items() if build is not None)

    @cached_property
    def tileiras(self) -> str:
        """The exact versions of tileiras, which compiles tile kernels, and of the tools that it runs."""
        return self._tileiras or self._tile_assembler.build

    @property
    def tileiras_if_used(self) -> str | None:
        """The exact versions of tileiras and of its tools; None if the project does not have tile kernels."""
        return self.__dict__.get("tileiras")

    @property
    def tile_assembler(self) -> str:
        """The path of tileiras; ToolchainError if tileiras or a tool that it runs is not installed."""
        return self._tile_assembler.path

    @cached_property
    def _tile_assembler(self) -> TileAssembler:
        from . import tile_assembler  # lazy import: needed only for tile kernels

        return tile_assembler.find(self._wanted, ".".join(map(str, self.version)))

    @property
    def _assembler_hint(self) -> str:
        if self._wanted == "system":
            return "install the toolkit's compiler (nvcc) into CUDA_HOME"
        from . import assembler

        line = f"pip install {assembler.wheel(self.major, self.ptxas)}"
        if self.nvrtc == assembler.WITHOUT_PTXAS and self._wanted is not None:
            return (
                f'NVRTC and ptxas in CUDA 13.3.1 have different versions: {line}, or write toolkit = "13.3.0"'
            )
        return line if self._wanted is None else f"build with isolation, which installs ptxas, or {line}"

    @cached_property
    def nvjitlink(self) -> str:
        """The exact version of nvJitLink, which links modules that consist of several sources."""
        build = self._nvjitlink
        if build is None:
            arch = f"-arch=sm_{max(75, self.supported[0])}"
            build = _exact_build("nvJitLink", self._load("nvJitLink"), "link", arch)
        return self._wanted_build("nvJitLink", build)

    @property
    def families(self) -> bool:
        return self.version >= FAMILIES_SINCE

    def compiler_of(self, module: Module) -> str:
        """Return the name and version of the compiler or linker of a module's machine code, for messages."""
        if module.link:
            return f"nvJitLink {self.nvjitlink}"
        if module.is_tile:
            return f"tileiras {self.tileiras}"
        return f"ptxas {self.ptxas}" if module.source.is_ptx else f"NVRTC {self.nvrtc}"

    def toolchain(self) -> Toolchain:
        """Return the facts about the toolkit that the code in `planning/` needs."""
        # in CUDA 13.3 to 13.5, tileiras knows exactly the capabilities from 8.0 on that NVRTC knows
        tile = [number for number in self.supported if number >= FIRST_TILE and self.version >= TILE_SINCE]
        return Toolchain(f"NVRTC {self.nvrtc}", self.supported, self.families, tuple(tile))

    @property
    def libraries(self) -> tuple[str, ...]:
        """The libraries that a worker process must load before it imports `cuda.bindings`."""
        linker = [self._load("nvJitLink")] if self.nvjitlink_if_loaded else []
        return (*with_builtins(Path(self._nvrtc_path)), *linker)

    @property
    def nvjitlink_if_loaded(self) -> str | None:
        """The exact version of nvJitLink; None if this build has not needed nvJitLink."""
        return self.__dict__.get("nvjitlink")

    def install_headers(self, folder: Path) -> bool:
        """Unpack the headers that NVRTC contains; return False if NVRTC is older than 13.3 or has no headers.

        Raise OSError if NVRTC contains headers but cannot write the headers into the folder. The OSError
        contains no reason, because NVRTC does not report why it failed.
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
            raise OSError(errno.EIO, f"NVRTC could not write its headers ({needed}); is the disk full?")
        return False

    def _load(self, name: str) -> str:
        """Load a library and return its path.

        This function loads the library of the build's environment first, and cuda-pathfinder then uses this
        loaded library. If no library is loaded, cuda-pathfinder searches the interpreter's own site-packages.
        Under pip's build isolation, the interpreter's own site-packages belong to the *outer* environment,
        which may contain another NVRTC or no NVRTC.
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
            raise self._not_loadable(name, exc) from exc

    def _not_loadable(self, name: str, exc: Exception) -> ToolchainError:
        """Return the error for a library of the toolkit that cannot be loaded; *exc* is the cause."""
        here = () if self._wanted == "system" else (f"installed: {', '.join(compiler())}",)
        hint = self._hint
        if self._wanted == "system":
            other = system_major()
            bindings = "" if other in {None, self.major} else f"pip install 'cuda-bindings=={other}.*'"
            hint = bindings or f"{_SYSTEM_HINT}{_NEWEST}"
        what = f"cannot load {name}: {str(exc).splitlines()[0]}"
        return ToolchainError(problem("library-not-loadable", what, None, hint, here))

    @property
    def _hint(self) -> str:
        """The hint that says how to install the compiler."""
        if self._wanted is None:
            return f"{self._install}; or write {_NEWEST} into the table, so that builds install the compiler"
        return f"build with isolation, which installs the right version, or {self._install}"

    def _wanted_build(self, name: str, build: str) -> str:
        """Check the exact version *build* of a library, and return it.

        Raise ToolchainError if the project's configuration requires a different version of the library.
        """
        wanted = [] if self._wanted in {None, "system"} else str(self._wanted).split(".")[:2]
        if build.split(".")[: len(wanted)] != wanted:
            what = f"the table has toolkit = {self._wanted!r}, but the installed {name} has version {build}"
            raise ToolchainError(problem("wrong-toolkit-installed", what, hint=self._hint))
        return build

    def _check_release(self) -> str | None:
        """Return a warning if the toolkit's patch level is unknown.

        Raise ToolchainError if the installed toolkit does not have the patch level that the project requires.
        """
        if self._wanted is None or self._wanted.count(".") < 2:
            return None
        release = version_of("cuda-toolkit")
        if release is None:
            return (
                f"toolkit = {self._wanted!r}: the toolkit's patch level is not checked, "
                "because the wheel cuda-toolkit is not installed"
            )
        if same_release(release, self._wanted):
            return None
        what = (
            f"the table has toolkit = {self._wanted!r}, but the installed cuda-toolkit has version {release}"
        )
        raise ToolchainError(problem("wrong-toolkit-installed", what, hint=self._hint))


def _overwritten_bindings() -> tuple[tuple[str, ...], str] | None:
    """Return details and a hint for a message, if an old cuda-python overwrote files of cuda-bindings."""
    python, bindings = map(version_of, ("cuda-python", "cuda-bindings"))
    if python is None or bindings is None or python.split(".")[0] == bindings.split(".")[0]:
        return None
    right = f"cuda-python=={bindings.split('.')[0]}.*"
    said = f"cuda-python {python} is installed, and has overwritten files of cuda-bindings {bindings}"
    hint = (
        f'pip install --force-reinstall "{right}"; '
        f'for builds with isolation, add "{right}" to the requires of [build-system]'
    )
    return (said,), hint


def _exact_build(name: str, path: str, kind: str, arch: str) -> str:
    """Compile an empty source, and return the compiler's exact version, which is in the compiled result."""
    from . import worker

    task = {"id": 0, "kind": kind, "code": b"", "name": b"probe", "instantiate": [], "ptx": kind == "c++"}
    inputs = [("ptx", b"probe", _PROBE_PTX)]  # the inputs of a link
    result = worker.compile_task({**task, "options": [arch.encode()], "inputs": inputs})
    match = _BUILD.search(result["ptx"] or result["output"])
    # a result of nvJitLink 12 does not contain nvJitLink's version, but the library's file does
    if match is None and result["ok"]:
        match = _BUILD.search(Path(path).read_bytes())
    if match is None:
        what = f"cannot find out the exact version of {name} at {path}"
        details = tuple(result["log"].splitlines())
        raise ToolchainError(problem("unknown-library-build", what, details=details))
    return match[1].decode()


def mode_of(module: Module) -> str | None:
    """Return the link mode ("lto" or "rdc") of an object of a linked module; None for other modules."""
    if not module.part_of:
        return None
    return "lto" if "link_time_optimization" in module.options else "rdc"


def core_key(unit: Unit, extra: str | None = None) -> bytes:
    """Return the cache key that cuda.core makes for a unit (a module for one arch) that NVRTC compiles.

    *extra* is the digest of those inputs that cuda.core does not know, such as headers. With *extra*, the
    result is hatch-cubin's own cache key; without *extra*, the result is the key that `Program.compile` uses.
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
    """Return the flags with which ptxas or tileiras assembles a unit (a module for one arch)."""
    if unit.module.is_tile:
        from . import tile_assembler  # lazy import: needed only for tile kernels

        return tile_assembler.flags(unit.module.options, unit.arch)
    from . import assembler  # lazy import: needed only for PTX sources

    return assembler.flags(unit.module.options, assembled_for(unit, toolkit))


def _program_options(unit: Unit, **names: str) -> Any:
    """Return the options of a unit's compile; cuda.core also makes the cache key from these options."""
    from cuda.core import ProgramOptions

    options = unit.module.plain_options
    if unit.module.macros:
        options["define_macro"] = list(unit.module.macros)
    return ProgramOptions(arch=str(unit.arch), **options, **names)


def implicit(module: Module, toolkit: Toolkit) -> list[str]:
    """Return the compiler options and the code that hatch-cubin itself adds to each compile of a module."""
    return list(filter(None, (*_own_options(module, toolkit), preamble(module, toolkit))))


def _own_options(module: Module, toolkit: Toolkit) -> tuple[str, ...]:
    """Return the compiler options that hatch-cubin itself adds to each compile of a module."""
    tile = ("--enable-tile",) if module.has_tile_code and module.source.is_cpp else ()
    return (*_seed(module, toolkit), *tile)


def _seed(module: Module, toolkit: Toolkit) -> tuple[str, ...]:
    """Return the option that makes names in anonymous namespaces reproducible instead of random."""
    if not module.source.is_cpp or "frandom_seed" in module.options or toolkit.version < _FIRST_WITH_SEED:
        return ()
    # The seed contains the source's path, because anonymous names in objects of one link must be different.
    own = f"/{module.source.path}" if module.part_of else ""
    return (f"--frandom-seed=hatch-cubin{own}",)


def preamble(module: Module, toolkit: Toolkit) -> str:
    """Return code to put before a source to make its anonymous names reproducible; empty if not needed."""
    seeded = not module.source.is_cpp or toolkit.version >= _FIRST_WITH_SEED
    return "" if seeded else _NAMESAKE


def compiler_options(unit: Unit, toolkit: Toolkit, search: tuple[str, ...]) -> tuple[bytes, ...]:
    """Return all compiler options for the compile of a unit, including the search path for headers."""
    if not unit.module.source.is_cpp:
        return tuple(flag.encode() for flag in flags(unit, toolkit))
    toolkit.load()
    options = _program_options(unit._replace(arch=assembled_for(unit, toolkit))).as_bytes("nvrtc", "cubin")
    paths = (f"--include-path={folder}".encode() for folder in search)
    return (*options, *(option.encode() for option in _own_options(unit.module, toolkit)), *paths)


def assembled_for(unit: Unit, toolkit: Toolkit) -> Arch:
    """Return the `sm_` arch for which a unit (a module for one arch) is compiled or assembled.

    A unit of PTX, which the driver will compile, is assembled only to check that the PTX is valid.
    """
    if not unit.module.source.is_ptx or unit.module.link:
        return unit.arch.real
    return unit.arch.real._replace(number=max(unit.arch.number, toolkit.supported[0]))
