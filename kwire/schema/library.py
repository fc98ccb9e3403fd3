"""Finds the schema files: beside a checkout's packages, or inside the installed one."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from kwire.errors import SchemaError, UnsupportedVersion
from kwire.schema.parse import parse_message
from kwire.schema.spec import MessageSpec

#: The edition that everything means unless told otherwise.
DEFAULT_EDITION = "4.3"

#: The directories of each edition. Every edition but the default lies over it: what it does not have is as in 4.3.
EDITIONS: dict[str, tuple[str, ...]] = {
    "4.3": ("messages", "records"),
    "4.0-early-access": ("early-access",),
}


def schema_root() -> Path:
    """The directory of the schemas: package data of an installed kwire, or `schemas` in a checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "_schemas"
    return installed if installed.is_dir() else package.parent / "schemas"


def names(edition: str = DEFAULT_EDITION) -> list[str]:
    """The messages of an edition, sorted; for all but the default only those in which it differs.

    Raises: UnsupportedVersion when there is no such edition.
    """
    return sorted(_files(edition))


@cache
def load(name: str, edition: str = DEFAULT_EDITION) -> MessageSpec:
    """The schema of a message; one that the edition does not have itself is that of the default edition.

    Raises: UnsupportedVersion when there is no such message or edition; SchemaError when its file is wrong.
    """
    path = _files(edition).get(name) or _files(DEFAULT_EDITION).get(name)
    if path is None:
        raise UnsupportedVersion(name, f"is not a message of edition {edition}")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SchemaError(str(path), name, "", f"cannot be read: {error}") from error
    return parse_message(text, str(path))


@cache
def _files(edition: str) -> dict[str, Path]:
    directories = EDITIONS.get(edition)
    if directories is None:
        raise UnsupportedVersion("", f"edition {edition!r} is not one of {', '.join(EDITIONS)}")
    root = schema_root()
    found: dict[str, Path] = {}
    for directory in directories:
        with os.scandir(root / directory) as entries:
            files = [entry.name for entry in entries if entry.name.endswith(".json")]
        found.update((name.removesuffix(".json"), root / directory / name) for name in files)
    return found
