"""``kwire describe [NAME]``: the fields of a message as a table, or all messages."""

from __future__ import annotations

import argparse
import difflib
import sys
import textwrap
from collections.abc import Iterator

from kwire.errors import UnsupportedVersion
from kwire.schema import DEFAULT_EDITION, EDITIONS, FieldSpec, MessageSpec, Versions, load, names

_ABOUT_WIDTH = 100
_COLUMNS = ("field", "type", "versions", "null", "tag", "default")
_KINDS = {
    "request": "requests",
    "response": "responses",
    "header": "headers",
    "coordinator-key": "keys of coordinator records",
    "coordinator-value": "values of coordinator records",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the sub-command."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="a message, such as ShareFetchRequest; none: list all")
    parser.add_argument("--version", type=int, metavar="N", help="only the fields of this version")
    parser.add_argument("--edition", default=DEFAULT_EDITION, metavar="E", help=f"one of {', '.join(EDITIONS)}")


def run(args: argparse.Namespace) -> int:
    """Print the table or the list."""
    if args.name is None:
        lines = _list(args.edition)
    else:
        spec = find(args.name, args.edition)
        if args.version is not None and args.version not in spec.versions:
            what = f"has the versions {spec.versions} in edition {args.edition}, not {args.version}"
            raise UnsupportedVersion(spec.name, what)
        lines = _table(spec, args.version, args.edition)
    for line in lines:
        sys.stdout.write(f"{line}\n")
    return 0


def find(name: str, edition: str) -> MessageSpec:
    """The schema of a message, whatever the case of its name.

    Raises: UnsupportedVersion that suggests names close to an unknown one.
    """
    known = {each.lower(): each for each in {*names(DEFAULT_EDITION), *names(edition)}}
    exact = known.get(name.lower())
    if exact is not None:
        return load(exact, edition)
    # "ShareFetch" alone is no message, but its request and response are what was meant.
    close = [known[each] for each in sorted(known) if name and each.startswith(name.lower())]
    close += [known[each] for each in difflib.get_close_matches(name.lower(), sorted(known), n=4, cutoff=0.6)]
    hint = f"; did you mean {', '.join(dict.fromkeys(close[:6]))}?" if close else "; 'kwire describe' lists all"
    raise UnsupportedVersion(name, f"is not a message of edition {edition}{hint}")


def _list(edition: str) -> Iterator[str]:
    specs = [load(name, edition) for name in names(edition)]
    width = max(len(spec.name) for spec in specs)
    for kind in [*_KINDS, "data"]:
        chosen = [spec for spec in specs if spec.kind == kind]
        if not chosen:
            continue
        yield f"{_KINDS.get(kind, 'other structures')}:"
        for spec in sorted(chosen, key=lambda spec: (-1 if spec.api_key is None else spec.api_key, spec.name)):
            key = "   " if spec.api_key is None else f"{spec.api_key:>3}"
            yield f"  {key}  {spec.name:<{width}}  {_versions(spec.versions)}".rstrip()


def _versions(versions: Versions) -> str:
    return f"versions {versions}" if versions else "no version left"


def _table(spec: MessageSpec, version: int | None, edition: str) -> Iterator[str]:
    head = [spec.kind]
    if spec.api_key is not None:
        # In the records of coordinators the same number tells which kind of record a key begins.
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
    shown = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    yield shown[0]
    for line, (depth, field) in zip(shown[1:], fields, strict=True):
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
    return (
        "  " * depth + field.name,
        field.type,
        str(versions),
        _nullable(nullable, versions, version),
        str(field.tag) if tagged else "",
        _default(field),
    )


def _nullable(nullable: Versions, versions: Versions, version: int | None) -> str:
    if version is not None:
        return "yes" if version in nullable else ""
    return "yes" if nullable and nullable.covers(versions) else str(nullable) if nullable else ""


def _default(field: FieldSpec) -> str:
    """The default where it is not the type's own zero."""
    if field.default is None:
        # Records start as null whatever the schema says, which tells a reader nothing.
        return "" if field.type == "records" else "null"
    return "" if not field.default or field.default == bytes(16) else str(field.default).lower()
