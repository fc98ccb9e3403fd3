"""``kwire message decode`` and ``kwire message encode``: convert one message between hex and Kafka's JSON form."""

from __future__ import annotations

import argparse
import json
import re
import sys

import msgspec

import kwire
from kwire import redact
from kwire.cli.describe import find_message
from kwire.cli.edition import add_edition_arguments
from kwire.cli.usage_error import UsageError
from kwire.escape import one_line, safe_json

#: Separators between bytes in pasted hex: blanks, colons, commas, and the prefix 0x.
_SEPARATORS = re.compile(r"0[xX]|[\s:,]+")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the sub-command."""
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    decode = actions.add_parser("decode", help="hex to JSON, a tree, or annotated hex")
    _add_common_arguments(decode)
    add = decode.add_argument
    add("data", metavar="HEX", help="the message's bytes without header; - reads them from stdin")
    add("--format", choices=("json", "tree", "hex"), default="json", help="what to print (default: json)")
    add("--lenient", action="store_true", help="accept what Kafka accepts, and print each decode warning on stderr")
    add("--show-secrets", action="store_true", help="show credentials instead of ***")
    add("--payload", action="store_true", help="tree, hex: show keys and values of records (JSON has all records)")
    encode = actions.add_parser("encode", help="Kafka's JSON form to hex")
    _add_common_arguments(encode)
    encode.add_argument("data", metavar="JSON", help="the message in Kafka's JSON form; - reads it from stdin")


def run(args: argparse.Namespace) -> int:
    """Print the message in the other form."""
    name = find_message(args.name, args.edition).name
    text = sys.stdin.read() if args.data == "-" else args.data
    if args.action == "encode":
        message = kwire.from_json(name, args.version, _parse_json(text), edition=args.edition)
        print(kwire.encode(message, args.version).hex())
        return 0
    data = _parse_hex(text)
    if args.format == "json":
        tree = kwire.to_json(_decode_message(name, data, args), args.version)
        print(safe_json(tree if args.show_secrets else redact.redact_json(tree, name), indent=2))
    else:
        print(_describe_bytes(name, data, args))
        # The tree is printed even of damaged bytes; decoding reports whether they are valid.
        _decode_message(name, data, args)
    return 0


def _add_common_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the message, such as ShareFetchRequest")
    parser.add_argument("version", metavar="VERSION", type=int, help="its version")
    add_edition_arguments(parser)


def _decode_message(name: str, data: bytes, args: argparse.Namespace) -> msgspec.Struct:
    if not args.lenient:
        return kwire.decode(name, args.version, data, edition=args.edition)
    lenient = kwire.decode_lenient(name, args.version, data, edition=args.edition)
    for warning in lenient.warnings:
        print(f"kwire: {warning.path} at byte {warning.at}: {one_line(warning.what)}", file=sys.stderr)
    return lenient.message


def _describe_bytes(name: str, data: bytes, args: argparse.Namespace) -> str:
    from kwire.layout import describe_bytes, render_hex, render_tree

    render = render_tree if args.format == "tree" else render_hex
    tree = describe_bytes(name, args.version, data, edition=args.edition)
    return render(tree, show_secrets=args.show_secrets, payload=args.payload)


def _parse_hex(text: str) -> bytes:
    digits = _SEPARATORS.sub("", text)
    invalid = re.search(r"[^0-9a-fA-F]", digits)
    if invalid:
        raise UsageError(f"HEX: {invalid[0]!r} is not a hexadecimal digit")
    if len(digits) % 2:
        raise UsageError(f"HEX: {len(digits)} digits are not whole bytes")
    return bytes.fromhex(digits)


def _parse_json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"JSON: {error}") from error
