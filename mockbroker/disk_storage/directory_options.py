"""`DirectoryOptions`: how a data directory is used."""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class DirectoryOptions(msgspec.Struct, frozen=True):
    """How a data directory is used.

    fsync: acknowledgements wait for the disk. repair: cut a log at damage that valid batches follow. report: called
    with a line for everything that was mended.
    """

    fsync: bool = False
    repair: bool = False
    report: Callable[[str], None] = lambda _: None
