"""Run the command line: `python -m hatch_cubin` is `hatch-cubin`."""

import sys

from .cli.main import main

sys.exit(main())
