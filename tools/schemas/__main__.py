"""``python -m tools.schemas [--jars DIR]``: is every schema what Kafka's official jars say? Exit code 1 when not."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from kwire.schema import schema_root
from kwire.schema.library import EDITIONS
from tools.schemas.compare import Difference, compare_all
from tools.schemas.jars import SOURCES, JarError, Source, cache_folder, fetch, schemas_in


def main(argv: list[str] | None = None) -> int:
    """Compare the editions asked for, print what differs, and answer 0, 1 (differences) or 2 (could not compare)."""
    parser = argparse.ArgumentParser(prog="python -m tools.schemas", description=__doc__)
    parser.add_argument("--jars", type=Path, metavar="DIR", help="a folder with the jars (default: Maven fetches them)")
    parser.add_argument("--schemas", type=Path, metavar="DIR", default=schema_root(), help="the schemas to compare")
    parser.add_argument("--edition", choices=sorted(SOURCES), action="append", help="compare only this edition")
    args = parser.parse_args(argv)
    # A folder of jars is mostly that of one release, so the default edition alone is compared with it.
    editions = args.edition or (list(SOURCES) if args.jars is None else ["4.3"])
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
    folder = jars or cache_folder()
    if jars is None:
        fetch(source, folder)
    ours, theirs = _texts(edition, schemas), schemas_in(source, folder)
    if edition == "4.0-early-access":
        theirs = {file: text for file, text in theirs.items() if _is_of_share_groups(file)}
        # What the edition has no file of its own for is as in the one below it.
        ours = {file: text for file, text in _texts("4.3", schemas).items() if file in theirs} | ours
    numbers = {file: str(json.loads(text).get("apiKey")) for file, text in ours.items()}
    return [one for one in compare_all(ours, theirs) if not _is_plain(one, numbers[one.file])], len(ours)


def _texts(edition: str, schemas: Path) -> dict[str, str]:
    return {
        path.name: path.read_text(encoding="utf-8")
        for directory in EDITIONS[edition].directories
        for path in (schemas / directory).glob("*.json")
    }


def _is_plain(difference: Difference, number: str) -> bool:
    """Whether 4.0 says the same otherwise: its records were plain data, and the version of a key was its number."""
    if difference.file.endswith("Key.json") and (difference.ours, difference.theirs) == ("0", number):
        return True
    told = (difference.key, difference.theirs)
    return told in (("apiKey", None), ("type", "data")) and difference.path == ""


def _is_of_share_groups(file: str) -> bool:
    """Whether the edition of 4.0 has it: RPCs of share groups, 76 to 79, of their state, 83 to 87, and the records."""
    return "Share" in file


if __name__ == "__main__":
    sys.exit(main())
