# hatch-cubin (Apache-2.0) copies this file into editable installs. It needs only the standard library.
"""Let Python import the folder _cubins of an editable install, if the build backend does not do this."""

import os
import sys


def find(name: str, folder: str) -> None:
    """Make a package importable from a folder. Python runs this function at every start."""
    sys.meta_path.insert(0, _Finder(name, folder))  # type: ignore[arg-type] # importing its types is slow


class _Finder:
    def __init__(self, name: str, folder: str) -> None:
        self.name, self.folder = name, folder

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        file = os.path.join(self.folder, "__init__.py")
        if name != self.name or not os.path.isfile(file):
            return None
        from importlib.util import spec_from_file_location

        return spec_from_file_location(name, file, submodule_search_locations=[self.folder])
