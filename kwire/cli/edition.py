"""`--release` and `--edition`: whose messages a command reads or writes."""

from __future__ import annotations

import argparse

from kwire.registry import DEFAULT_EDITION, EDITIONS, RELEASES


def add_edition_arguments(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Declare both options; either sets `edition`."""
    group = parser.add_mutually_exclusive_group()
    add = group.add_argument
    release_help = "release of Kafka: %(choices)s (default: %(default)s)"
    add("--release", dest="edition", choices=RELEASES, default=DEFAULT_EDITION, help=release_help)
    others = ", ".join(edition for edition in EDITIONS if edition not in RELEASES)
    add("--edition", default=DEFAULT_EDITION, metavar="E", help=f"edition: {others}")
