"""Reads random mutations of captures in every way, as files and as streams, and compares the rows with the model.

    python -m tests.kwire.capture.mutations [--captures N] [--seconds S] [--seed N] [--only N] [--jobs N]

Each capture must give rows or a CaptureError, within 60 seconds of CPU time and with bounded memory. Prints each
violation with the number that repeats it (`--seed 7 --only 123`).

Exit codes: 0 no violation, 1 a violation, 2 wrong use.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from kwire.capture.index.scan import scanner
from kwire.capture.model import CaptureError
from kwire.capture.options import Options
from kwire.capture.reader import read_batches
from kwire.capture.rows.columns import LEVELS
from kwire.capture.rows.record_batches import make_record_batch, selected_columns
from kwire.cli.main import main as run_command
from tests.support.capture_model import pipeline as model
from tests.support.captures.capture_files import CAPTURES
from tests.support.captures.index_captures import batch_rows
from tests.support.captures.mutated_captures import MutatedCapture, mutate_capture
from tests.support.captures.piece_source import PieceSource

Rows = list[dict[str, object]]

_CPU_SECONDS_MAX = 60
#: How much more memory the readers may need for a capture of some hundred kilobytes than for those before.
_MEMORY_GROWTH_MAX = 256 << 20
_WARM_UP_COUNT = 50
_SHOWN_MAX = 20
_SPAN_SIZES = (4_096, 16_384, 24 << 20)
#: In how many pieces a stream comes; each costs some milliseconds, so it is seldom packet by packet.
_PIECE_COUNTS = (*(1, 2, 3, 5) * 6, 300)
_KEYS = (CAPTURES / "small_tlskey.keys").read_text("latin-1")
_OPTIONS = (
    Options(bodies=False, sessions=False),
    Options(sessions=False),
    Options(),
    Options(sessions=False, tls_keylog=_KEYS),
    Options(bodies=False, sessions=False, ports=frozenset({9092})),
    Options(bodies=False, sessions=False, ports=frozenset({21_092})),
    Options(bodies=False, sessions=False, ports=frozenset(range(1, 65_536, 2))),
    Options(bodies=False, sessions=False, frame_size_max=200),
    Options(sessions=False, edition="4.0-early-access"),
)
_LEVELS = ("messages", "messages", "messages", *LEVELS)
_FORMATS = (("-T", "jsonl"), ("-T", "tree"), ())


class Outcome(NamedTuple):
    """Of some captures: how many were read, the violations, and the longest time of one in seconds of CPU."""

    captures: int
    violations: list[str]
    longest: float


class _TimeIsOver(Exception):
    """A capture takes longer than any may."""


def check_capture(capture: MutatedCapture, chance: random.Random) -> Iterator[str]:
    """Read a capture. Yields: what is wrong."""
    scanner.SPAN_SIZE = chance.choice(_SPAN_SIZES)
    level, options = chance.choice(_LEVELS), chance.choice(_OPTIONS)
    names = selected_columns(level, None)

    def read_columns() -> Rows:
        return batch_rows(read_batches(capture.data, level, options))

    def read_stream() -> Rows:
        largest = 2 * len(capture.data) // chance.choice(_PIECE_COUNTS)
        source = PieceSource(capture.data, chance, max(largest, 100))
        return batch_rows(read_batches(source, level, options))

    def read_model() -> Rows:
        return batch_rows([make_record_batch(list(model.read_rows(capture.data, level, options)), level, names)])

    of_file, of_stream, expected = map(_rows_or_error, (read_columns, read_stream, read_model))
    for way, found in (("file", of_file), ("stream", of_stream)):
        if capture.is_comparable and found != expected and sorted(map(repr, found)) != sorted(map(repr, expected)):
            only = {repr(row) for row in found} ^ {repr(row) for row in expected}
            yield f"{level}: the {way} has {len(found)} rows, the model {len(expected)}; {len(only)} differ"
    if chance.random() < 0.1:
        yield from _check_command(capture.data, chance)


def _rows_or_error(read: Callable[[], Rows]) -> Rows:
    """The rows, or one with the message of the error."""
    try:
        return read()
    except CaptureError as error:
        return [{"error": str(error)}]


def _check_command(data: bytes, chance: random.Random) -> Iterator[str]:
    """Run `kwire decode`, whose exit code says whether something was wrong with the capture."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "capture"
        path.write_bytes(data)
        words = ["decode", str(path), *chance.choice(_FORMATS)]
        errors = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
            code = run_command(words)
    if code not in (0, 1, 2) or "Traceback" in errors.getvalue():
        yield f"{' '.join(words[2:])}: exit code {code}, stderr {errors.getvalue()[-500:]!r}"


def _on_time(*_: object) -> None:
    raise _TimeIsOver


def check_numbers(seed: int, numbers: range, until: float) -> Outcome:
    """Check the captures of these numbers, until a time of the monotonic clock."""
    violations: list[str] = []
    longest, count, memory = 0.0, 0, 0
    signal.signal(signal.SIGVTALRM, _on_time)
    for number in numbers:
        if time.monotonic() > until or len(violations) >= _SHOWN_MAX:
            break
        chance = random.Random(f"{seed}/{number}")
        capture = mutate_capture(chance)
        begin = time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, _CPU_SECONDS_MAX)
        try:
            found = list(check_capture(capture, chance))
        except _TimeIsOver:
            found = [f"not read after {_CPU_SECONDS_MAX} s of CPU time"]
        except Exception as error:
            found = [f"{type(error).__name__}: {error}"]
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        count += 1
        longest = max(longest, time.process_time() - begin)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if count > _WARM_UP_COUNT and peak > memory + _MEMORY_GROWTH_MAX:
            found.append(f"memory grew from {memory >> 20} to {peak >> 20} MiB")
        memory = max(memory, peak)
        violations += [f"--seed {seed} --only {number} ({capture.label}): {each}" for each in found]
    return Outcome(count, violations, longest)


def _check_part(part: tuple[int, range, float]) -> Outcome:
    return check_numbers(*part)


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.kwire.capture.mutations", description="Read random mutations of captures in every way."
    )
    parser.add_argument("--captures", type=int, default=1_000, help="how many (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop earlier after this time")
    parser.add_argument("--seed", type=int, help="repeats a run; default: a random one, which is printed")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="read only the capture of this number")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: %(default)s)")
    options = parser.parse_args(arguments)
    if options.captures < 1 or options.jobs < 1:
        parser.error("--captures and --jobs are at least 1")
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    until = time.monotonic() + options.seconds
    if options.only is not None:
        outcomes = [check_numbers(seed, range(options.only, options.only + 1), until)]
    else:
        parts = [(seed, range(job, options.captures, options.jobs), until) for job in range(options.jobs)]
        with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
            outcomes = pool.map(_check_part, parts, chunksize=1)
    violations = [each for outcome in outcomes for each in outcome.violations]
    print(*violations, sep="\n", end="\n" if violations else "")
    count, longest = sum(outcome.captures for outcome in outcomes), max(outcome.longest for outcome in outcomes)
    print(f"{count:,} captures, seed {seed}: {len(violations)} violations; the longest took {longest:.1f} s")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
