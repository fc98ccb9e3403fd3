"""Bootstrap lists: `host:port[,host:port]`, with IPv6 addresses in brackets."""

from __future__ import annotations

from typing import NamedTuple


class Address(NamedTuple):
    """Host and port of a broker."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_bootstrap(bootstrap: str) -> list[Address]:
    """The addresses of a bootstrap list, in its order. Raises: ValueError naming the text that is not an address."""
    addresses = [_parse_address(part.strip()) for part in bootstrap.split(",") if part.strip()]
    if not addresses:
        raise ValueError(f"{bootstrap!r} names no broker, expected HOST:PORT[,HOST:PORT]")
    return addresses


def _parse_address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536 or (":" in host) != bracketed:
        raise ValueError(f"{text!r} is not HOST:PORT (an IPv6 address needs brackets: [::1]:9092)")
    return Address(host.strip("[]"), int(port))
