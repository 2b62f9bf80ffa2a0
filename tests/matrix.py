"""Show Hatch every interpreter that pyenv has, not only the one of `pyenv global`."""

import os
from pathlib import Path
from typing import Any

from hatch.env.collectors.plugin.interface import EnvironmentCollectorInterface

VERSIONS = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"


class PyenvCollector(EnvironmentCollectorInterface):
    """Give each environment of the matrix the path of its `python3.x`, where pyenv has one."""

    def finalize_environments(self, config: dict[str, dict[str, Any]]) -> None:
        for env in config.values():
            command = env.get("python", "")
            # The last digit keeps free-threaded builds out (3.13.0t).
            for path in VERSIONS.glob(f"{command.removeprefix('python')}.*[0-9]/bin/{command}"):
                env["python"] = str(path)
