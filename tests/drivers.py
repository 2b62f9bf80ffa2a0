"""A driver and an NVML whose answers the environment sets, and what the loader says beside them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.helpers import bundle, made, write_tree

# Answers as the environment says. What STUB_HANGS names waits until somebody opens the pipe to write.
STUB = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int answer(const char *name, int otherwise) {
  const char *text = getenv(name), *log = getenv("STUB_LOG"), *hangs = getenv("STUB_HANGS");
  if (hangs && !strcmp(hangs, name)) close(open("pipe", O_RDONLY));  /* until somebody writes */
  if (log) { FILE *file = fopen(log, "a"); fprintf(file, "%s\n", name); fclose(file); }
  return text ? atoi(text) : otherwise;
}
int cuInit(unsigned flags) { return answer("STUB_INIT", 0); }
int cuDeviceGetCount(int *count) { *count = answer("STUB_COUNT", 1); return 0; }
int cuDriverGetVersion(int *version) {
  *version = answer("STUB_VERSION", 13000);
  return answer("STUB_VERSION_STATUS", 0);
}
int cuGetErrorName(int status, const char **name) {
  *name = status == 100 ? "CUDA_ERROR_NO_DEVICE" : 0; return *name ? 0 : 1;
}
int nvmlInit_v2(void) { return answer("STUB_NVML", 0); }
int nvmlDeviceGetCount_v2(unsigned *count) {
  *count = answer("STUB_COUNT", 1);
  return answer("STUB_NVML_COUNT", 0);
}
int nvmlShutdown(void) { return answer("STUB_NVML_SHUTDOWN", 0); }
"""


def make_driver(folder: Path, code: str = STUB) -> Path:
    """Make a driver and an NVML of that code, in a folder that `ask` takes."""
    folder.mkdir()
    (folder / "stub.c").write_text(code)
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", name, "stub.c"], cwd=folder, check=True)
    return folder


def make_half_a_driver(folder: Path, *calls: str) -> Path:
    """Make a driver and an NVML that have these calls alone."""
    return make_driver(folder, "".join(f"int {call}(void) {{ return 0; }}\n" for call in calls))


def ask(tmp_path: Path, code: str, libraries: Path | None, **environ: str) -> str:
    """Run *code* on a bundle in a process of its own and return what it printed."""
    package = tmp_path / "pkg"
    if not package.exists():
        files = bundle(made("k", "sm_90"), made("k", "compute_80"))
        write_tree(package, {"__init__.py": "", **{f"_cubins/{name}": data for name, data in files.items()}})
    clean = {
        name: text
        for name, text in os.environ.items()
        if name not in ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH")
    }
    searched = {} if libraries is None else {"LD_LIBRARY_PATH": str(libraries)}
    done = subprocess.run(
        [sys.executable, "-c", f"import os\nfrom pkg import _cubins as cubins\n{code}"],
        cwd=tmp_path,
        env={**clean, **searched, "STUB_LOG": str(tmp_path / "calls"), **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    return done.stdout.strip()


def calls(tmp_path: Path) -> list[str]:
    log = tmp_path / "calls"
    return log.read_text().split() if log.exists() else []
