"""`python -m hatch_cubin` is `hatch-cubin`."""

import sys

from ._cli import main

sys.exit(main())
