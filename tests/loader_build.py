"""Mark the loader's files as belonging together: `hatch run loader`, after each change of one of them.

The line `__build__ = …` is the same in all of them. It is a digest of all, without these lines.
`_debugging.py` has the digests of the files that only some bundles have. `bundle/loader_stub.txt` has what
the stubs of all bundles say of them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from hatch_cubin.bundle import loader_files, stub

from . import stub_build

_BUILD = re.compile(rb'^__build__ = "[0-9a-f]*"', re.MULTILINE)
_DIGEST = re.compile(rb'^    "(_\w+)": "[0-9a-f]*",$', re.MULTILINE)


def stamped(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the loader's files with the lines that belong there."""
    bare = {
        name: _DIGEST.sub(rb'    "\1": "",', _BUILD.sub(b'__build__ = ""', files[name])) for name in files
    }
    build = hashlib.sha256(b"".join(bare[name] for name in sorted(bare))).hexdigest()[:16]
    done = {name: _BUILD.sub(b'__build__ = "%b"' % build.encode(), data) for name, data in bare.items()}

    def digest(found: re.Match[bytes]) -> bytes:
        data = done[f"{found[1].decode()}.py"]
        return b'    "%b": "%b",' % (found[1], hashlib.sha256(data).hexdigest().encode())

    return {name: _DIGEST.sub(digest, data) for name, data in done.items()}


def main() -> None:
    """Write the files that differ."""
    files = loader_files.all_files()
    for name, data in stamped(files).items():
        _write_new(loader_files.FOLDER / name, data)
    _write_new(Path(stub.__file__).parent / stub.FILE, stub_build.stub_parts().encode())


def _write_new(path: Path, data: bytes) -> None:
    if not path.is_file() or path.read_bytes() != data:
        path.write_bytes(data)
        print(f"wrote {path.name}")  # noqa: T201


if __name__ == "__main__":
    main()
