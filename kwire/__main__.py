"""`python -m kwire`: the command `kwire`."""

import sys

from kwire.cli.main import main

sys.exit(main())
