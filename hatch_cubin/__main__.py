"""Run the command line: `python -m hatch_cubin` is the same as `hatch-cubin`."""

import sys

from .cli.main import main

sys.exit(main())
