"""The keys and options of pyproject.toml that replace flags of nvcc and of host compilers. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

_TARGETS = "the archs to compile for are set with 'archs', a key of hatch-cubin"
_HOST = "this flag is for the host's compiler or for nvcc itself, and a build runs neither: leave it out"
_USUAL = "code is optimized without this flag: leave it out"
_LINKED = "to link several sources, write a [[…module]] table with mode = {mode!r}"
_UNANNOTATED = (
    "with device-as-default-execution-space = true, functions without an annotation become device code"
)
_LAMBDAS = "NVRTC accepts lambdas in device code without this flag: leave it out"
INSPECT = "after the build, 'hatch-cubin inspect WHEEL' prints the registers of each kernel"
REGISTERS = f"leave the option out: {INSPECT}"
_FLAGS = {
    _TARGETS: "arch code cubin fatbin gencode generate-code gpu gpu-architecture gpu-code ptx sm target",
    _HOST: """
        Wall Wextra Werror Xarchive Xcompiler Xcudafe Xlinker Xnvlink allow-unsupported-compiler ar-bin c
        ccbin compile compiler-bindir compiler-options cudart default-stream dryrun fPIC fopenmp
        forward-unknown-to-host-compiler g host-linker-script keep keep-dir linker-options m64 machine march
        nvlink-options o odir output-directory output-file pthread run save-temps shared static threads t
        time use-local-env v verbose x
    """,
    REGISTERS: "res-usage resource-usage",
    _USUAL: "O O0 O1 O2 O3 Os Ofast opt-level optimization optimize",
    _LINKED.format(mode="rdc"): "dc device-c device-link dlink rdc relocatable-device-code",
    _LINKED.format(mode="lto"): "dlink-time-opt dlto flto gen-opt-lto link-time-optimization lto ltoir",
    "to link a library, list it in 'link', a key of a [[…module]] table": """
        L l cudadevrt libraries library library-path
    """,
    "the search path is set with 'include-dirs', a key of hatch-cubin": """
        I include include-path includes isystem system-include
    """,
    "macros are set with 'define', a key of hatch-cubin": "D define-macro defines definitions macros",
    _UNANNOTATED: "default-device expt-relaxed-constexpr",
    _LAMBDAS: "expt-extended-lambda extended-lambda",
}
# The flags whose value is a flag of another program, as in `-Xptxas -v`.
_PASSED_ON = [
    "Xarchive",
    "Xcompiler",
    "Xcudafe",
    "Xlinker",
    "Xnvlink",
    "Xptxas",
    "compiler-options",
    "linker-options",
    "ptxas-options",
]
_MEANINGS = {flag: meaning for meaning, flags in _FLAGS.items() for flag in flags.split()}
_NAMES = {
    "G": "debug",
    "Ofc": "ofast-compile",
    "Ofast-compile": "ofast-compile",
    "U": "undefine-macro",
    "Xptxas": "ptxas-options",
    "device-debug": "debug",
    "fast-math": "use-fast-math",
    "ffast-math": "use-fast-math",
    "fmad": "fma",
    "generate-line-info": "lineinfo",
    "line-info": "lineinfo",
    "max-registers": "max-register-count",
    "maxrregcount": "max-register-count",
    "ptxas": "ptxas-options",
    "ptxas-flags": "ptxas-options",
    "undefine": "undefine-macro",
    "w": "disable-warnings",
}


def bare(flag: str) -> str:
    """Return the name of a compiler flag without its hyphens and its value."""
    return flag.lstrip("-").partition("=")[0].strip().replace("_", "-")


def with_values(words: Iterable[str], is_option: Callable[[str], bool]) -> list[str]:
    """Join each flag of a command line with its value: `-std` and `c++20` become `-std=c++20`."""
    flags: list[str] = []
    for word in words:
        last = flags[-1] if flags else ""
        is_complete = not last.startswith("-") or "=" in last
        is_value = bare(last) in _PASSED_ON or not (word.startswith("-") or is_option(word))
        if is_value and not is_complete:
            flags[-1] = f"{last}={word}"
        else:
            flags.append(word)
    return flags


def option_meant(flag: str) -> str:
    """Return the option in pyproject.toml that replaces a flag of nvcc.

    If no option replaces the flag, return the flag's own name.
    """
    name = bare(flag)
    return _NAMES.get(name, name)


def has_no_effect(flag: str) -> bool:
    """Return whether a project can leave a flag of nvcc out, because the flag has no effect in a build."""
    return meaning(flag) in {_HOST, _USUAL, _LAMBDAS}


def meaning(flag: str) -> str | None:
    """Return a hint for a flag of nvcc that is not an option of hatch-cubin; None for an unknown flag."""
    name = bare(flag)
    is_joined = flag.startswith(("-D", "-I", "-L", "-l"))  # a flag with its value, such as -DN=4
    return _MEANINGS.get(name) or (_MEANINGS[name[0]] if is_joined else None)
