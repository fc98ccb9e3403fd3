"""``python -m tools.schemas [--jars DIR]``: compares all schemas with those in Kafka's official jars.

Exit code: 0 without differences, 1 with differences, 2 when they cannot be compared.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kwire.schema import (
    DEFAULT_EDITION,
    EDITIONS,
    REMOVED_EDITION,
    edition_layers,
    own_message_names,
    schema_root,
)
from tools.schemas.compare import Difference, compare_schema_sets, parse_schema
from tools.schemas.jars import SOURCES, JarError, Source, cache_folder, fetch_jars, read_schemas
from tools.schemas.removed import removed_schemas


def main(argv: list[str] | None = None) -> int:
    """Compare the requested editions and print the differences; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.schemas", description=__doc__)
    parser.add_argument("--jars", type=Path, metavar="DIR", help="a folder with the jars (default: Maven fetches them)")
    parser.add_argument("--schemas", type=Path, metavar="DIR", default=schema_root(), help="the schemas to compare")
    parser.add_argument("--edition", choices=sorted(SOURCES), action="append", help="compare only this edition")
    args = parser.parse_args(argv)
    # A folder of jars is usually of one release, so only the default edition is compared with it.
    editions = args.edition or (list(SOURCES) if args.jars is None else [DEFAULT_EDITION])
    total = 0
    for edition in editions:
        try:
            differences, files = _compare_edition(edition, SOURCES[edition], args.schemas, args.jars)
        except (JarError, OSError, ValueError) as error:
            print(f"tools.schemas: {error}", file=sys.stderr)
            return 2
        for difference in differences:
            print(difference)
        total += len(differences)
        version = SOURCES[edition].kafka_version
        print(f"edition {edition}: {files} files compared with Kafka {version}, {len(differences)} differences")
    return 1 if total else 0


def _compare_edition(edition: str, source: Source, schemas: Path, jars: Path | None) -> tuple[list[Difference], int]:
    folder, ours = jars or cache_folder(), _schema_texts(edition, schemas)
    if jars is None:
        fetch_jars(source, folder)
    theirs = read_schemas(source, folder)
    if edition == "4.0-early-access":
        theirs = {file: text for file, text in theirs.items() if _is_share_group_schema(file)}
        ours = {file: text for file, text in ours.items() if file in theirs}
    if edition == REMOVED_EDITION:
        theirs, own = removed_schemas(theirs, _schema_texts(DEFAULT_EDITION, schemas)), own_message_names(edition)
        ours = {file: text for file, text in ours.items() if file.removesuffix(".json") in own}
    numbers = {file: str(parse_schema(file, text).get("apiKey")) for file, text in ours.items()}
    return [
        difference
        for difference in compare_schema_sets(ours, theirs)
        if not _is_equivalent(difference, numbers.get(difference.file, ""))
    ], len(ours)


def _schema_texts(edition: str, schemas: Path) -> dict[str, str]:
    """The text of each schema file of an edition.

    Raises: OSError, ValueError when a folder of the edition has no schemas, or a file cannot be read or is no schema.
    """
    texts: dict[str, str] = {}
    for layer in reversed(edition_layers(edition)):
        for name in EDITIONS[layer].removed:
            texts.pop(f"{name}.json", None)
        for directory in EDITIONS[layer].directories:
            paths = sorted((schemas / directory).glob("*.json"))
            if not paths:
                raise ValueError(f"{schemas / directory}: has no schemas, which edition {layer} needs")
            texts.update((path.name, _read_text(path)) for path in paths)
    return texts


def _read_text(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is not UTF-8: {error}") from error
    parse_schema(str(path), text)
    return text


def _is_equivalent(difference: Difference, number: str) -> bool:
    """Whether 4.0 only writes it differently: its records had type data, and a key's version was its number."""
    if difference.file.endswith("Key.json") and (difference.ours, difference.theirs) == ("0", number):
        return True
    key_and_value = (difference.key, difference.theirs)
    return key_and_value in (("apiKey", None), ("type", "data")) and difference.path == ""


def _is_share_group_schema(file: str) -> bool:
    """Whether the 4.0 edition has the file: RPCs of share groups (76 to 79) and their state (83 to 87), and records."""
    return "Share" in file


if __name__ == "__main__":
    sys.exit(main())
