"""One run of ``kwire decode`` over one input after the other."""

from __future__ import annotations

import argparse
import io
import os
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TextIO

from kwire.capture import traffic
from kwire.capture.bodies import every_message
from kwire.capture.options import Options
from kwire.capture.order import Made, Passed
from kwire.capture.pipeline import outcomes
from kwire.capture.plain_file import Again, Event, Pause, Repeated, events, may_be_indexed
from kwire.capture.where.fields import TOPICS
from kwire.cli.decode_filter import Filter, Tally
from kwire.cli.decode_print import Printer
from kwire.cli.exit_codes import FOUND_WRONG, GOOD, INTERRUPTED
from kwire.cli.terminal import Screen, is_terminal, paint, wants_colour, width_for
from kwire.escape import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kwire.capture.source import Source
    from kwire.capture.where.where import Where
    from kwire.cli.decode_packets import PacketPrinter
    from kwire.cli.decode_view import View
    from kwire.cli.progress import Progress
    from kwire.cli.stop import Stop

SESSION_COLUMNS = frozenset({"session_id", "session_epoch", "session_partitions"})
# A file that is read faster than anybody looks needs no progress.
_LONG_SIZE = 1024 * 1024


class Decoding:
    """What holds for all inputs."""

    def __init__(self, args: argparse.Namespace, options: Options, where: Where | None, out: TextIO) -> None:
        """`out` takes the rows."""
        self._args = args
        self._options = options
        self._where = where
        self._out = out
        self._screen = Screen(
            width=width_for(out),
            is_coloured=wants_colour(args.color, out),
            slow_us=int(args.slow // 1000),
        )
        self._view = _view(args, self._screen)
        self._left: int | None = args.limit
        self._packets = _packets(args, out)

    def decode(self, capture: str) -> int:
        """Decode one input; the result is its exit code."""
        if self._left == 0:
            return GOOD
        started = time.monotonic()
        args, tally = self._args, Tally()
        chosen = Filter(
            self._options,
            client_ids=args.client_id,
            only_errors=args.error,
            statuses=args.status,
            where=self._where,
        )
        was_interrupted = False
        with ExitStack() as stack:
            opened = _Input(capture, args, stack)
            printer = self._packets or self._printer(capture, opened)
            # Whatever ends the reading, what was read is shown, and nothing is left of the progress.
            stack.callback(printer.show)
            stack.callback(opened.hide_progress)
            make, of_rows = self._view.maker(capture, self._options, chosen), self._view.of_rows
            try:
                for event in self._events(opened, printer, chosen):
                    if isinstance(event, Passed):
                        tally.count_good(event.number)
                        printer.pass_over(event.number)
                    elif isinstance(event, Made):
                        tally.count_good(1)
                        assert of_rows is not None
                        printer.push(event, of_rows.blocks(event.row, chosen))
                    elif isinstance(event, Repeated):
                        tally.count(event.outcome)
                    elif isinstance(event, Pause):
                        printer.rest()
                    elif isinstance(event, Again):
                        tally = Tally()
                        make = self._view.maker(capture, replace(self._options, topics=event.names), chosen)
                    else:
                        tally.count(event)
                        printer.push(event, make(event))
                    if printer.is_full:
                        break
                printer.show()
            except KeyboardInterrupt:
                was_interrupted = True
        self._left = printer.left
        self._tell(capture, tally, chosen, time.monotonic() - started, was_interrupted=was_interrupted)
        if was_interrupted:
            return INTERRUPTED
        return FOUND_WRONG if tally.found_wrong else GOOD

    def close(self) -> None:
        """All inputs are done."""
        if self._packets is not None:
            self._packets.show()
            for note in self._packets.notes():
                print(f"kwire: {note}", file=sys.stderr)

    def _printer(self, capture: str, opened: _Input) -> Printer:
        several = len(self._args.captures) > 1
        return Printer(
            self._view.layout(self._screen),
            self._out,
            # Several files are told apart by a head line; JSON lines have a column for that.
            head=f"== {one_line(capture)}" if several and self._args.format != "jsonl" else "",
            limit=self._left,
            is_live=opened.is_live,
            is_watched=is_terminal(self._out),
            before_row=opened.hide_progress,
        )

    def _events(self, opened: _Input, printer: Printer | PacketPrinter, chosen: Filter) -> Iterator[Event]:
        level = self._args.level
        if self._packets is not None:
            return self._packets.outcomes(opened.source(printer.idle), self._options)
        # What cannot be decoded is told by the exit code, whatever is shown.
        options, columns = self._options, None
        if level == "messages":
            columns = _columns(self._view, chosen)
            options = replace(options, sessions=columns is None or not SESSION_COLUMNS.isdisjoint(columns))
        else:
            options = replace(options, decoded=every_message(options.edition))
        if opened.is_plain_file and level not in traffic.LEVELS:
            stream = opened.source(printer.idle)
            conditions = partial(chosen.conditions, level)
            return events(opened.path, options, level, conditions, columns=columns, stream=stream, tell=opened.tell)
        return outcomes(opened.source(printer.idle), options, level)

    def _tell(self, capture: str, tally: Tally, chosen: Filter, seconds: float, *, was_interrupted: bool) -> None:
        """What concerns the whole input, and for a person also how much it was."""
        name = one_line(capture)
        for note in tally.notes() if not was_interrupted else ():
            print(f"kwire: {name}: {one_line(note)}", file=sys.stderr)
        if was_interrupted:
            print(f"kwire: {name}: interrupted; what was read until then is shown", file=sys.stderr)
        if is_terminal(sys.stderr):
            text = f"{tally.text()}; {chosen.text()}; {seconds:.1f} s"
            print(paint(text, "dim") if wants_colour(self._args.color, sys.stderr) else text, file=sys.stderr)


class _Input:
    """One input, opened in the way that it needs."""

    def __init__(self, capture: str, args: argparse.Namespace, stack: ExitStack) -> None:
        from kwire.cli.feeds import is_endless

        self.path = capture
        self._args = args
        self._stack = stack
        self.is_live = args.follow or args.interface is not None or is_endless(capture)
        self._progress: Progress | None = None
        self._told = 0
        self._stop: Stop | None = None
        if self.is_live:
            from kwire.cli.stop import Stop

            self._stop = stack.enter_context(Stop(seconds=None if args.duration is None else args.duration / 10**9))

    def source(self, idle: Callable[[], None]) -> Source:
        """What the pipeline reads; `idle` is called before it waits for more."""
        capture, stop = self.path, self._stop
        if stop is None:
            return sys.stdin.buffer if capture == "-" else self._counted()
        if self._args.interface is not None:
            return self._live(stop, idle)
        from kwire.cli.feeds import Following, Pipe, is_endless

        if self._args.follow and capture != "-" and not is_endless(capture):
            return Following(capture, stop, idle)
        path: str | int = sys.stdin.fileno() if capture == "-" else capture
        # A named pipe opens when somebody writes into it.
        file = stop.waiting(lambda: io.FileIO(path, closefd=capture != "-"))
        return Pipe(self._stack.enter_context(file) if file is not None else None, capture, stop, idle)

    def _live(self, stop: Stop, idle: Callable[[], None]) -> Source:
        from kwire.capture.live import Live

        limit = self._args.count
        live = Live(
            self.path,
            should_end=lambda: stop.is_asked or (limit is not None and live.count >= limit),
            idle=idle,
        )
        return self._stack.enter_context(live)

    def hide_progress(self) -> None:
        """Make room for other lines."""
        if self._progress is not None:
            self._progress.hide()

    def _counted(self) -> Source:
        """The file, with its progress shown where somebody may be waiting for it."""
        size = os.stat(self.path).st_size
        if size < _LONG_SIZE or not is_terminal(sys.stderr):
            return self.path
        from kwire.cli.feeds import Counted

        counted = Counted(self.path, self.tell)
        self._stack.callback(counted.close)
        return counted

    @property
    def is_plain_file(self) -> bool:
        """Whether it is a file that can be read as often as one likes."""
        return self._stop is None and self.path != "-" and may_be_indexed(self.path)

    def tell(self, at: int) -> None:
        """Show how far it is read, where somebody may be waiting for it."""
        if at < self._told:
            # It is read once more, for its rows.
            self.hide_progress()
            self._progress = None
        self._told = at
        if self._progress is None:
            if not is_terminal(sys.stderr):
                return
            from kwire.cli.progress import Progress

            name = one_line(os.path.basename(self.path))
            self._progress = Progress(name, os.stat(self.path).st_size, sys.stderr)
        self._progress.at(at)


def _packets(args: argparse.Namespace, out: TextIO) -> PacketPrinter | None:
    """What writes packets, where they are asked for."""
    if args.format != "pcapng":
        return None
    from kwire.cli.decode_packets import PacketPrinter

    sources = ", ".join(args.captures or [args.interface])
    asked = f" that pass the filter {args.filter}" if args.filter else ""
    comment = one_line(f"packets of Kafka exchanges{asked}, taken from {sources}")
    return PacketPrinter(out.buffer, comment=comment, limit=args.limit)


def _columns(view: View, chosen: Filter) -> frozenset[str] | None:
    """The columns of all that is shown and asked for, where rows of them are enough; None where they are not."""
    asked = chosen.where.columns if chosen.where is not None else frozenset[str]()
    # A row without a summary and without names of topics can be made by columns.
    return view.of_rows.columns | asked | {"error_code"} if view.of_rows and TOPICS not in asked else None


def _view(args: argparse.Namespace, screen: Screen) -> View:
    from kwire.cli import decode_view

    if args.format == "jsonl":
        return decode_view.JsonLines(args.level, args.columns)
    if args.format == "pcapng":
        return decode_view.Packets()
    if args.format == "tree":
        return decode_view.Trees(screen)
    if args.level == "messages" and not args.columns:
        return decode_view.Table(screen)
    return decode_view.LevelTable(args.level, args.columns)
