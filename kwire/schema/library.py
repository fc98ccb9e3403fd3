"""The schemas by name and edition, from the installed package or from a checkout."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kwire.errors import SchemaError, UnsupportedVersion
from kwire.schema.parse import parse_message
from kwire.schema.spec import MessageSpec
from kwire.schema.versions import NONE, Versions


class Edition(NamedTuple):
    """The folders of an edition's schemas, and the edition that it extends: it inherits the other messages.

    removed: messages of the extended edition that this one does not have.
    """

    directories: tuple[str, ...]
    base: str = ""
    removed: frozenset[str] = frozenset()


#: Messages that Kafka has had since 4.4.
_SINCE_4_4 = frozenset(
    {
        "AbortedTxn",
        "StreamsGroupTopologyDescriptionUpdateRequest",
        "StreamsGroupTopologyDescriptionUpdateResponse",
        "UnregisterControllerRecord",
        "UnregisterControllerRequest",
        "UnregisterControllerResponse",
    }
)


#: The releases of Kafka, newest first; the other editions change their share groups.
RELEASES = ("4.4", "4.3")

#: The edition that is used by default: the newest release.
DEFAULT_EDITION = RELEASES[0]

#: The edition of what Kafka 4.0 removed: old versions (KIP-896), and the APIs of ZooKeeper's controllers (KIP-500).
#: Of the messages it has only those versions, as Kafka 3.9 had them; in no other version has Kafka ever changed them.
REMOVED_EDITION = "before-4.0"

#: Every chain ends with the newest release. Revisions of KIP-932 by age: r1, which defines no messages, r2, r3, r4, r5.
EDITIONS: dict[str, Edition] = {
    "4.4": Edition(("messages", "records", "metadata")),
    "4.3": Edition(("releases/4.3",), "4.4", _SINCE_4_4),
    REMOVED_EDITION: Edition(("before-4.0",), "4.4"),
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


def message_names(edition: str = DEFAULT_EDITION) -> list[str]:
    """All messages of an edition, sorted, those that it inherits included.

    Raises: UnsupportedVersion when there is no such edition.
    """
    names: set[str] = set()
    for layer in reversed(edition_layers(edition)):
        names = names - EDITIONS[layer].removed | _schema_files(layer).keys()
    return sorted(names)


def own_message_names(edition: str) -> list[str]:
    """The messages that an edition defines itself, sorted."""
    return sorted(_schema_files(edition))


@cache
def edition_layers(edition: str) -> tuple[str, ...]:
    """The edition, the one that it extends, and so on down to the default.

    Raises: UnsupportedVersion when there is no such edition.
    """
    definition = EDITIONS.get(edition)
    if definition is None:
        raise UnsupportedVersion("", f"edition {edition!r} is not one of {', '.join(EDITIONS)}")
    return (edition, *edition_layers(definition.base)) if definition.base else (edition,)


@cache
def load_schema(name: str, edition: str = DEFAULT_EDITION) -> MessageSpec:
    """The schema of a message; a message that an edition lacks is that of the edition it extends.

    Raises: UnsupportedVersion when there is no such message or edition; SchemaError when its file is wrong.
    """
    path, text = _read_file(name, edition)
    return parse_message(text, str(path))


def edition_of_version(name: str, version: int, edition: str = DEFAULT_EDITION) -> str:
    """The edition that has a version of a message: the given one, or `REMOVED_EDITION` where only that one has it.

    Raises: as `load_schema`.
    """
    if version in load_schema(name, edition).versions or name not in _schema_files(REMOVED_EDITION):
        return edition
    return REMOVED_EDITION if version in load_schema(name, REMOVED_EDITION).versions else edition


def removed_versions(name: str, edition: str = DEFAULT_EDITION) -> Versions:
    """The versions of a message that Kafka 4.0 removed; none in the edition that has them."""
    if edition == REMOVED_EDITION or name not in _schema_files(REMOVED_EDITION):
        return NONE
    return load_schema(name, REMOVED_EDITION).versions


def schema_contains(name: str, text: str, edition: str = DEFAULT_EDITION) -> bool:
    """Whether the file of a schema, which is not parsed, contains a text. Raises: as `load_schema`."""
    return text in _read_file(name, edition)[1]


def _read_file(name: str, edition: str) -> tuple[Path, str]:
    path = _find_file(name, edition)
    if path is None:
        raise UnsupportedVersion(name, f"is not a message of edition {edition}")
    try:
        return path, path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SchemaError(str(path), name, "", f"cannot be read: {error}") from error


def _find_file(name: str, edition: str) -> Path | None:
    for layer in edition_layers(edition):
        if name in EDITIONS[layer].removed:
            return None
        if name in (files := _schema_files(layer)):
            return files[name]
    return None


@cache
def _schema_files(edition: str) -> dict[str, Path]:
    root = schema_root()
    paths: dict[str, Path] = {}
    for directory in EDITIONS[edition].directories:
        with os.scandir(root / directory) as entries:
            files = [entry.name for entry in entries if entry.name.endswith(".json")]
        paths.update((name.removesuffix(".json"), root / directory / name) for name in files)
    return paths
