"""Which key stores may replace each other at a running listener. Source: Kafka's SslFactory, seen with 4.4.0."""

from __future__ import annotations

from mockbroker.config.broker_config import BrokerConfig, ConfigError
from mockbroker.security.distinguished_name import read_alternative_names, read_subject
from mockbroker.security.listener_stores import ListenerStores

_ALLOW_NAMES, _ALLOW_ALTERNATIVE_NAMES = "ssl.allow.dn.changes", "ssl.allow.san.changes"
#: The kind of an alternative name that is an address, and the sizes of addresses, bytes.
_IP, _IPV4_SIZE, _IPV6_SIZE = 7, 4, 16


def check_replacement(config: BrokerConfig, old: ListenerStores, new: ListenerStores) -> None:
    """Refuse a key store whose certificates have other names, and a first trust store.

    config: of the listener, from its start; ssl.allow.dn.changes and ssl.allow.san.changes allow other names.
    Raises: ConfigError.
    """
    for name, check in ((_ALLOW_NAMES, _check_subject), (_ALLOW_ALTERNATIVE_NAMES, _check_alternative_names)):
        if config.boolean(name):
            continue
        before, after = old.keys.certificates, new.keys.certificates
        if len(before) != len(after):
            raise ConfigError(f"ssl.keystore: {len(after)} entries instead of {len(before)}, and {name} is false")
        for (_, first), (alias, second) in zip(before, after, strict=True):
            try:
                check(alias, first, second)
            except (IndexError, StopIteration) as error:
                raise ConfigError(f"ssl.keystore: the certificate {alias!r} is damaged") from error
    if old.trusted is None and new.trusted is not None:
        raise ConfigError("ssl.truststore: a listener that was started without a trust store cannot get one")


def _check_subject(alias: str, old: bytes, new: bytes) -> None:
    before, after = read_subject(old), read_subject(new)
    if _normalize(before) != _normalize(after):
        raise ConfigError(
            f"ssl.keystore: the subject of {alias!r} is {after} instead of {before}, and {_ALLOW_NAMES} is false"
        )


def _check_alternative_names(alias: str, old: bytes, new: bytes) -> None:
    missing = read_alternative_names(old) - read_alternative_names(new)
    if missing:
        names = ", ".join(sorted(_format_name(kind, content) for kind, content in missing))
        raise ConfigError(
            f"ssl.keystore: the certificate {alias!r} is not for {names} any more, and "
            f"{_ALLOW_ALTERNATIVE_NAMES} is false"
        )


def _normalize(name: str) -> str:
    """A name as X.500 compares it: without regard to case and to the number of blanks."""
    return " ".join(name.casefold().split())


def _format_name(kind: int, content: bytes) -> str:
    if kind == _IP and len(content) in (_IPV4_SIZE, _IPV6_SIZE):
        import ipaddress

        return str(ipaddress.ip_address(content))
    return content.decode("ascii", "backslashreplace")
