"""``kwire message decode`` and ``kwire message encode``: one message between hex and Kafka's JSON form."""

from __future__ import annotations

import argparse
import json
import re
import sys

import msgspec

import kwire
from kwire import redact
from kwire.cli.describe import find
from kwire.cli.wrong_use import WrongUseError
from kwire.escape import one_line, safe_json
from kwire.schema import DEFAULT_EDITION, EDITIONS

#: What people paste between the bytes: blanks, colons, commas, and the 0x before them.
_BETWEEN = re.compile(r"0[xX]|[\s:,]+")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the sub-command."""
    actions = parser.add_subparsers(metavar="ACTION", dest="action", required=True)
    decode = actions.add_parser("decode", help="hex to JSON, a tree, or annotated hex")
    _common(decode)
    decode.add_argument("data", metavar="HEX", help="the message's bytes without header; - reads them from stdin")
    decode.add_argument(
        "--format", choices=("json", "tree", "hex"), default="json", help="what to print (default: json)"
    )
    decode.add_argument("--lenient", action="store_true", help="take what Kafka takes, and tell each oddity on stderr")
    decode.add_argument("--show-secrets", action="store_true", help="show credentials instead of ***")
    decode.add_argument(
        "--payload", action="store_true", help="tree, hex: show keys and values of records (JSON has all records)"
    )
    encode = actions.add_parser("encode", help="Kafka's JSON form to hex")
    _common(encode)
    encode.add_argument("data", metavar="JSON", help="the message in Kafka's JSON form; - reads it from stdin")


def run(args: argparse.Namespace) -> int:
    """Print the message in the other form."""
    name = find(args.name, args.edition).name
    text = sys.stdin.read() if args.data == "-" else args.data
    if args.action == "encode":
        message = kwire.from_json(name, args.version, _json(text), edition=args.edition)
        print(kwire.encode(message, args.version, edition=args.edition).hex())
        return 0
    data = _hex(text)
    if args.format == "json":
        tree = kwire.to_json(_decoded(name, data, args), args.version, edition=args.edition)
        print(safe_json(tree if args.show_secrets else redact.redact(tree, name), indent=2))
    else:
        print(_described(name, data, args))
        # The picture is there even of damaged bytes; whether they are right, the codec says.
        _decoded(name, data, args)
    return 0


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the message, such as ShareFetchRequest")
    parser.add_argument("version", metavar="VERSION", type=int, help="its version")
    parser.add_argument("--edition", default=DEFAULT_EDITION, metavar="E", help=f"one of {', '.join(EDITIONS)}")


def _decoded(name: str, data: bytes, args: argparse.Namespace) -> msgspec.Struct:
    if not args.lenient:
        return kwire.decode(name, args.version, data, edition=args.edition)
    lenient = kwire.decode_lenient(name, args.version, data, edition=args.edition)
    for oddity in lenient.oddities:
        print(f"kwire: {oddity.path} at byte {oddity.at}: {one_line(oddity.what)}", file=sys.stderr)
    return lenient.message


def _described(name: str, data: bytes, args: argparse.Namespace) -> str:
    from kwire.layout import describe_bytes, render_hex, render_tree

    render = render_tree if args.format == "tree" else render_hex
    tree = describe_bytes(name, args.version, data, edition=args.edition)
    return render(tree, show_secrets=args.show_secrets, payload=args.payload)


def _hex(text: str) -> bytes:
    digits = _BETWEEN.sub("", text)
    odd = re.search(r"[^0-9a-fA-F]", digits)
    if odd:
        raise WrongUseError(f"HEX: {odd[0]!r} is not a hexadecimal digit")
    if len(digits) % 2:
        raise WrongUseError(f"HEX: {len(digits)} digits are not whole bytes")
    return bytes.fromhex(digits)


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WrongUseError(f"JSON: {error}") from error
