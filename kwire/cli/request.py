"""``kwire request``: send one request to a broker, and print its response in Kafka's JSON form."""

from __future__ import annotations

import argparse
import json
import os
import ssl
import sys

import msgspec

from kwire import redact
from kwire.cli.describe import find
from kwire.cli.wrong_use import WrongUseError
from kwire.client import Client
from kwire.client.handshake import MECHANISMS, PLAIN
from kwire.codec import from_json
from kwire.errors import InvalidValue, UnexpectedNull
from kwire.escape import safe_json
from kwire.registry import DEFAULT_EDITION, EDITIONS, message_class


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the sub-command's own arguments."""
    parser.add_argument("name", metavar="NAME", help="the API, such as Metadata")
    parser.add_argument("json", metavar="JSON", nargs="?", default="{}", help="the request; - reads it from stdin")
    parser.add_argument(
        "--bootstrap", required=True, metavar="HOST:PORT", help="brokers, the first that answers is taken"
    )
    parser.add_argument("--version", type=int, metavar="N", help="default: the highest that both sides have")
    parser.add_argument("--edition", default=DEFAULT_EDITION, metavar="E", help=f"one of {', '.join(EDITIONS)}")
    parser.add_argument("--timeout", type=float, default=30.0, metavar="S", help="seconds (default %(default)g)")
    parser.add_argument("--tls", action="store_true", help="use TLS, and verify the broker's certificate")
    parser.add_argument("--ca", metavar="FILE", help="trust these authorities instead of the system's (implies --tls)")
    parser.add_argument("--insecure", action="store_true", help="use TLS, and talk to anybody (implies --tls)")
    parser.add_argument("--user", metavar="U", help="authenticate by SASL; the password comes from --password-env")
    parser.add_argument("--sasl-mechanism", default=PLAIN, choices=MECHANISMS, help="default %(default)s")
    parser.add_argument("--password-env", metavar="VAR", help="the environment variable that holds the password")
    parser.add_argument("--show-secrets", action="store_true", help="show credentials instead of ***")
    parser.add_argument("--payload", action="store_true", help="show keys and values of records")


def run(args: argparse.Namespace) -> int:
    """Send, wait, print."""
    name = args.name if args.name.lower().endswith("request") else f"{args.name}Request"
    kind = message_class(find(name, args.edition).name, args.edition)
    tree = _tree(sys.stdin.read() if args.json == "-" else args.json)
    if not args.timeout > 0:
        raise WrongUseError(f"--timeout {args.timeout:g}: seconds above zero are expected")
    tls, sasl = _tls(args), _sasl(args)
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
        raise WrongUseError(f"--bootstrap {error}") from None
    with client:
        version = client.version_for(kind) if args.version is None else args.version
        response = client.send(_message(kind, version, tree), version)
    if response is not None:  # Produce with acks=0 has no answer.
        shown = redact.shown(response, version, show_secrets=args.show_secrets, payload=args.payload)
        print(safe_json(shown, indent=2))
    return 0


def _tree(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WrongUseError(f"the request is not JSON: {error}") from None


def _message(kind: type[msgspec.Struct], version: int, tree: object) -> msgspec.Struct:
    try:
        return from_json(kind, version, tree)
    except (InvalidValue, UnexpectedNull) as error:
        raise WrongUseError(str(error)) from None


def _tls(args: argparse.Namespace) -> ssl.SSLContext | None:
    if not (args.tls or args.ca or args.insecure):
        return None
    if args.ca and args.insecure:
        raise WrongUseError("--ca says whom to trust, --insecure to trust anybody: one of them")
    try:
        context = ssl.create_default_context(cafile=args.ca)
    except ssl.SSLError as error:
        raise WrongUseError(f"--ca {args.ca}: {error}") from None
    if args.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _sasl(args: argparse.Namespace) -> tuple[str, str] | None:
    """User and password; the latter never comes from the command line, which other users of the machine can read."""
    if args.user is None and args.password_env is None:
        return None
    if args.user is None or args.password_env is None:
        raise WrongUseError("--user and --password-env belong together")
    password = os.environ.get(args.password_env)
    if password is None:
        raise WrongUseError(f"--password-env {args.password_env}: there is no such environment variable")
    return args.user, password
