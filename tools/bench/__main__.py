"""`python -m tools.bench`: every benchmark, one after another; each writes its section of docs/performance.md."""

from __future__ import annotations

import argparse
import subprocess
import sys

NAMES = (
    "codec",
    "pure",
    "records",
    "window",
    "requests",
    "broker",
    "operations",
    "connections",
    "share",
    "client_tests",
    "storage",
    "capture",
    "report",
    "targets",
)


def main() -> int:
    """Run each in a separate process, so that none affects the next; returns 1 when one has failed."""
    argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__).parse_args()
    failed = []
    for name in NAMES:
        print(f"==> {name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"tools.bench.{name}"], check=False).returncode:
            failed.append(name)
    if failed:
        print(f"failed, or missed a goal: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
