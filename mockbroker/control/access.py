"""Who may use the control: checks of the Host, Origin and Authorization headers, before anything is read.

Against DNS rebinding: a page of an attacker whose name leads to this machine sends that name as Host. Names that an
attacker can have are those of the public DNS.
"""

from __future__ import annotations

import hmac
import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from mockbroker.control.options import is_loopback
from mockbroker.control.problems import ProblemError, ProblemKind
from mockbroker.control.responses import problem_response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from mockbroker.control.options import ControlOptions

#: Below this path every request needs the token; the description and pages have no secrets.
PROTECTED = "/v1"
#: Ends of names that no public DNS server has.
_PRIVATE_ENDS = (".internal", ".local", ".localhost", ".test")
_SCHEME = "bearer"


class AccessCheck:
    """An ASGI application that passes on only the requests that may use the control."""

    def __init__(self, app: ASGIApp, options: ControlOptions) -> None:
        self._app = app
        self._options = options

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request."""
        headers = Headers(scope=scope)
        try:
            host = check_host(headers, self._options)
            check_origin(headers, host)
            if scope["path"] == PROTECTED or scope["path"].startswith(f"{PROTECTED}/"):
                check_token(headers, self._options.token)
        except ProblemError as error:
            await problem_response(error.problem(), error.headers)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def check_host(headers: Headers, options: ControlOptions) -> str:
    """The Host header. Raises: ProblemError if it may belong to somebody else, or is missing or repeated."""
    values = headers.getlist("host")
    host = values[0].lower() if len(values) == 1 else ""
    name = _host_name(host)
    if name is None:
        raise ProblemError(ProblemKind.FORBIDDEN_HOST, f"Host: {', '.join(values)!r} is not an address")
    if not _is_own_name(name, options):
        expected = "an address of this machine" if options.is_loopback else f"an IP address, or {options.host!r}"
        raise ProblemError(
            ProblemKind.FORBIDDEN_HOST, f"Host: {host!r} may lead to another server; use localhost or {expected}"
        )
    return host


def check_origin(headers: Headers, host: str) -> None:
    """Raises: ProblemError for a request from a page of another origin."""
    for origin in headers.getlist("origin"):
        parts = urlsplit(origin.lower())
        if parts.scheme != "http" or parts.netloc != host:
            raise ProblemError(ProblemKind.FORBIDDEN_ORIGIN, f"Origin: {origin!r} is not http://{host}")


def check_token(headers: Headers, token: str | None) -> None:
    """Raises: ProblemError if a token is needed and missing or wrong."""
    if token is None:
        return
    values = headers.getlist("authorization")
    scheme, _, given = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    if scheme.lower() == _SCHEME and hmac.compare_digest(given.strip().encode(), token.encode()):
        return
    seen = "the token is wrong" if scheme.lower() == _SCHEME else "there is no token"
    raise ProblemError(
        ProblemKind.UNAUTHORIZED,
        f"{seen}; expected the header 'Authorization: Bearer TOKEN'",
        {"WWW-Authenticate": "Bearer"},
    )


def _host_name(host: str) -> str | None:
    """The name or address in a Host header, without port and brackets; None if it has none."""
    try:
        parts = urlsplit(f"//{host}")
        is_valid = parts.netloc == host and parts.username is None and (parts.port is None or parts.port >= 0)
    except ValueError:
        return None
    return parts.hostname if is_valid else None


def _is_own_name(name: str, options: ControlOptions) -> bool:
    if is_loopback(name) or name == options.host.lower():
        return True
    if options.is_loopback:
        return name.endswith(".localhost")
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return "." not in name or name.endswith(_PRIVATE_ENDS)
    return True
