"""Compile every source of this folder with cuda.core's `Program` and its own cache.

    python core_loop.py CACHE 2

In the folder of the sources, where NVRTC finds the header: with an include path cuda.core takes no cache. Its
key does not know the header then, so an edit of that would go unseen.
"""

from __future__ import annotations

import concurrent.futures
import itertools
import sys
from pathlib import Path

from cuda.core import Program, ProgramOptions
from cuda.core.utils import FileStreamProgramCache
from projects import ARCHS


def main() -> None:
    """Compile them all, or take them from the cache."""
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    units = list(itertools.product(sorted(Path().glob("*.cu")), ARCHS))
    with FileStreamProgramCache(folder) as cache, concurrent.futures.ThreadPoolExecutor(count) as pool:

        def compile_one(unit: tuple[Path, str]) -> int:
            path, arch = unit
            program = Program(path.read_text(), "c++", ProgramOptions(arch=arch))
            return len(program.compile("cubin", cache=cache).code)

        list(pool.map(compile_one, units))


if __name__ == "__main__":
    main()
