"""The command ``kwire``: imports only the module of the sub-command, and prints every known error as one line.

Exit codes: 0 success, 1 problem found, 2 usage error (as for every command of the project).
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, cast

from kwire.cli.exit_codes import BROKEN_PIPE, INTERRUPTED, PROBLEM_FOUND, SUCCESS, USAGE_ERROR
from kwire.cli.usage_error import UsageError
from kwire.errors import MissingExtra, SchemaError, UnsupportedVersion, WireError
from kwire.escape import one_line
from kwire.shell_completion import complete


class Command(NamedTuple):
    """One sub-command: its module, and its line in the overview."""

    module: str
    help: str


class CommandModule(Protocol):
    """The interface of a sub-command's module."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments of the sub-command."""

    def run(self, args: argparse.Namespace) -> int:
        """Run the sub-command; returns the exit code."""


class _WithoutPandas:
    """Finds no pandas, which Arrow imports, where it is installed, when it makes its first array: 0.3 s.

    No command but `report`, by Spark, has values of pandas. For the process of a command only, since Arrow tries once.
    """

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        """Nothing. Raises: ModuleNotFoundError for pandas."""
        if fullname == "pandas":
            raise ModuleNotFoundError("kwire commands work without pandas", name=fullname)


COMMANDS = {
    "decode": Command(
        "kwire.cli.decode.command", "read captures (pcap, pcapng) and show every request with its response"
    ),
    "info": Command("kwire.cli.info", "summarize captures in a few lines: metadata, connections, brokers"),
    "message": Command(
        "kwire.cli.message", "decode or encode one message: hex to JSON, tree or annotated hex, and back"
    ),
    "describe": Command("kwire.cli.describe", "show the fields of a message, or list all messages"),
    "check": Command("kwire.cli.check.command", "compare the codec with golden vectors and golden record batches"),
    "request": Command("kwire.cli.request", "send one request to a broker and print its response"),
    "conformance": Command(
        "kwire.cli.conformance", "list what clients did wrong in captures, each with its rule and source"
    ),
    "report": Command("kwire.cli.report", "write a report page about captures, using Spark"),
    "cache": Command("kwire.cli.cache", "show what kwire keeps in the user's cache directory, or remove it"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, by default that of the process; returns the exit code."""
    complete(_completed_parser)
    # A terminal or pipe that is not UTF-8 must not turn a topic name into a traceback.
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    return run_guarded(lambda: _run(list(sys.argv[1:] if argv is None else argv), is_process=argv is None))


def run_guarded(work: Callable[[], int]) -> int:
    """Run `work`; known errors are printed as one line on stderr. Bugs keep their traceback."""
    try:
        code = work()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (head, less) has exited. The interpreter flushes stdout once more at exit: redirect that to null.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return _fail("interrupted", INTERRUPTED)
    except (UnsupportedVersion, MissingExtra, UsageError) as error:
        return _fail(str(error), USAGE_ERROR)
    except (WireError, SchemaError) as error:
        return _fail(str(error), PROBLEM_FOUND)
    except (ConnectionError, TimeoutError) as error:
        # The command line was valid, but the peer is not reachable.
        return _fail(_describe_error(error), PROBLEM_FOUND)
    except OSError as error:
        return _fail(_describe_error(error), USAGE_ERROR)
    return code


def _run(argv: list[str], *, is_process: bool) -> int:
    name = argv[0] if argv else ""
    command = COMMANDS.get(name)
    if command is None:
        return _parse_overview(_overview(), argv)
    if is_process and name != "report":
        sys.meta_path.insert(0, _WithoutPandas())
    module = cast(CommandModule, importlib.import_module(command.module))
    description = f"{command.help[0].upper()}{command.help[1:]}."
    parser = argparse.ArgumentParser(prog=f"kwire {name}", description=description)
    module.add_arguments(parser)
    try:
        args = _parse(parser, argv[1:])
    except SystemExit as stop:
        return _exit_code(stop)
    return module.run(args)


def _completed_parser(name: str) -> argparse.ArgumentParser:
    """The parser for completion: all names of commands, and the arguments of the one that is completed."""
    parser = argparse.ArgumentParser(prog="kwire")
    parser.add_argument("--version", action=_Version)
    actions = parser.add_subparsers()
    for each in COMMANDS:
        command = actions.add_parser(each)
        if each == name:
            cast(CommandModule, importlib.import_module(COMMANDS[name].module)).add_arguments(command)
    return parser


def _parse(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """Parse arguments with options before, between and after the names of files.

    argparse's `parse_intermixed_args` supports neither commands with sub-commands nor ``--``: these use `parse_args`.
    """
    has_commands = any(isinstance(action, argparse._SubParsersAction) for action in parser._actions)
    parse = parser.parse_args if has_commands or "--" in arguments else parser.parse_intermixed_args
    return parse(arguments)


def _overview() -> argparse.ArgumentParser:
    """The parser of ``kwire --help``; it has only the names of the commands."""
    parser = argparse.ArgumentParser(
        prog="kwire",
        description="The Kafka wire protocol: messages, record batches, captures.",
        epilog="Exit codes: 0 success, 1 problem found, 2 usage error. See also 'kwire COMMAND --help'.",
    )
    parser.add_argument("--version", action=_Version)
    actions = parser.add_subparsers(metavar="COMMAND", dest="command")
    for name, command in COMMANDS.items():
        actions.add_parser(name, help=command.help)
    return parser


def _parse_overview(parser: argparse.ArgumentParser, argv: list[str]) -> int:
    """Handle --help, --version, a missing and an unknown sub-command."""
    try:
        parser.parse_args(argv)
    except SystemExit as stop:
        return _exit_code(stop)
    parser.print_help(sys.stderr)
    return USAGE_ERROR


def _exit_code(stop: SystemExit) -> int:
    sys.stdout.flush()
    return stop.code if isinstance(stop.code, int) else SUCCESS


class _Version(argparse.Action):
    """``--version``: reads the version number only when requested."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="show the version and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from kwire.package_version import version_line

        print(version_line("kwire"))
        parser.exit()


def _fail(message: str, code: int) -> int:
    print(f"kwire: {one_line(message)}", file=sys.stderr)
    return code


def _describe_error(error: OSError) -> str:
    """``FileNotFoundError(2, ..., "x")`` as ``x: No such file or directory``."""
    reason = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {reason}" if error.filename is not None else reason


if __name__ == "__main__":
    sys.exit(main())
