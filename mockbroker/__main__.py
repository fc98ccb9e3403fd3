"""`python -m mockbroker` and the command `mockbroker`."""

from __future__ import annotations

import gc
import sys

#: How many more objects may be allocated than freed between two collections; Python's default is 700.
_YOUNG_OBJECTS_MAX = 5_000


def main() -> int:
    """Run the command. Returns: its exit code."""
    # Collections during imports find no garbage, and cost a tenth of the start. What is loaded stays: later collections
    # leave it out.
    gc.disable()
    from mockbroker.cli import main as run

    gc.freeze()
    # The journal keeps what most requests allocate: frequent collections of the young would only move it on.
    gc.set_threshold(_YOUNG_OBJECTS_MAX, *gc.get_threshold()[1:])
    gc.enable()
    return run()


if __name__ == "__main__":
    sys.exit(main())
