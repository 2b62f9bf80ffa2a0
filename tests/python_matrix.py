"""Show Hatch every interpreter that pyenv has, and share the long tests among them."""

import os
import shutil
from pathlib import Path
from typing import Any

from hatch.env.collectors.plugin.interface import EnvironmentCollectorInterface

VERSIONS = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
# What takes long tells the same on every Python: whole builds run on the oldest; what else compiles, faults,
# laws, all with a stand-in for the driver, and what compares texts on the newest, which alone counts. What is
# short runs on both, and what is of wheels, which any Python imports, on all.
BETWEEN = "ships and not nvrtc"
ON_ONE = "build or faults or nvrtc or property or standin or text"
ON_THE_OLDEST = f"build or {BETWEEN} or not ({ON_ONE})"
ON_THE_NEWEST = "not build or counted"


class PyenvCollector(EnvironmentCollectorInterface):
    """Give each environment its `python3.x`, and those of the test matrix their shares of the tests."""

    def finalize_environments(self, config: dict[str, dict[str, Any]]) -> None:
        named = [(name, env) for name, env in config.items() if env.get("python", "").startswith("python3.")]
        named.sort(key=lambda item: _age(item[1]))
        there = [env for name, env in named if _find(env) and name.startswith("test.")]
        if len(there) > 1:
            shares = [ON_THE_OLDEST, *[BETWEEN] * (len(there) - 2), ON_THE_NEWEST]
            for env, share in zip(there, shares, strict=True):
                env.setdefault("env-vars", {})["PYTEST_ADDOPTS"] = f'-m "{share}"'
            for env in there[:-1]:  # to count takes as long as to run
                uncounted = env["scripts"]["run"].removeprefix("coverage run -m ")
                env["scripts"] = {**env["scripts"], "run": uncounted}


def _age(env: dict[str, Any]) -> tuple[int, bool]:
    """A free-threaded Python is before the Python of its version, so that it is never the newest one."""
    command = env["python"].removeprefix("python3.")
    return int(command.removesuffix("t")), not command.endswith("t")


def _find(env: dict[str, Any]) -> bool:
    command = env["python"]
    version = command.removeprefix("python")
    folder = f"{version[:-1]}.*[0-9]t" if version.endswith("t") else f"{version}.*[0-9]"
    found = [str(path) for path in VERSIONS.glob(f"{folder}/bin/{command}")]
    # pyenv's shim `python3.14` may belong to a 3.14 without a GIL, whose `make install` installs both names.
    others = [path for path in os.get_exec_path() if Path(path) != VERSIONS.with_name("shims")]
    if on_path := shutil.which(command, path=os.pathsep.join(others)):
        found.append(on_path)
    if found:
        env["python"] = found[0]
    return bool(found)
