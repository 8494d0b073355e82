"""`python -m thunder_fuser`."""

import sys

from thunder_fuser.cli.main import main

sys.exit(main())
