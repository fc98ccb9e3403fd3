"""``kwire describe [NAME]``: the fields of a message as a table, or a list of all messages."""

from __future__ import annotations

import argparse
import difflib
import sys
import textwrap
from collections.abc import Iterator

from kwire.cli.edition import add_edition_arguments
from kwire.errors import UnsupportedVersion
from kwire.schema import (
    REMOVED_EDITION,
    FieldSpec,
    MessageSpec,
    Versions,
    load_schema,
    message_names,
    removed_versions,
)
from kwire.schema.versions import NONE

_ABOUT_WIDTH = 100
_COLUMNS = ("field", "type", "versions", "null", "tag", "default")
_KINDS = {
    "request": "requests",
    "response": "responses",
    "header": "headers",
    "coordinator-key": "keys of coordinator records",
    "coordinator-value": "values of coordinator records",
    "metadata": "records of the cluster's metadata",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the sub-command."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="a message, such as ShareFetchRequest; none: list all")
    parser.add_argument("--version", type=int, metavar="N", help="only the fields of this version")
    add_edition_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the table or the list."""
    if args.name is None:
        lines = _list(args.edition)
    else:
        lines = _describe(find_message(args.name, args.edition), args.version, args.edition)
    for line in lines:
        sys.stdout.write(f"{line}\n")
    return 0


def _describe(spec: MessageSpec, version: int | None, edition: str) -> Iterator[str]:
    removed = removed_versions(spec.name, edition)
    if version in removed or (removed and not spec.versions):
        spec, edition, removed = load_schema(spec.name, REMOVED_EDITION), REMOVED_EDITION, NONE
    if version is not None and version not in spec.versions:
        what = f"has the versions {spec.versions} in edition {edition}, not {version}"
        raise UnsupportedVersion(spec.name, what)
    yield from _table(spec, version, edition)
    if version is None and removed:
        yield ""
        yield f"Kafka 4.0 removed the versions {removed}: see --edition {REMOVED_EDITION}"


def find_message(name: str, edition: str) -> MessageSpec:
    """The schema of a message; case of its name is ignored.

    Raises: UnsupportedVersion that suggests names close to an unknown one.
    """
    known_names = {known.lower(): known for known in message_names(edition)}
    lower_name = name.lower()
    lower_names = sorted(known_names)
    if lower_name in known_names:
        return load_schema(known_names[lower_name], edition)
    # "ShareFetch" alone is no message: suggest its request and response.
    close = [known for known in lower_names if name and known.startswith(lower_name)]
    close += difflib.get_close_matches(lower_name, lower_names, n=4, cutoff=0.6)
    suggestions = ", ".join(dict.fromkeys(known_names[known] for known in close[:6]))
    hint = f"; did you mean {suggestions}?" if close else "; 'kwire describe' lists all"
    raise UnsupportedVersion(name, f"is not a message of edition {edition}{hint}")


def _list(edition: str) -> Iterator[str]:
    specs = [load_schema(name, edition) for name in message_names(edition)]
    width = max(len(spec.name) for spec in specs)
    for kind in [*_KINDS, "data"]:
        kind_specs = [spec for spec in specs if spec.kind == kind]
        if not kind_specs:
            continue
        yield f"{_KINDS.get(kind, 'other structures')}:"
        for spec in sorted(kind_specs, key=lambda spec: (-1 if spec.api_key is None else spec.api_key, spec.name)):
            key = "   " if spec.api_key is None else f"{spec.api_key:>3}"
            removed = removed_versions(spec.name, edition)
            note = f", removed {removed}" if removed else ""
            yield f"  {key}  {spec.name:<{width}}  {_versions(spec.versions)}{note}".rstrip()


def _versions(versions: Versions) -> str:
    return f"versions {versions}" if versions else "no version left"


def _table(spec: MessageSpec, version: int | None, edition: str) -> Iterator[str]:
    head = [spec.kind]
    if spec.api_key is not None:
        # In records of coordinators the number is the type of the record.
        head.append(f"{'record type' if spec.kind.startswith('coordinator') else 'API key'} {spec.api_key}")
    head += [_versions(spec.versions), f"flexible {spec.flexible_versions}", f"edition {edition}"]
    if spec.latest_unstable:
        head.append("latest version unstable")
    yield f"{spec.name}: {', '.join(head)}"
    if version is not None:
        yield f"version {version}" + (", flexible" if spec.is_flexible(version) else "")
    yield ""
    fields = list(_fields(spec.fields, version))
    rows = [_COLUMNS, *(_row(depth, field, spec, version) for depth, field in fields)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table_lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    yield table_lines[0]
    for line, (depth, field) in zip(table_lines[1:], fields, strict=True):
        yield line
        indent = " " * (2 * depth + 4)
        yield from textwrap.wrap(field.about, _ABOUT_WIDTH, initial_indent=indent, subsequent_indent=indent)


def _fields(fields: tuple[FieldSpec, ...], version: int | None, depth: int = 0) -> Iterator[tuple[int, FieldSpec]]:
    for field in fields:
        if version is None or version in field.versions:
            yield depth, field
            yield from _fields(field.fields, version, depth + 1)


def _row(depth: int, field: FieldSpec, spec: MessageSpec, version: int | None) -> tuple[str, ...]:
    versions = field.versions.intersect(spec.versions)
    nullable = field.nullable_versions.intersect(spec.versions)
    tagged = field.tag is not None and (version is None or field.is_tagged(version))
    tag = str(field.tag) if tagged else ""
    name = "  " * depth + field.name
    return name, field.type, str(versions), _nullable(nullable, versions, version), tag, _default(field)


def _nullable(nullable: Versions, versions: Versions, version: int | None) -> str:
    if version is not None:
        return "yes" if version in nullable else ""
    return "yes" if nullable and nullable.covers(versions) else str(nullable) if nullable else ""


def _default(field: FieldSpec) -> str:
    """The default value if it is not the zero value of the type."""
    if field.default is None:
        # Records are null by default whatever the schema has: not worth printing.
        return "" if field.type == "records" else "null"
    return "" if not field.default or field.default == bytes(16) else str(field.default).lower()
