"""`python -m mockbroker` and the command `mockbroker`."""

from __future__ import annotations

import gc
import sys

#: When the collector looks at new objects, and at those that it has seen once or twice. A broker has next to no garbage
#: that needs it, but the journal keeps some ten objects of each request: with Python's own 700 new objects, one request
#: of a hundred waits for the collector.
_GC_THRESHOLDS = 5_000, 2, 10


def main() -> int:
    """Run the command. Returns: its exit code."""
    # Collections during imports find no garbage, and cost a tenth of the start. What is loaded stays: later collections
    # leave it out.
    gc.disable()
    from mockbroker.cli import main as run

    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.enable()
    return run()


if __name__ == "__main__":
    sys.exit(main())
