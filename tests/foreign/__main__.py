"""Runs the tests of other projects against mockbroker, and compares the results with the pinned lists.

    python -m tests.foreign [--suite NAME] [--within SECONDS] [--seed N] [PATTERN...]
    python -m tests.foreign --suite kafka --real [PATTERN...]
    python -m tests.foreign --suite NAME --record TEST...

PATTERN is a part of the name of a test, and may contain *. With a time limit, tests that are to pass run in a random
order, which the seed repeats. A test that fails is run a second time. --real runs Kafka's tests on real brokers, in the
virtual machine of the tests. --record adds tests to the pinned list, Kafka's after a run on real brokers: a class or
CLASS#METHOD(TYPES), or the name of a test of franz-go.

Exit codes: 0 every test that was to pass has passed, 1 one failed, 2 wrong usage, or a suite that could not be run.
Needs Java and Maven for Kafka's tests, Go for those of franz-go.
"""

from __future__ import annotations

import argparse
import logging
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from tests.foreign.clusters import MockCluster
from tests.foreign.kafka_suite import KafkaSuite
from tests.foreign.kgo_suite import KgoSuite
from tests.foreign.results import (
    Expectation,
    PinnedTest,
    Status,
    Summary,
    Verdict,
    read_pinned,
    write_pinned,
)
from tests.foreign.suites import PINNED_FOLDER, Suite

_EXIT_FAILED = 1
_EXIT_USAGE = 2
#: The share of a time limit that each suite may use.
_SHARES = {"kafka": 0.7, "kgo": 0.3}


def main(arguments: list[str]) -> int:
    """Run the suites and print a summary of each."""
    options = _parse(arguments)
    logging.basicConfig(level=logging.ERROR)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # Ends all processes on exit.
    suites: dict[str, Suite] = {
        "kafka": KafkaSuite(None if options.real or options.record else MockCluster),
        "kgo": KgoSuite(),
    }
    chosen = [suites[options.suite]] if options.suite else list(suites.values())
    try:
        if options.record:
            return _record(chosen[0], options.patterns)
        ran = [_run_suite(suite, options) for suite in chosen]
    except (OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
        print(f"tests.foreign: {error}", file=sys.stderr)
        return _EXIT_USAGE
    if all(summary is None for summary in ran):
        print(f"tests.foreign: no test matches {' '.join(options.patterns)}", file=sys.stderr)
        return _EXIT_USAGE
    return _EXIT_FAILED if any(summary.failed() for summary in ran if summary) else 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.foreign", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", choices=sorted(_SHARES), help="only this one")
    parser.add_argument(
        "--within", type=float, default=float("inf"), metavar="SECONDS", help="begin no test after that"
    )
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), metavar="N", help="of the order")
    parser.add_argument("--real", action="store_true", help="run Kafka's tests on real brokers")
    parser.add_argument("--record", action="store_true", help="add tests to the pinned list")
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    options = parser.parse_args(arguments)
    if options.real and options.suite != "kafka":
        parser.error("--real needs --suite kafka")
    if options.record and not (options.suite and options.patterns):
        parser.error("--record needs --suite and the tests")
    return options


def _run_suite(suite: Suite, options: argparse.Namespace) -> Summary | None:
    """Run the tests of a suite that match. Returns: the summary, or None if no test matches."""
    pinned = read_pinned(PINNED_FOLDER / f"{suite.name}.tsv")
    names = [name for name in pinned if _matches(name, options.patterns)]
    if not names:
        return None
    is_limited = options.within < float("inf")
    if is_limited:
        # A test that is to fail takes its time, and shows nothing.
        names = [name for name in names if pinned[name].expectation is Expectation.PASS]
        random.Random(options.seed).shuffle(names)
    summary = Summary(suite.name, pinned, is_real=options.real)
    with suite.prepare() as runner:
        ends_at = time.monotonic() + options.within * (1 if options.suite else _SHARES[suite.name])
        for selector in suite.selectors(names):
            if time.monotonic() > ends_at:
                break
            failed = [result.name for result in runner.run(selector) if summary.add(result) is Verdict.FAILED]
            # On a busy machine a test may be late once; only a second failure counts.
            for again in suite.selectors(failed):
                print(f"again {again}", flush=True)
                for result in runner.run(again):
                    summary.add(result)
    print("\n".join(summary.lines(names, seed=options.seed if is_limited else None)), flush=True)
    return summary


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, f"*{pattern}*") for pattern in patterns)


def _record(suite: Suite, selectors: Iterable[str]) -> int:
    """Run tests and add them to the pinned list; the reason of a failure is its message, to be replaced by hand."""
    path = PINNED_FOLDER / f"{suite.name}.tsv"
    pinned = read_pinned(path) if path.exists() else {}
    with suite.prepare() as runner:
        for selector in selectors:
            for result in runner.run(selector):
                print(f"{result.status.value} {result.name} ({result.duration_s:.1f} s) {result.message}", flush=True)
                if result.status is Status.PASSED:
                    pinned[result.name] = PinnedTest(result.name, Expectation.PASS)
                else:
                    reason = " ".join(result.message.split())[:200] or result.status.value
                    pinned[result.name] = PinnedTest(result.name, Expectation.INTERNAL, reason)
            write_pinned(path, pinned.values())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
