"""Compares mockbroker with a real Apache Kafka: random sequences of requests to both, and their responses compared.

    python -m tools.oracle.fuzz [--pairs N] [--seed N] [--release 4.4|4.3] [--api NAME...] [--subject NAME...]
        [--within SECONDS] [-o OUT]

Differences are played again, shrunk, and written to OUT as conversations, with a page OUT/findings.md; OUT/summary.txt
has the counts. Needs Java and Maven. Exit code 0 when all responses agree, 1 when some differ, 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from kwire.registry import RELEASES
from tools.oracle.fuzz.campaign import Campaign, Options
from tools.oracle.fuzz.summary import format_summary
from tools.oracle.fuzz.themes import THEMES, all_apis


def parse_options(arguments: Sequence[str]) -> Options:
    """The options. Raises: SystemExit with code 2 for wrong ones."""
    form = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m tools.oracle.fuzz", description=__doc__, formatter_class=form)
    parser.add_argument("--pairs", type=int, default=1000, metavar="N", help="request pairs, default: 1000")
    parser.add_argument("--seed", type=int, default=None, metavar="N", help="default: a new one")
    parser.add_argument("--release", choices=RELEASES, default=RELEASES[0], help=f"default: {RELEASES[0]}")
    parser.add_argument(
        "--api", nargs="+", default=[], metavar="NAME", help="requests of these APIs only, and what they need"
    )
    parser.add_argument(
        "--subject", nargs="+", default=[], choices=THEMES, metavar="NAME", help=f"of {', '.join(THEMES)}; default: all"
    )
    parser.add_argument("--within", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("-o", type=Path, default=Path("out/fuzz"), dest="out", metavar="OUT", help="default: out/fuzz")
    parser.add_argument("-j", type=int, default=2, dest="workers", metavar="N", help="processes, default: 2")
    parser.add_argument("--threads", type=int, default=5, metavar="N", help="connections of each process, default: 5")
    given = parser.parse_args(arguments)
    unknown = sorted(set(given.api) - set(all_apis()))
    if unknown:
        parser.error(f"no requests of {', '.join(unknown)}; there are {', '.join(all_apis())}")
    subjects = given.subject or list(THEMES)
    if given.api and not any(THEMES[subject].weights.keys() & set(given.api) for subject in subjects):
        parser.error(f"no requests of {', '.join(given.api)} in {', '.join(subjects)}")
    if min(given.pairs, given.workers, given.threads) < 1:
        parser.error("--pairs, -j and --threads are at least 1")
    seed = random.SystemRandom().randrange(1 << 31) if given.seed is None else given.seed
    return Options(
        pairs=given.pairs,
        seed=seed,
        release=given.release,
        apis=tuple(given.api),
        subjects=tuple(given.subject),
        within_s=given.within,
        out=given.out,
        workers=given.workers,
        threads=given.threads,
    )


def main(arguments: Sequence[str]) -> int:
    """Run the fuzzer and print its summary."""
    options = parse_options(arguments)
    print(f"seed {options.seed}", flush=True)
    campaign = Campaign(options)
    for name in (signal.SIGTERM, signal.SIGINT):  # The broker is stopped, and the summary has what was compared.
        signal.signal(name, lambda *_: campaign.stop())
    campaign.run()
    summary = format_summary(campaign)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "summary.txt").write_text(summary, "utf-8")
    print(summary, end="")
    return 1 if campaign.confirmed or campaign.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
