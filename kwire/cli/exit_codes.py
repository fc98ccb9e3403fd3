"""What commands end with, as for every command of the project."""

from __future__ import annotations

GOOD, FOUND_WRONG, WRONG_USE = 0, 1, 2
# What a shell reports for a program that Ctrl-C ended: 128 + SIGINT.
INTERRUPTED = 130
# And for one whose reader went away, as `head` does: 128 + SIGPIPE.
READER_GONE = 141
