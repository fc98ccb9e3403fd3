"""The command `python -m mockbroker.sim`: play many seeds, or one with every step."""

from __future__ import annotations

import argparse
import logging
import sys
import traceback

from kwire.registry import DEFAULT_EDITION, EDITIONS
from mockbroker.sim.coverage import Coverage
from mockbroker.sim.violation import SeedFailed
from mockbroker.sim.world import run

#: Where share groups keep their state; one that keeps none would break every promise.
_PERSISTERS = ("default", "control-records")
#: So many seeds are to meet everything.
_ENOUGH = 200


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Exit codes: 0 nothing found, 1 a seed failed, or something was never met."""
    parsed = _parser().parse_args(arguments)
    logging.disable(logging.CRITICAL)  # Nodes that die close connections; the log would say so a million times.
    seeds = [parsed.seed] if parsed.seed is not None else range(parsed.first, parsed.first + parsed.seeds)
    total = Coverage()
    for count, seed in enumerate(seeds, 1):
        try:
            world = run(seed, steps=parsed.steps, edition=parsed.share_edition, persister=parsed.share_persister)
        except SeedFailed as failed:
            return _tell(failed, parsed)
        total.add(world.coverage)
        if parsed.seed is not None:
            print(f"seed {seed}: {world.wire.digest}")
        elif count % 1_000 == 0:
            print(f"{count} seeds", file=sys.stderr, flush=True)
    print(total.line())
    missing = total.missing()
    if missing and parsed.seed is None and parsed.seeds >= _ENOUGH:
        print(f"never met: {', '.join(missing)}")
        return 1
    return 0


def _tell(failed: SeedFailed, parsed: argparse.Namespace) -> int:
    for number, step in enumerate(failed.steps, 1):
        print(f"{number:5} {step}")
    traceback.print_exception(failed.cause)
    print(failed)
    edition = "" if parsed.share_edition == DEFAULT_EDITION else f" --share-edition {parsed.share_edition}"
    persister = "" if parsed.share_persister == _PERSISTERS[0] else f" --share-persister {parsed.share_persister}"
    print(f"again: python -m mockbroker.sim --seed {failed.seed} --steps {parsed.steps}{edition}{persister}")
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m mockbroker.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds to play (200)")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first of them (0)")
    parser.add_argument("--seed", type=int, help="play this one alone, and print the hash of its bytes")
    parser.add_argument("--share-edition", default=DEFAULT_EDITION, choices=EDITIONS, help="of KIP-932 (4.3)")
    parser.add_argument("--share-persister", default=_PERSISTERS[0], choices=_PERSISTERS, help="as of mockbroker")
    parser.add_argument("--steps", type=int, default=200, help="how long each is (200)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
