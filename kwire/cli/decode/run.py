"""One run of ``kwire decode``: decodes one input after the other."""

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

from kwire.capture.display_filter.fields import TOPICS
from kwire.capture.kafka.message_decoder import message_names
from kwire.capture.options import Options
from kwire.capture.progressive_reader import Event, IndexingStarted, Replayed, Restarted
from kwire.capture.reader import read_events
from kwire.capture.rows.column import Phase
from kwire.capture.rows.columns import message_columns
from kwire.capture.rows.reorder_buffer import NamesLearned, PartEnded, PrebuiltLines, PrebuiltRow, SkippedCount
from kwire.cli.decode.printer import Printer
from kwire.cli.decode.row_filter import InputCounts, RowFilter
from kwire.cli.exit_codes import INTERRUPTED, PROBLEM_FOUND, SUCCESS
from kwire.cli.terminal import Screen, is_terminal, paint, terminal_width, use_colour
from kwire.cli.unpacking import LONG_SIZE
from kwire.escape import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kwire.capture.display_filter.display_filter import DisplayFilter
    from kwire.capture.files.source import Source
    from kwire.cli.decode.packet_printer import PacketPrinter
    from kwire.cli.decode.views import RowView, View
    from kwire.cli.interrupt import StopSignal
    from kwire.cli.progress import Progress

SESSION_COLUMNS = message_columns(Phase.SESSION)


