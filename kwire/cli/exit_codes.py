"""Exit codes of all commands of the project."""

from __future__ import annotations

SUCCESS, PROBLEM_FOUND, USAGE_ERROR = 0, 1, 2
# The code that shells use for a program ended by Ctrl-C: 128 + SIGINT.
INTERRUPTED = 130
# The code for a program whose reader closed the pipe, as `head` does: 128 + SIGPIPE.
BROKEN_PIPE = 141
