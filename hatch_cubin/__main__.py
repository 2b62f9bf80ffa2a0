"""`python -m hatch_cubin` is `hatch-cubin`."""

import sys

from ._cli import main

if __name__ == "__main__":
    sys.exit(main())
