"""Listeners from Kafka's `listeners` configurations: where nodes listen, and the addresses that they advertise."""

from __future__ import annotations

import re

import msgspec
from msgspec.structs import replace

from mockbroker.config.broker_config import BrokerConfig, ConfigError
from mockbroker.security.state import parse_security_protocols

#: The supported security protocols.
_SUPPORTED_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PORT_MAX = 65_535
_ADVERTISED = r"(?:(?P<host>[A-Za-z0-9._-]+)|\[(?P<address>[0-9A-Fa-f:.]+)\])(?::(?P<port>[0-9]{1,5}))?"
#: The maximum number of nodes of a cluster: each has listeners of its own.
NODES_MAX = 100


class Listener(msgspec.Struct, frozen=True):
    """One listener of the first node; node i adds i to the ports, unless they are 0.

    advertised_host, advertised_port: as in Metadata responses; None for the bound address. is_controller: whether
    only the first node has it, for requests to the controller (KIP-919).
    """

    name: str
    protocol: str
    host: str
    port: int
    advertised_host: str | None = None
    advertised_port: int | None = None
    is_controller: bool = False

    @property
    def is_encrypted(self) -> bool:
        """Whether its connections use TLS."""
        return self.protocol.endswith("SSL")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        if self.host in ("127.0.0.1", "localhost"):
            return True
        import ipaddress

        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def check_node_count(nodes: int) -> int:
    """The number of nodes of a cluster. Raises: ConfigError for one that it cannot have."""
    if not 1 <= nodes <= NODES_MAX:
        raise ConfigError(f"nodes: {nodes}; a cluster has 1 to {NODES_MAX} nodes")
    return nodes


def node_port(port: int, index: int) -> int:
    """The port of a node whose first listener has this one: 0 stays 0. Raises: ConfigError above 65535."""
    if port and port + index > _PORT_MAX:
        raise ConfigError(f"port: node {index} of {index + 1} would listen on {port + index}")
    return port + index if port else 0


def parse_listeners(config: BrokerConfig, *, port: int | None = None, node_count: int = 1) -> list[Listener]:
    """The listeners of a configuration, or one on the loopback address if it has none.

    port: overrides the port of the first listener. node_count: how many nodes have these listeners.
    Raises: ConfigError for an invalid or unsupported listener, and for a port that a node cannot have.
    """
    if port is not None and not 0 <= port <= _PORT_MAX:
        raise ConfigError(f"port: {port} is not between 0 and {_PORT_MAX}")
    protocols = parse_security_protocols(config)
    skipped = {name.upper() for name in config.strings("controller.listener.names")}
    # Kafka's default is every address; a test broker without configuration listens only on loopback.
    texts = config.strings("listeners") if "listeners" in config.given else [f"PLAINTEXT://127.0.0.1:{port or 0}"]
    addresses = map(_parse_address, config.strings("advertised.listeners"))
    advertised = {name: (host, number) for name, host, number in addresses}
    listeners: list[Listener] = []
    for text in texts:
        name, host, number = _parse_address(text)
        if name in skipped:
            continue
        protocol = protocols.get(name, name)
        if protocol not in _SUPPORTED_PROTOCOLS:
            supported = ", ".join(_SUPPORTED_PROTOCOLS)
            raise ConfigError(f"listeners: {text!r} has the protocol {protocol}; supported are: {supported}")
        if not listeners and port is not None:
            number = port
        node_port(number, node_count - 1)
        # In Kafka no host means every address; here a wildcard must be written explicitly.
        advertised_host, advertised_port = advertised.get(name, (None, None))
        listeners.append(Listener(name, protocol, host or "127.0.0.1", number, advertised_host, advertised_port))
        config.for_listener(name)  # Raises configuration errors before anything listens.
        if protocol.startswith("SASL_"):
            from mockbroker.security.sasl_config import sasl_listener

            sasl_listener(config, name)  # As well.
    if not listeners:
        raise ConfigError(f"listeners: {texts} has no listener for clients")
    return listeners


def controller_listener(config: BrokerConfig, port: int) -> Listener:
    """The listener of the controller on the loopback address, with the name and protocol of the configuration.

    port: 0 for any free one. Raises: ConfigError for a port or protocol that there is not.
    """
    if not 0 <= port <= _PORT_MAX:
        raise ConfigError(f"controller_port: {port} is not between 0 and {_PORT_MAX}")
    name = config.strings("controller.listener.names")[0].upper()
    protocol = parse_security_protocols(config)[name]
    if protocol not in _SUPPORTED_PROTOCOLS:
        supported = ", ".join(_SUPPORTED_PROTOCOLS)
        raise ConfigError(f"controller.listener.names: {name} has the protocol {protocol}; supported are: {supported}")
    if protocol.startswith("SASL_"):
        from mockbroker.security.sasl_config import sasl_listener

        sasl_listener(config, name)
    return Listener(name, protocol, "127.0.0.1", port, is_controller=True)


def place_listeners(
    listeners: list[Listener], *, host: str | None, advertised: str | None, node_count: int
) -> list[Listener]:
    """The listeners at another host, and with the address that clients are given instead; None: as they are.

    advertised: "HOST" or "HOST:PORT", the port of the first node, which the others follow.
    Raises: ConfigError for anything else, and for a port that a node or another listener cannot have.
    """
    if host is not None:
        if not host or host.isspace() or "://" in host:
            raise ConfigError(f"host: {host!r} is no host name or address")
        listeners = [replace(listener, host=host.strip("[]")) for listener in listeners]
    if advertised is None:
        return listeners
    name, port = parse_advertised(advertised)
    if port is not None:
        if len(listeners) > 1:
            raise ConfigError(f"advertised: {advertised!r} has a port; of {len(listeners)} listeners each has its own")
        node_port(port, node_count - 1)
    return [replace(listener, advertised_host=name, advertised_port=port) for listener in listeners]


def parse_advertised(text: str) -> tuple[str, int | None]:
    """The host and the port, None if there is none, of "HOST" or "HOST:PORT". Raises: ConfigError for anything else."""
    match = re.fullmatch(_ADVERTISED, text)
    if match is None or (match["port"] is not None and not 1 <= int(match["port"]) <= _PORT_MAX):
        raise ConfigError(f"advertised: {text!r} is not of the form HOST or HOST:PORT")
    return match["host"] or match["address"], None if match["port"] is None else int(match["port"])


def _parse_address(text: str) -> tuple[str, str, int]:
    name, separator, rest = text.strip().partition("://")
    host, colon, port = rest.rpartition(":")
    if not separator or not colon or not port.isdigit() or int(port) > _PORT_MAX:
        raise ConfigError(f"listeners: {text!r} is not of the form NAME://HOST:PORT")
    return name.upper(), host.strip("[]"), int(port)
