"""``kwire request``: send one request to a broker and print its response in Kafka's JSON form."""

from __future__ import annotations

import argparse
import json
import os
import ssl
import sys

import msgspec

from kwire import redact
from kwire.cli.describe import find_message
from kwire.cli.edition import add_edition_arguments
from kwire.cli.usage_error import UsageError
from kwire.client import Client
from kwire.client.handshake import MECHANISMS, PLAIN
from kwire.codec import from_json
from kwire.errors import InvalidValue, UnexpectedNull
from kwire.escape import safe_json
from kwire.registry import message_class


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the sub-command."""
    add = parser.add_argument
    add("name", metavar="NAME", help="the API, such as Metadata")
    add("json", metavar="JSON", nargs="?", default="{}", help="the request; - reads it from stdin")
    add("--bootstrap", required=True, metavar="HOST:PORT", help="brokers; the first reachable one is used")
    add("--version", type=int, metavar="N", help="default: the highest that both sides support")
    add_edition_arguments(parser)
    add("--timeout", type=float, default=30.0, metavar="S", help="seconds (default %(default)g)")
    add("--tls", action="store_true", help="use TLS, and verify the broker's certificate")
    add("--ca", metavar="FILE", help="trust these authorities instead of the system's (implies --tls)")
    add("--insecure", action="store_true", help="use TLS without verifying the broker (implies --tls)")
    add("--user", metavar="U", help="authenticate by SASL; the password comes from --password-env")
    add("--sasl-mechanism", default=PLAIN, choices=MECHANISMS, help="default %(default)s")
    add("--password-env", metavar="VAR", help="the environment variable with the password")
    add("--show-secrets", action="store_true", help="show credentials instead of ***")
    add("--payload", action="store_true", help="show keys and values of records")


def run(args: argparse.Namespace) -> int:
    """Send the request, wait for the response, print it."""
    name = args.name if args.name.lower().endswith("request") else f"{args.name}Request"
    kind = message_class(find_message(name, args.edition).name, args.edition)
    tree = _parse_request(sys.stdin.read() if args.json == "-" else args.json)
    if not args.timeout > 0:
        raise UsageError(f"--timeout {args.timeout:g}: expected seconds above zero")
    tls, sasl = _tls_context(args), _sasl_credentials(args)
    try:
        client = Client(
            args.bootstrap,
            timeout_s=args.timeout,
            tls=tls,
            sasl=sasl,
            sasl_mechanism=args.sasl_mechanism,
            negotiated=args.version is None,
            edition=args.edition,
        )
    except ValueError as error:
        raise UsageError(f"--bootstrap {error}") from None
    with client:
        version = client.version_for(kind) if args.version is None else args.version
        response = client.send(_build_message(kind, version, tree), version)
    if response is not None:  # Produce with acks=0 has no response.
        shown = redact.redacted_json(response, version, show_secrets=args.show_secrets, payload=args.payload)
        print(safe_json(shown, indent=2))
    return 0


def _parse_request(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the request is not JSON: {error}") from None


def _build_message(kind: type[msgspec.Struct], version: int, tree: object) -> msgspec.Struct:
    try:
        return from_json(kind, version, tree)
    except (InvalidValue, UnexpectedNull) as error:
        raise UsageError(str(error)) from None


def _tls_context(args: argparse.Namespace) -> ssl.SSLContext | None:
    if not (args.tls or args.ca or args.insecure):
        return None
    if args.ca and args.insecure:
        raise UsageError("--ca and --insecure exclude each other: --insecure verifies nothing")
    try:
        context = ssl.create_default_context(cafile=args.ca)
    except ssl.SSLError as error:
        raise UsageError(f"--ca {args.ca}: {error}") from None
    if args.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _sasl_credentials(args: argparse.Namespace) -> tuple[str, str] | None:
    """User and password; the password is never on the command line, which other users of the machine can read."""
    if args.user is None and args.password_env is None:
        return None
    if args.user is None or args.password_env is None:
        raise UsageError("--user and --password-env must be given together")
    password = os.environ.get(args.password_env)
    if password is None:
        raise UsageError(f"--password-env {args.password_env}: there is no such environment variable")
    return args.user, password
