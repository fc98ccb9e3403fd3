"""`python -m mockbroker`: the command `mockbroker`."""

import sys

from mockbroker.cli import main

sys.exit(main())
