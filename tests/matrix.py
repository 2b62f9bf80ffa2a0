"""Show Hatch every interpreter that pyenv has, and share the long tests among them."""

import os
import shutil
from pathlib import Path
from typing import Any

from hatch.env.collectors.plugin.interface import EnvironmentCollectorInterface

VERSIONS = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
# Builds in environments of their own and faults: minutes each, and what they try lies in other programs.
WITHOUT_LONG_TESTS = "--ignore=tests/build --ignore=tests/faults"


class PyenvCollector(EnvironmentCollectorInterface):
    """Give each environment of the matrix its `python3.x`; the oldest and the newest run every test."""

    def finalize_environments(self, config: dict[str, dict[str, Any]]) -> None:
        matrix = [env for env in config.values() if env.get("python", "").startswith("python3.")]
        matrix.sort(key=lambda env: int(env["python"].removeprefix("python3.")))
        there = [env for env in matrix if _find(env)]
        for env in there[1:-1]:
            env.setdefault("env-vars", {})["PYTEST_ADDOPTS"] = WITHOUT_LONG_TESTS


def _find(env: dict[str, Any]) -> bool:
    command = env["python"]
    # The last digit keeps free-threaded builds out (3.13.0t).
    for path in VERSIONS.glob(f"{command.removeprefix('python')}.*[0-9]/bin/{command}"):
        env["python"] = str(path)
    return env["python"] != command or shutil.which(command) is not None
