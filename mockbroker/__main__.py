"""`python -m mockbroker` and the command `mockbroker`."""

from __future__ import annotations

import gc
import sys


def main() -> int:
    """Run the command. Returns: its exit code."""
    # Collections during imports find no garbage, and cost a tenth of the start. What is loaded stays: later collections
    # leave it out.
    gc.disable()
    from mockbroker.cli import main as run

    gc.freeze()
    gc.enable()
    return run()


if __name__ == "__main__":
    sys.exit(main())
