"""The command ``kwire``: finds the sub-command, loads only its module, and turns every known failure into one line.

Exit codes: 0 good, 1 found something wrong, 2 wrong use (as for every command of the project).
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, cast

from kwire.cli.exit_codes import FOUND_WRONG, GOOD, INTERRUPTED, READER_GONE, WRONG_USE
from kwire.cli.wrong_use import WrongUseError
from kwire.errors import MissingExtra, SchemaError, UnsupportedVersion, WireError
from kwire.escape import one_line


class Command(NamedTuple):
    """One sub-command: where it lives and what the overview says of it."""

    module: str
    help: str


class CommandModule(Protocol):
    """What the module of a sub-command offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the sub-command's own arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Do the work; the result is the exit code."""


COMMANDS = {
    "decode": Command("kwire.cli.decode", "read captures (pcap, pcapng) and show every request with its response"),
    "about": Command("kwire.cli.about", "say in a few lines what captures hold, and what they say of themselves"),
    "message": Command(
        "kwire.cli.message", "decode or encode one message: hex to JSON, tree or annotated hex, and back"
    ),
    "describe": Command("kwire.cli.describe", "show the fields of a message, or list all messages"),
    "check": Command("kwire.cli.check", "compare the codec with golden vectors and golden record batches"),
    "request": Command("kwire.cli.request", "send one request to a broker and print its response"),
    "report": Command("kwire.cli.report", "write a report page about captures, by Spark"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; without arguments it takes the program's own. The result is the exit code."""
    # A terminal or pipe that is not UTF-8 must not turn a topic name into a traceback.
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    return guarded(lambda: _run(list(sys.argv[1:] if argv is None else argv)))


def guarded(work: Callable[[], int]) -> int:
    """Run the work; a failure that has a name becomes one line on stderr. Bugs keep their traceback."""
    try:
        code = work()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (head, less) has gone. At its exit the interpreter flushes stdout once more: into nothing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except (UnsupportedVersion, MissingExtra, WrongUseError) as error:
        return _fail(str(error), WRONG_USE)
    except (WireError, SchemaError) as error:
        return _fail(str(error), FOUND_WRONG)
    except (ConnectionError, TimeoutError) as error:
        # The command was right; the other end was not there.
        return _fail(_describe(error), FOUND_WRONG)
    except OSError as error:
        return _fail(_describe(error), WRONG_USE)
    return code


def _run(argv: list[str]) -> int:
    chosen = argv[0] if argv else None
    command = COMMANDS.get(chosen) if chosen is not None else None
    if command is None:
        return _parse_only(_overview(), argv)
    module = cast(CommandModule, importlib.import_module(command.module))
    parser = argparse.ArgumentParser(prog=f"kwire {chosen}", description=_sentence(command.help))
    module.add_arguments(parser)
    try:
        args = _parse(parser, argv[1:])
    except SystemExit as stop:
        return _exit_code(stop)
    return module.run(args)


def _parse(parser: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    """Options may stand before, between and behind the names of files, as people write them.

    argparse does that only where it is asked to, not where a command has commands of its own, and it loses what ``--``
    has to say; these need it less.
    """
    has_commands = any(isinstance(action, argparse._SubParsersAction) for action in parser._actions)
    return parser.parse_args(words) if has_commands or "--" in words else parser.parse_intermixed_args(words)


def _overview() -> argparse.ArgumentParser:
    """What answers ``kwire --help``; it knows the commands by name only."""
    parser = argparse.ArgumentParser(
        prog="kwire",
        description="The Kafka wire protocol: messages, record batches, captures.",
        epilog="Exit codes: 0 good, 1 found something wrong, 2 wrong use. 'kwire COMMAND --help' tells more.",
    )
    parser.add_argument("--version", action=_Version)
    actions = parser.add_subparsers(metavar="COMMAND", dest="command")
    for name, command in COMMANDS.items():
        actions.add_parser(name, help=command.help)
    return parser


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _parse_only(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """No sub-command, or an unknown one: the parser answers --help and --version, and explains the rest."""
    try:
        parser.parse_args(argv)
    except SystemExit as stop:
        return _exit_code(stop)
    parser.print_help(sys.stderr)
    return WRONG_USE


def _exit_code(stop: SystemExit) -> int:
    sys.stdout.flush()
    return stop.code if isinstance(stop.code, int) else GOOD


class _Version(argparse.Action):
    """``--version``: looks the number up only when it is asked for."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="show the version and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"kwire {version('kwire')}")
        except PackageNotFoundError:
            print("kwire (from a checkout that is not installed)")
        parser.exit()


def _fail(message: str, code: int) -> int:
    print(f"kwire: {one_line(message)}", file=sys.stderr)
    return code


def _describe(error: OSError) -> str:
    """``FileNotFoundError(2, ..., "x")`` as ``x: No such file or directory``."""
    reason = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {reason}" if error.filename is not None else reason


if __name__ == "__main__":
    sys.exit(main())
