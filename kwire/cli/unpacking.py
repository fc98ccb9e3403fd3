"""`--unpacked-max`: how much a compressed capture may expand to; and the file of a capture with a progress line."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kwire.capture.files.sizes import parse_size
from kwire.cli.terminal import is_terminal
from kwire.escape import one_line

if TYPE_CHECKING:
    from kwire.capture.files.source import Source

#: Smaller files are read so fast that progress is not shown, unless they are compressed.
LONG_SIZE = 1024 * 1024


def add_unpacked_argument(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Declare the option, which sets `unpacked_max`."""
    size_help = "how much compressed input may expand to, as 4G (default: 32M, or 250 times its size)"
    parser.add_argument("--unpacked-max", type=_parse_size, metavar="SIZE", help=size_help)


def _parse_size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error


def open_with_progress(capture: str, stack: ExitStack) -> Source:
    """The file, with a progress line while it is read if stderr is a terminal; the stack closes it."""
    if not is_terminal(sys.stderr) or not os.path.isfile(capture):
        return capture
    from kwire.cli.inputs import CountedFile
    from kwire.cli.progress import Progress

    progress = Progress(one_line(os.path.basename(capture)), os.stat(capture).st_size, sys.stderr)
    stack.callback(progress.hide)
    counted = CountedFile(capture, progress.update, progress.update_unpacked)
    stack.callback(counted.close)
    return counted
