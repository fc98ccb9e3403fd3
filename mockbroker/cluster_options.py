"""Options that `mockbroker.Cluster`, the command and the proxy share; what they need is imported if they are given."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mockbroker.config.broker_config import BrokerConfig, ConfigError
from mockbroker.config.plugins import NO_OP_PERSISTER
from mockbroker.config.replication import VERSIONS
from mockbroker.net.listeners import parse_advertised

if TYPE_CHECKING:
    from pathlib import Path

    from mockbroker.config.config_dialect import ConfigDialect
    from mockbroker.config.kafka_versions import ApiLimits, VersionsOption
    from mockbroker.config.node_options import NodeOptions, NodeProperties, NodeVersions
    from mockbroker.control.options import ControlOptions
    from mockbroker.security.client_security import ClientSecurity
    from mockbroker.storage_options import StorageOptions

#: Where share groups store their state: as the edition specifies, nowhere, or in the log of the topic-partition itself.
SHARE_PERSISTERS = ("default", "no-op", "control-records")


def load_nodes(
    config: BrokerConfig, versions: NodeVersions | None, properties: NodeProperties, share_edition: str | None
) -> tuple[ApiLimits | None, NodeOptions | None]:
    """The API versions of an older broker, and what single nodes have of their own; None for nothing of it.

    versions: by the id of a node, or of all. Raises: ConfigError.
    """
    if versions is None and not properties and VERSIONS not in config.given:
        return None, None
    from mockbroker.config.node_options import parse_node_options, split_versions

    of_all, by_node = split_versions(versions, config)
    for node_id, given in by_node.items():
        if load_versions(given, share_edition) is None:
            raise ConfigError(f"versions: node {node_id} has none; leave it out")
    has_options = bool(by_node or properties)
    options = parse_node_options(config, properties, by_node) if has_options else None
    return load_versions(of_all, share_edition), options


#: The maximum time that clients may take at the end, milliseconds.
_STOP_GRACE_MS_MAX = 3_600_000
STOP_GRACE_HELP = "at the end, how long clients may take to read their last answers before they are cut off (default 1)"


def parse_stop_grace(seconds: float) -> int:
    """The time that clients have at the end, in milliseconds. Raises: ConfigError for less than 0 or more than 1 h."""
    return check_stop_grace(round(seconds * 1000)) if math.isfinite(seconds) else check_stop_grace(-1)


def check_stop_grace(grace_ms: int) -> int:
    """The time that clients have at the end, in milliseconds. Raises: ConfigError for less than 0 or more than 1 h."""
    is_number = isinstance(grace_ms, int) and not isinstance(grace_ms, bool)
    if not is_number or not 0 <= grace_ms <= _STOP_GRACE_MS_MAX:
        raise ConfigError(f"stop-grace: {grace_ms!r} ms; expected a number from 0 to {_STOP_GRACE_MS_MAX}")
    return grace_ms


def check_edition(share_edition: str | None) -> None:
    """Refuse an edition that does not exist; without one nothing is loaded. Raises: ConfigError."""
    if share_edition is not None:
        from mockbroker.editions import load_edition

        load_edition(share_edition)


def load_versions(versions: VersionsOption | None, share_edition: str | None) -> ApiLimits | None:
    """The API versions of an older broker, None for those of the release. Raises: ConfigError."""
    if versions is None:
        return None
    from mockbroker.config.kafka_versions import parse_versions

    limits = parse_versions(versions)
    if limits.is_complete and share_edition is not None:
        raise ConfigError(f"versions: {versions!r} has no share edition; leave one of both out")
    return limits


def create_security(
    tls: str | None, sasl: str | None, advertised: str | None, data_dir: str | Path | None = None
) -> ClientSecurity | None:
    """The security of a cluster's listener, None for a plain one, which loads no module for it.

    data_dir: keeps the authority of `tls`. Raises: as ClientSecurity, and for a wrong address.
    """
    if tls is None and sasl is None:
        return None
    from pathlib import Path

    from mockbroker.security.client_security import ClientSecurity

    host = None if advertised is None else parse_advertised(advertised)[0]
    kept_folder = Path(data_dir, "tls").absolute() if data_dir else None
    return ClientSecurity(tls=tls, sasl=sasl, host=host, kept_folder=kept_folder)


def refuse_own_listeners(config: BrokerConfig) -> None:
    """Refuse `listeners` beside `tls` or `sasl`, which define the listener. Raises: ConfigError."""
    if "listeners" in config.given:
        raise ConfigError("listeners: given beside tls or sasl, which set the listener; give one of them")


def persister_settings(share_persister: str) -> list[str]:
    """The broker configuration of a share persister. Raises: ConfigError for an unknown one."""
    if share_persister not in SHARE_PERSISTERS:
        raise ConfigError(f"share-persister: {share_persister!r} is not one of {', '.join(SHARE_PERSISTERS)}")
    return [f"group.share.persister.class.name={NO_OP_PERSISTER}"] if share_persister == "no-op" else []


def parse_storage_options(
    data_dir: str | Path | None, *, fsync: bool, repair: bool, share_edition: str | None, share_persister: str
) -> StorageOptions | None:
    """Where a cluster stores its logs, None for a cluster in memory. Raises: ConfigError for contradictions."""
    if data_dir is None:
        for name, is_given in (("fsync", fsync), ("repair", repair)):
            if is_given:
                raise ConfigError(f"{name}: given without data-dir, which it is for")
        return None
    if share_edition is not None:
        raise ConfigError(f"data-dir: the share edition {share_edition!r} cannot be stored; leave one of both out")
    if share_persister == "control-records":
        raise ConfigError("data-dir: the share persister 'control-records' cannot be stored; leave one of both out")
    if not str(data_dir):
        raise ConfigError("data-dir: the path is empty")
    from pathlib import Path

    from mockbroker.storage_options import StorageOptions

    return StorageOptions(Path(data_dir), fsync=fsync, repair=repair)


def config_dialect(share_edition: str | None) -> ConfigDialect | None:
    """The configuration names of an edition of KIP-932; None if they are the released ones."""
    if share_edition is None:
        return None
    from mockbroker.editions.configs import config_dialect

    return config_dialect(share_edition)


def parse_control_options(address: int | str | None, token: str | None) -> ControlOptions | None:
    """The options of the control over HTTP, None without it, which loads no module for it.

    Raises: ConfigError for an invalid address or token, and for a token without an address.
    """
    if address is None:
        if token is not None:
            raise ConfigError("control-token: given without control, which it is for")
        return None
    from mockbroker.control.options import parse_control

    return parse_control(address, token)
