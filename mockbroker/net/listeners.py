"""Where the nodes listen and what they tell clients to connect to, from Kafka's `listeners` configurations."""

from __future__ import annotations

from dataclasses import dataclass

from mockbroker.config import BrokerConfig, ConfigError
from mockbroker.security.rooms import protocols_of

#: The security protocols that a listener may speak.
_SERVED = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PORT_MAX = 65_535


@dataclass(frozen=True, slots=True)
class Listener:
    """One listener of the first node; node i adds i to the ports, unless they are 0.

    advertised_host, advertised_port: what clients are told; None for the address that is listened on.
    """

    name: str
    protocol: str
    host: str
    port: int
    advertised_host: str | None = None
    advertised_port: int | None = None

    @property
    def is_encrypted(self) -> bool:
        """Whether it speaks TLS."""
        return self.protocol.endswith("SSL")


def listeners_of(config: BrokerConfig, *, port: int | None = None) -> list[Listener]:
    """The listeners that a configuration asks for, or one on the loopback address.

    port: wins over the port of the first listener. Raises ConfigError for what cannot be read or is not served.
    """
    protocols = protocols_of(config)
    skipped = {name.upper() for name in config.names("controller.listener.names")}
    # Kafka's default is every address; a test broker that says nothing stays on loopback.
    given = config.names("listeners") if "listeners" in config.given else [f"PLAINTEXT://127.0.0.1:{port or 0}"]
    advertised = {
        name: (host, number) for name, host, number in (_address(text) for text in config.names("advertised.listeners"))
    }
    found: list[Listener] = []
    for text in given:
        name, host, number = _address(text)
        if name in skipped:
            continue
        protocol = protocols.get(name, name)
        if protocol not in _SERVED:
            raise ConfigError(f"listeners: {text!r} speaks {protocol}; these are known: {', '.join(_SERVED)}")
        if not found and port is not None:
            number = port
        shown = advertised.get(name)
        # Kafka takes no host for every address; here a wildcard has to be written out.
        found.append(Listener(name, protocol, host or "127.0.0.1", number, *(shown or (None, None))))
        if protocol.startswith("SASL_"):
            from mockbroker.security.sasl_config import sasl_listener

            sasl_listener(config, name)  # What is wrong with it is told before anything listens.
    if not found:
        raise ConfigError(f"listeners: {given} has no listener for clients")
    return found


def _address(text: str) -> tuple[str, str, int]:
    name, separator, rest = text.strip().partition("://")
    host, colon, port = rest.rpartition(":")
    if not separator or not colon or not port.isdigit() or int(port) > _PORT_MAX:
        raise ConfigError(f"listeners: {text!r} is not of the form NAME://HOST:PORT")
    return name.upper(), host.strip("[]"), int(port)
