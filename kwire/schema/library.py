"""Finds the schema files: beside a checkout's packages, or inside the installed one."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kwire.errors import SchemaError, UnsupportedVersion
from kwire.schema.parse import parse_message
from kwire.schema.spec import MessageSpec

#: The edition that everything means unless told otherwise.
DEFAULT_EDITION = "4.3"


class Edition(NamedTuple):
    """Where the schemas of an edition are, and the edition that it lies over: what it does not have is as there."""

    directories: tuple[str, ...]
    over: str = ""


#: The last of every chain is the default. Revisions of KIP-932 by age: r1, which gives no shape, r2, r3, r4, r5.
EDITIONS: dict[str, Edition] = {
    "4.3": Edition(("messages", "records")),
    "4.0-early-access": Edition(("early-access",), "4.3"),
    "kip932-r1": Edition((), "kip932-r4"),
    "kip932-r2": Edition(("drafts/r2",), "kip932-r4"),
    "kip932-r3": Edition(("drafts/r3",), "kip932-r4"),
    "kip932-r4": Edition(("drafts/r4",), "4.0-early-access"),
    "kip932-r5": Edition(("drafts/r5",), "kip932-r4"),
}


def schema_root() -> Path:
    """The directory of the schemas: package data of an installed kwire, or `schemas` in a checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "_schemas"
    return installed if installed.is_dir() else package.parent / "schemas"


def names(edition: str = DEFAULT_EDITION) -> list[str]:
    """The messages of an edition, sorted; for all but the default only those in which it differs from that one.

    Raises: UnsupportedVersion when there is no such edition.
    """
    layers = [each for each in layers_of(edition) if each != DEFAULT_EDITION] or [DEFAULT_EDITION]
    return sorted({name for layer in layers for name in _files(layer)})


def own_names(edition: str) -> list[str]:
    """The messages that an edition brings itself, sorted."""
    return sorted(_files(edition))


@cache
def layers_of(edition: str) -> tuple[str, ...]:
    """The edition, the one that it lies over, and so on down to the default.

    Raises: UnsupportedVersion when there is no such edition.
    """
    found = EDITIONS.get(edition)
    if found is None:
        raise UnsupportedVersion("", f"edition {edition!r} is not one of {', '.join(EDITIONS)}")
    return (edition, *layers_of(found.over)) if found.over else (edition,)


@cache
def load(name: str, edition: str = DEFAULT_EDITION) -> MessageSpec:
    """The schema of a message; one that the edition does not have itself is that of the editions below it.

    Raises: UnsupportedVersion when there is no such message or edition; SchemaError when its file is wrong.
    """
    path = next((files[name] for files in map(_files, layers_of(edition)) if name in files), None)
    if path is None:
        raise UnsupportedVersion(name, f"is not a message of edition {edition}")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SchemaError(str(path), name, "", f"cannot be read: {error}") from error
    return parse_message(text, str(path))


@cache
def _files(edition: str) -> dict[str, Path]:
    root = schema_root()
    found: dict[str, Path] = {}
    for directory in EDITIONS[edition].directories:
        with os.scandir(root / directory) as entries:
            files = [entry.name for entry in entries if entry.name.endswith(".json")]
        found.update((name.removesuffix(".json"), root / directory / name) for name in files)
    return found
