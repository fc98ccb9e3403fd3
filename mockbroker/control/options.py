"""The options of the control over HTTP: its address and its token."""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass, field
from importlib.util import find_spec

from kwire.errors import MissingExtra
from mockbroker.config.keys import ConfigError

#: The environment variable with the token, if no token is given otherwise.
TOKEN_VARIABLE = "MOCKBROKER_CONTROL_TOKEN"  # noqa: S105 - the name of a variable.
#: The packages of the extra.
_PACKAGES = ("starlette", "uvicorn")
_LOOPBACK = "127.0.0.1"
_PORT_MAX = 65_535
#: The characters of a token in an Authorization header. Source: RFC 6750, section 2.1.
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
#: [ADDRESS]:PORT, HOST:PORT, or PORT.
_ADDRESS = re.compile(r"(?:(?:\[(?P<ipv6>[0-9a-fA-F:.]+)\]|(?P<host>[^\s:\[\]/@]+)):)?(?P<port>\d{1,5})")


@dataclass(frozen=True, slots=True)
class ControlOptions:
    """Where the control listens. port: 0 for a free one. token: that every request needs, None for none."""

    host: str = _LOOPBACK
    port: int = 0
    token: str | None = field(default=None, repr=False)

    @property
    def is_loopback(self) -> bool:
        """Whether only programs on this machine can connect."""
        return is_loopback(self.host)


def parse_control(address: int | str, token: str | None = None) -> ControlOptions:
    """The options of `--control PORT`, or HOST:PORT, with its token, by default that of the environment.

    Raises: ConfigError for anything else, and for an address that others can reach without a token; MissingExtra
    without the packages of the control, which are loaded later.
    """
    if isinstance(address, bool):
        raise ConfigError(f"control: {address!r}; expected PORT or HOST:PORT, and port 0 for a free one")
    match = _ADDRESS.fullmatch(str(address))
    if match is None or int(match["port"]) > _PORT_MAX:
        raise ConfigError(f"control: {address!r}; expected PORT or HOST:PORT, with a port from 0 to {_PORT_MAX}")
    host = match["ipv6"] or match["host"] or _LOOPBACK
    if token is None:
        token = os.environ.get(TOKEN_VARIABLE)
    if token is not None and not _TOKEN.fullmatch(token):
        raise ConfigError("control-token: expected at least one character, of A-Z, a-z, 0-9 and -._~+/")
    if token is None and not is_loopback(host):
        raise ConfigError(
            f"control: others can connect to {host}: set a token by --control-token or the variable {TOKEN_VARIABLE}"
        )
    if any(find_spec(name) is None for name in _PACKAGES):
        raise MissingExtra("the control over HTTP", "control")
    return ControlOptions(host, int(match["port"]), token)


def is_loopback(host: str) -> bool:
    """Whether a host is the machine itself: `localhost` or a loopback address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
