"""A run of the fuzzer: real brokers one after the other, batches of sequences, classes of differences."""

from __future__ import annotations

import itertools
import logging
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tools.oracle.broker import run_broker
from tools.oracle.conversations.broker_properties import features, real_properties
from tools.oracle.conversations.coordinator_warm_up import warm_up
from tools.oracle.fuzz import findings
from tools.oracle.fuzz.comparison import DifferenceClass
from tools.oracle.fuzz.sequence_pairs import (
    BatchResult,
    DifferingSequence,
    FuzzTarget,
    ShrunkScript,
    play_batch,
    shrink_difference,
)
from tools.oracle.jars import KAFKA_VERSIONS

_BATCH_SEQUENCES = 24
_BROKER_PAIRS = 30_000
_POLL_S = 5
_ATTEMPTS_MAX = 3
_FAILURES_MAX = 200
_LATER_CLASSES_MAX = 1
_SHRINKING_THREADS = 4
#: How long classes are still shrunk after the last batch, in seconds.
_SHRINKING_S = 120


class Options(NamedTuple):
    """The options of the command."""

    pairs: int
    seed: int
    release: str
    apis: tuple[str, ...]
    subjects: tuple[str, ...]
    within_s: float
    out: Path
    workers: int
    threads: int


@dataclass
class ClassRecord:
    """A class of differences: how often it appeared, in which versions, and its smallest script."""

    count: int = 0
    versions: set[int] = field(default_factory=set)
    attempts: int = 0
    is_running: bool = False
    shrunk: ShrunkScript | None = None
    file: str = ""


@dataclass
class Campaign:
    """The results so far."""

    options: Options
    pairs: Counter[tuple[str, int]] = field(default_factory=Counter)
    classes: dict[DifferenceClass, ClassRecord] = field(default_factory=dict)
    invalid: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    accepted: int = 0
    differing_steps: int = 0
    took_s: float = 0.0
    is_stopped: bool = False

    @property
    def confirmed(self) -> dict[DifferenceClass, ClassRecord]:
        """The classes that appeared again when they were played again, the most frequent first."""
        rows = [(name, record) for name, record in self.classes.items() if record.shrunk and record.shrunk.script]
        return dict(sorted(rows, key=lambda row: -row[1].count))

    def run(self) -> None:
        """Play until enough pairs are compared, or the time is over."""
        started = time.monotonic()
        numbers = itertools.count()
        context = multiprocessing.get_context("spawn")
        workers = ProcessPoolExecutor(self.options.workers, context, initializer=_hide_warnings)
        with workers, ThreadPoolExecutor(_SHRINKING_THREADS) as shrinkers:
            while not self._is_over(started):
                self._run_with_broker(workers, shrinkers, numbers, started)
        self.took_s = time.monotonic() - started

    def stop(self) -> None:
        """Begin no further batch, and shrink no further class."""
        self.is_stopped = True

    def _is_over(self, started: float) -> bool:
        is_enough = self.is_stopped or self.pairs.total() >= self.options.pairs
        return is_enough or time.monotonic() - started > self.options.within_s or len(self.failures) > _FAILURES_MAX

    def _run_with_broker(
        self, workers: ProcessPoolExecutor, shrinkers: ThreadPoolExecutor, numbers: Iterator[int], started: float
    ) -> None:
        options = self.options
        version = KAFKA_VERSIONS[options.release]
        with run_broker(real_properties("fuzz"), features("fuzz"), version=version) as addresses:
            warm_up(addresses["PLAINTEXT"])
            target = FuzzTarget(addresses["PLAINTEXT"], options.release, options.seed, options.apis, options.subjects)
            end, failures = self.pairs.total() + _BROKER_PAIRS, len(self.failures)
            batches: set[Future[Any]] = set()
            shrinking: set[Future[Any]] = set()
            shrinking_end = time.monotonic() + _SHRINKING_S
            while True:
                if batches:
                    shrinking_end = time.monotonic() + _SHRINKING_S
                is_over = self._is_over(started) or self.pairs.total() >= end or len(self.failures) > failures
                while len(batches) < options.workers + 1 and not is_over:
                    numbers_of_batch = list(itertools.islice(numbers, _BATCH_SEQUENCES))
                    batches.add(workers.submit(play_batch, target, numbers_of_batch, options.threads))
                if not batches and (not shrinking or self.is_stopped or time.monotonic() > shrinking_end):
                    break
                done, _ = wait(batches | shrinking, _POLL_S, return_when=FIRST_COMPLETED)
                for future in done & shrinking:
                    self._add_shrunk(future.result())
                shrinking -= done
                for future in done & batches:
                    for number, difference in self._add_batch(future.result(), started):
                        shrinking.add(shrinkers.submit(shrink_difference, target, number, difference))
                batches -= done
            for future in shrinking:
                future.cancel()
        for record in self.classes.values():
            record.is_running = False

    def _add_batch(self, result: BatchResult, started: float) -> list[tuple[int, DifferenceClass]]:
        """Count the pairs; returns the classes to shrink, each with the number of a sequence that shows it."""
        self.pairs += result.pairs
        self.invalid += result.invalid
        self.failures += result.failures
        self.accepted += result.accepted
        took_s = time.monotonic() - started
        line = f"{self.pairs.total()} pairs, {len(self.confirmed)} classes, {took_s:.0f} s"
        print(line, *(f"failed: {failure}" for failure in result.failures[:1]), flush=True)
        return [(sequence.number, row) for sequence in result.differing for row in self._add_sequence(sequence)]

    def _add_sequence(self, sequence: DifferingSequence) -> list[DifferenceClass]:
        """Count its differences; returns the classes to shrink."""
        to_shrink = []
        self.differing_steps += len(sequence.differences)
        for position, step in enumerate(sequence.differences):
            difference = step.classes[0]
            record = self.classes.setdefault(difference, ClassRecord())
            record.count += 1
            record.versions.add(step.version)
            is_known = record.shrunk is not None and record.shrunk.script is not None
            if is_known or record.is_running or record.attempts >= _ATTEMPTS_MAX or position > _LATER_CLASSES_MAX:
                continue
            record.attempts += 1
            record.is_running = True
            to_shrink.append(difference)
        return to_shrink

    def _add_shrunk(self, result: ShrunkScript) -> None:
        record = self.classes[result.difference]
        record.is_running = False
        record.shrunk = result
        if result.script is not None:
            record.file = findings.write_finding(self.options.out, len(self.confirmed), result)
            print(f"differs: {result.difference} (v{result.version}, {record.file})", flush=True)


def _hide_warnings() -> None:
    """Keep the mockbroker of a worker from logging why it closes each connection."""
    logging.getLogger("mockbroker").setLevel(logging.ERROR)
