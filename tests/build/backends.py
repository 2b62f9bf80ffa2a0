"""A small project for each build backend: a kernel, and a C extension where it can build one."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tests.helpers import SAXPY, write_tree

NATIVE = """\
#include <Python.h>
static struct PyModuleDef native = {PyModuleDef_HEAD_INIT, "native", 0, 0, 0};
PyMODINIT_FUNC PyInit_native(void) { return PyModule_Create(&native); }
"""
CMAKE = """\
cmake_minimum_required(VERSION 3.20)
project(demo LANGUAGES C)
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
Python_add_library(native MODULE src/native.c WITH_SOABI)
install(TARGETS native DESTINATION demo)
"""
MESON = """\
project('demo', 'c', version: '1.0')
python = import('python').find_installation(pure: false)
python.install_sources('src/demo/__init__.py', 'src/demo/saxpy.cu', subdir: 'demo', pure: false)
python.extension_module('native', 'src/native.c', install: true, subdir: 'demo')
"""
SETUP = """\
from setuptools import Extension, setup

setup(ext_modules=[Extension("demo.native", ["src/native.c"])])
"""


class Backend(NamedTuple):
    """A build backend: what a project requires, its module, and what else its projects need."""

    requires: str
    module: str
    more: str = ""
    files: dict[str, str] = {}  # noqa: RUF012


BACKENDS = {
    "flit": Backend("flit_core", "flit_core.buildapi"),
    "hatchling": Backend(
        "hatchling", "hatchling.build", more='[tool.hatch.build]\ndev-mode-dirs = ["src"]\n'
    ),
    "meson": Backend("meson-python", "mesonpy", files={"meson.build": MESON, "src/native.c": NATIVE}),
    "pdm": Backend("pdm-backend", "pdm.backend"),
    "poetry": Backend("poetry-core", "poetry.core.masonry.api"),
    "scikit-build": Backend(
        "scikit-build-core",
        "scikit_build_core.build",
        files={"CMakeLists.txt": CMAKE, "src/native.c": NATIVE},
    ),
    "setuptools": Backend(
        "setuptools", "setuptools.build_meta", files={"setup.py": SETUP, "src/native.c": NATIVE}
    ),
    "uv": Backend("uv_build", "uv_build"),
}


def project(root: Path, name: str, options: str = 'archs = ["sm_90"]\n') -> Path:
    """Write a project that is built with a backend inside of ours."""
    backend = BACKENDS[name]
    text = f"""\
[build-system]
requires = ["{backend.requires}", "hatch-cubin"]
build-backend = "hatch_cubin.backend"

[project]
name = "demo"
version = "1.0"
description = "A demo"

[tool.hatch-cubin]
backend = "{backend.module}"
{options}
{backend.more}"""
    files = {
        "pyproject.toml": text,
        ".gitignore": "_cubins/\n",
        "include/far.cuh": "#pragma once\n",
        "src/demo/__init__.py": "",
        "src/demo/saxpy.cu": '#include "near.cuh"\n#include <far.cuh>\n' + SAXPY,
        "src/demo/near.cuh": "#pragma once\n",
    }
    return write_tree(root, {**files, **backend.files})
