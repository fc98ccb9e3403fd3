"""`python -m tests.attack [NAME ...]`: run these attacks on clusters of their own, or all of them.

Each prints its seed, so that it can be repeated. Exit codes: 0 nothing found, 1 a violation, 2 wrong use.
"""

from __future__ import annotations

import argparse
import random
import sys

from tests.attack.attacks import ATTACKS, run_attack


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description="Attack clusters of this project.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: all of {', '.join(ATTACKS)}")
    parser.add_argument("--seed", type=int, help="of all random choices; default: a random one, which is printed")
    parser.add_argument("--seconds", type=float, default=30.0, help="for each attack (default: %(default)s)")
    parsed = parser.parse_args(arguments)
    unknown = [name for name in parsed.names if name not in ATTACKS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(ATTACKS)}")
    seed = parsed.seed if parsed.seed is not None else random.SystemRandom().randrange(1 << 32)
    found = 0
    for name in parsed.names or ATTACKS:
        print(f"{name}: seed {seed}", flush=True)
        for violation in run_attack(name, seed, seconds=parsed.seconds):
            found += 1
            print(f"{name}: {violation}", flush=True)
    print(f"{found} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
