"""Completion of the commands' options and names in a shell, by argcomplete (the extra `completion`).

eval "$(register-python-argcomplete kwire)"
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

#: Set by the shell functions of argcomplete; the line that is completed is in `COMP_LINE`.
_REQUESTED = "_ARGCOMPLETE"


def complete(create_parser: Callable[[str], argparse.ArgumentParser]) -> None:
    """Answer a shell that asks for completions, and end the process; return at once otherwise.

    create_parser: makes the parser of the command; gets the first word after it, "" without one.
    """
    if _REQUESTED not in os.environ:
        return
    import argcomplete

    words = os.environ.get("COMP_LINE", "").split()
    argcomplete.autocomplete(create_parser(words[1] if len(words) > 1 else ""))


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser], parser: argparse.ArgumentParser) -> None:
    """Make a parser a command of another one, by the last word of its name."""
    name = parser.prog.split()[-1]
    commands.add_parser(name, parents=[parser], conflict_handler="resolve", add_help=False)
