"""The command `python -m mockbroker.sim`: run many seeds, or one seed with all its steps."""

from __future__ import annotations

import argparse
import gc
import logging
import multiprocessing
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from mockbroker.config.keys import ConfigError
from mockbroker.config.releases import DEFAULT_RELEASE, RELEASES, choose_release
from mockbroker.sim.coverage import Coverage
from mockbroker.sim.simulation import run
from mockbroker.sim.violation import SeedFailed
from mockbroker.state.share.share_rules import SHARE_EDITIONS

#: Where share groups store their state; "no-op" stores none and would violate every invariant.
_PERSISTERS = ("default", "control-records")
_REPLICATION = ("immediate", "real")
#: The number of seeds that must reach every transition and fault.
_COMPLETE_RUN_SEEDS = 200
#: New objects between two collections of garbage: a seed has few cycles, and ends soon.
_GARBAGE_THRESHOLD = 50_000


class _Played(NamedTuple):
    """A seed: the hash of its bytes, and its counts; or its steps, traceback and message if it has failed."""

    seed: int
    digest: str
    coverage: Coverage | None
    steps: tuple[str, ...] = ()
    traceback: str = ""
    failure: str = ""


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Exit codes: 0 nothing found, 1 a seed failed, or something was never reached, 2 wrong use."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    try:
        release = choose_release(parsed.release, parsed.share_edition)
    except ConfigError as error:
        parser.error(str(error))
    if parsed.disk and (parsed.share_edition is not None or parsed.share_persister != _PERSISTERS[0]):
        parser.error("--disk: neither share editions nor another persister are stored in a data directory")
    if parsed.disk and parsed.replication != _REPLICATION[0]:
        parser.error("--disk: the simulator has a data directory only where replicas share a log")
    with _quick_process():
        return _run_seeds(parsed, release)


@contextmanager
def _quick_process() -> Iterator[None]:
    """No logging and little collection of garbage."""
    disabled, threshold = logging.root.manager.disable, gc.get_threshold()
    logging.disable(logging.CRITICAL)  # Killed nodes close connections, and each would be logged.
    gc.set_threshold(_GARBAGE_THRESHOLD)
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
        logging.disable(disabled)


def _run_seeds(parsed: argparse.Namespace, release: str) -> int:
    seeds = [parsed.seed] if parsed.seed is not None else range(parsed.first, parsed.first + parsed.seeds)
    total = Coverage()
    for count, played in enumerate(_play_seeds(parsed, release, seeds), 1):
        if played.coverage is None:
            return _print_failure(played, parsed)
        total.add(played.coverage)
        if parsed.seed is not None:
            print(f"seed {played.seed}: {played.digest}")
        elif count % 1_000 == 0:
            print(f"{count} seeds", file=sys.stderr, flush=True)
    print(total.line())
    missing = total.missing()
    if missing and parsed.seed is None and parsed.seeds >= _COMPLETE_RUN_SEEDS:
        print(f"never reached: {', '.join(missing)}")
        return 1
    return 0


def _play_seeds(parsed: argparse.Namespace, release: str, seeds: Iterable[int]) -> Iterator[_Played]:
    """Play seeds, in processes of their own with several jobs. Yields: what came of them, in their order."""
    play = partial(_play_seed, parsed, release)
    if parsed.jobs == 1:
        yield from map(play, seeds)
        return
    with multiprocessing.get_context("fork").Pool(parsed.jobs) as pool:
        yield from pool.imap(play, seeds)


def _play_seed(parsed: argparse.Namespace, release: str, seed: int) -> _Played:
    try:
        cluster = run(
            seed,
            steps=parsed.steps,
            release=release,
            edition=parsed.share_edition,
            persister=parsed.share_persister,
            on_disk=parsed.disk,
            replicates=parsed.replication == "real",
        )
    except SeedFailed as failed:
        lines = traceback.format_exception(failed.cause)
        return _Played(seed, "", None, tuple(failed.steps), "".join(lines), str(failed))
    return _Played(seed, cluster.wire.digest, cluster.coverage)


def _print_failure(played: _Played, parsed: argparse.Namespace) -> int:
    for number, step in enumerate(played.steps, 1):
        print(f"{number:5} {step}")
    print(played.traceback, end="", file=sys.stderr)
    print(played.failure)
    release = "" if parsed.release is None else f" --release {parsed.release}"
    edition = "" if parsed.share_edition is None else f" --share-edition {parsed.share_edition}"
    persister = "" if parsed.share_persister == _PERSISTERS[0] else f" --share-persister {parsed.share_persister}"
    replication = "" if parsed.replication == _REPLICATION[0] else f" --replication {parsed.replication}"
    disk = " --disk" if parsed.disk else ""
    options = f"--steps {parsed.steps}{disk}{release}{edition}{persister}{replication}"
    print(f"again: python -m mockbroker.sim --seed {played.seed} {options}")
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m mockbroker.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="the number of seeds to run (200)")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first of them (0)")
    parser.add_argument("--seed", type=int, help="run only this seed, and print the hash of its bytes")
    parser.add_argument("--release", choices=RELEASES, help=f"release of Kafka ({DEFAULT_RELEASE})")
    parser.add_argument("--share-edition", choices=SHARE_EDITIONS, help="edition of KIP-932 (that of the release)")
    persister_help = "as the option of mockbroker"
    parser.add_argument("--share-persister", default=_PERSISTERS[0], choices=_PERSISTERS, help=persister_help)
    disk_help = "with a data directory on a disk that fails, and a process that ends and starts again"
    parser.add_argument("--disk", action="store_true", help=disk_help)
    replication_help = "whether followers fetch, as mockbroker.replication"
    parser.add_argument("--replication", default=_REPLICATION[0], choices=_REPLICATION, help=replication_help)
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="the number of processes that play seeds (1)")
    parser.add_argument("--steps", type=int, default=200, help="the number of steps of each seed (200)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