class DecodeRun:
    """The state of a run over all inputs."""

    def __init__(
        self, args: argparse.Namespace, options: Options, display_filter: DisplayFilter | None, out: TextIO
    ) -> None:
        """`out` receives the rows."""
        self._args = args
        self._options = options
        self._display_filter = display_filter
        self._out = out
        self._screen = Screen(
            width=terminal_width(out), is_coloured=use_colour(args.color, out), slow_us=int(args.slow // 1000)
        )
        self._view = _make_view(args, self._screen)
        self._rows_left: int | None = args.limit
        self._packets = _make_packet_printer(args, out)

    def decode(self, capture: str) -> int:
        """Decode one input; returns its exit code."""
        if self._rows_left == 0:
            return SUCCESS
        started = time.monotonic()
        args, counts = self._args, InputCounts()
        row_filter = RowFilter(
            self._options,
            client_ids=args.client_id,
            only_errors=args.error,
            statuses=args.status,
            display_filter=self._display_filter,
        )
        was_interrupted = False
        with ExitStack() as stack:
            opened = _OpenedInput(capture, args, stack)
            printer = self._packets or self._printer(capture, opened)
            # However reading ends, the rows read so far are printed and the progress line is removed.
            stack.callback(printer.show)
            stack.callback(opened.hide_progress)
            make, row_view = self._view.make_builder(capture, self._options, row_filter), self._view.row_view
            try:
                for event in self._events(opened, printer, row_filter):
                    if isinstance(event, NamesLearned | Restarted):
                        counts = InputCounts() if isinstance(event, Restarted) else counts
                        make = self._view.make_builder(capture, replace(self._options, topics=event.names), row_filter)
                    elif isinstance(event, IndexingStarted):
                        printer.print_due_rows()
                    elif isinstance(event, PartEnded):
                        printer.end_part()
                    elif isinstance(event, Replayed):
                        counts.count(event.outcome)
                    elif isinstance(event, SkippedCount | PrebuiltLines | PrebuiltRow):
                        _take_prebuilt(event, counts, row_filter, printer, row_view)
                    else:
                        counts.count(event)
                        printer.push(event, make(event))
                    if printer.is_full:
                        break
                printer.show()
            except KeyboardInterrupt:
                was_interrupted = True
        self._rows_left = printer.left
        _print_notes(capture, ["interrupted; rows read until then are shown"] if was_interrupted else counts.notes())
        self._print_summary(f"{counts.text()}; {row_filter.text()}; {time.monotonic() - started:.1f} s")
        if was_interrupted:
            return INTERRUPTED
        return PROBLEM_FOUND if counts.has_problems else SUCCESS

    def close(self) -> None:
        """Finish after the last input."""
        if self._packets is not None:
            self._packets.show()
            for note in self._packets.notes():
                print(f"kwire: {one_line(note)}", file=sys.stderr)

    def _printer(self, capture: str, opened: _OpenedInput) -> Printer:
        has_several = len(self._args.captures) > 1
        return Printer(
            self._view.layout(self._screen),
            self._out,
            # Several files are separated by header lines; JSON lines have a column for the file.
            head=f"== {one_line(capture)}" if has_several and self._args.format != "jsonl" else "",
            limit=self._rows_left,
            is_live=opened.is_live,
            is_watched=is_terminal(self._out),
            before_row=opened.hide_progress,
        )

    def _events(self, opened: _OpenedInput, printer: Printer | PacketPrinter, row_filter: RowFilter) -> Iterator[Event]:
        level = self._args.level
        if self._packets is not None:
            return self._packets.outcomes(opened.source(printer.idle), self._options)
        # All messages are decoded, because the exit code depends on all of them, not only on those shown.
        options, columns = self._options, None
        if level == "messages":
            columns = _needed_columns(self._view, row_filter)
            options = replace(options, sessions=columns is None or not SESSION_COLUMNS.isdisjoint(columns))
        else:
            options = replace(options, decoded_messages=message_names(options.edition))
        return read_events(
            opened.source(printer.idle),
            options,
            level,
            path=opened.rereadable_path,
            conditions=partial(row_filter.conditions, level),
            columns=columns,
            line_format=lambda: self._view.line_format if row_filter.is_decided_by_columns else None,
            on_progress=opened.show_progress,
        )

    def _print_summary(self, text: str) -> None:
        """Print the numbers of rows and exchanges, on a terminal only."""
        if is_terminal(sys.stderr):
            print(paint(text, "dim") if use_colour(self._args.color, sys.stderr) else text, file=sys.stderr)


def _take_prebuilt(
    event: SkippedCount | PrebuiltLines | PrebuiltRow,
    counts: InputCounts,
    row_filter: RowFilter,
    printer: Printer | PacketPrinter,
    row_view: RowView | None,
) -> None:
    """Count and print exchanges that were read by columns."""
    if isinstance(event, SkippedCount):
        counts.count_complete(event.number)
        printer.skip_outcomes(event.number)
    elif isinstance(event, PrebuiltLines):
        counts.count_lines(event)
        row_filter.count_lines(event)
        assert isinstance(printer, Printer)
        printer.push_lines(event)
    else:
        counts.count_complete(1)
        assert row_view is not None
        printer.push(event, row_view.blocks(event.row, row_filter))


def _print_notes(capture: str, notes: Iterable[str]) -> None:
    for note in notes:
        print(f"kwire: {one_line(capture)}: {one_line(note)}", file=sys.stderr)


class _OpenedInput:
    """One input, opened according to its kind."""

    def __init__(self, capture: str, args: argparse.Namespace, stack: ExitStack) -> None:
        from kwire.cli.inputs import is_stream

        self.path = capture
        self._args = args
        self._stack = stack
        self.is_live = args.follow or args.interface is not None or is_stream(capture)
        self._progress: Progress | None = None
        self._read_count = 0
        self._stop: StopSignal | None = None
        if self.is_live:
            from kwire.cli.interrupt import StopSignal

            seconds = None if args.duration is None else args.duration / 10**9
            self._stop = stack.enter_context(StopSignal(seconds=seconds))

    def source(self, idle: Callable[[], None]) -> Source:
        """The source of the pipeline; `idle` is called before it waits for more data."""
        capture, stop = self.path, self._stop
        if stop is None:
            return sys.stdin.buffer if capture == "-" else self._counted()
        if self._args.interface is not None:
            return self._live(stop, idle)
        from kwire.cli.inputs import FollowedCapture, PipeInput, is_stream

        if self._args.follow and capture != "-" and not is_stream(capture):
            return FollowedCapture(capture, stop, idle, self._args.unpacked_max)
        path: str | int = sys.stdin.fileno() if capture == "-" else capture
        # Opening a named pipe blocks until a writer opens it.
        file = stop.wait_for(lambda: io.FileIO(path, closefd=capture != "-"))
        return PipeInput(self._stack.enter_context(file) if file is not None else None, capture, stop, idle)

    def _live(self, stop: StopSignal, idle: Callable[[], None]) -> Source:
        from kwire.capture.files.live_capture import LiveCapture

        limit = self._args.count
        live = LiveCapture(
            self.path, should_end=lambda: stop.is_requested or (limit is not None and live.count >= limit), on_idle=idle
        )
        return self._stack.enter_context(live)

    def hide_progress(self) -> None:
        """Remove the progress line before other output."""
        if self._progress is not None:
            self._progress.hide()

    def _counted(self) -> Source:
        """The file, with a progress line if stderr is a terminal and it is large, or expands to much."""
        if not is_terminal(sys.stderr):
            return self.path
        from kwire.cli.inputs import CountedFile

        is_long = os.stat(self.path).st_size >= LONG_SIZE
        counted = CountedFile(self.path, self.show_progress if is_long else self._note_position, self._show_unpacked)
        self._stack.callback(counted.close)
        return counted

    @property
    def rereadable_path(self) -> str | None:
        """The path of an input that can be read more than once; None for live captures and standard input."""
        return self.path if self._stop is None and self.path != "-" else None

    def _note_position(self, at: int) -> None:
        self._read_count = at

    def _show_unpacked(self, count: int) -> None:
        progress = self._open_progress()
        if progress is not None:
            progress.update_unpacked(count, self._read_count)

    def show_progress(self, at: int) -> None:
        """Update the progress line, if stderr is a terminal."""
        if at < self._read_count:
            # A second pass over the file begins.
            self.hide_progress()
            self._progress = None
        self._read_count = at
        progress = self._open_progress()
        if progress is not None:
            progress.update(at)

    def _open_progress(self) -> Progress | None:
        if self._progress is None and is_terminal(sys.stderr):
            from kwire.cli.progress import Progress

            name = one_line(os.path.basename(self.path))
            self._progress = Progress(name, os.stat(self.path).st_size, sys.stderr)
        return self._progress


def _make_packet_printer(args: argparse.Namespace, out: TextIO) -> PacketPrinter | None:
    """The packet printer for format pcapng; None for other formats."""
    if args.format != "pcapng":
        return None
    from kwire.cli.decode.packet_printer import PacketPrinter

    sources = ", ".join(args.captures or [args.interface])
    condition = f" that pass the filter {args.filter}" if args.filter else ""
    comment = one_line(f"packets of Kafka exchanges{condition}, taken from {sources}")
    return PacketPrinter(out.buffer, comment=comment, limit=args.limit)


def _needed_columns(view: View, row_filter: RowFilter) -> frozenset[str] | None:
    """The columns that are shown or filtered, if rows of them are sufficient; None if whole exchanges are needed."""
    # Rows without a summary and without topic names can be read by the columnar reader.
    if view.row_view is None or TOPICS in row_filter.columns:
        return None
    return view.row_view.columns | row_filter.columns | {"error_code"}


def _make_view(args: argparse.Namespace, screen: Screen) -> View:
    from kwire.cli.decode import views

    if args.format == "jsonl":
        return views.JsonLinesView(args.level, args.columns)
    if args.format == "pcapng":
        return views.PacketComments()
    if args.format == "tree":
        return views.TreeView(screen)
    if args.level == "messages" and not args.columns:
        return views.MessageTable(screen)
    return views.LevelTable(args.level, args.columns)
