"""`mockbroker.Cluster`: a cluster for tests and programs, in its own thread and event loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mockbroker.cluster_methods.faults import load_faults
from mockbroker.cluster_methods.methods import ClusterMethods
from mockbroker.cluster_options import (
    check_edition,
    check_stop_grace,
    config_dialect,
    create_security,
    load_nodes,
    parse_control_options,
    parse_storage_options,
    persister_settings,
    refuse_own_listeners,
)
from mockbroker.config.broker_config import BrokerConfig, ConfigError
from mockbroker.config.memory_limit import parse_memory_limit
from mockbroker.config.profiles import DEFAULT_PROFILE, profile_settings
from mockbroker.config.properties import format_value
from mockbroker.config.releases import choose_release
from mockbroker.controlled import Controlled
from mockbroker.net.listeners import check_node_count
from mockbroker.server_options import STOP_GRACE_MS, Options

if TYPE_CHECKING:
    from mockbroker.cluster_methods.faults import FaultSource
    from mockbroker.config.config_dialect import ConfigDialect
    from mockbroker.config.node_options import NodeProperties, NodeVersions
    from mockbroker.control.operations import ControlApi

__all__ = ["Cluster"]

Properties = Mapping[str, object] | str | Path


class Cluster(Controlled, ClusterMethods):
    """A Kafka cluster on loopback sockets, for as long as the `with` block lasts.

    nodes: the number of brokers, 1 by default, or those of data_dir; each has its own port. port: of the first, the
    others follow; 0: a free port for each.
    properties: Kafka's own broker configurations, as a mapping or as the path of a server.properties file.
    settings: more of them in the form "KEY=VALUE", which take precedence. features: "share.version=0" and the like.
    topics: name to partition count, or names of topics with one partition each; created before the first client
    connects. capture: a pcapng file to write.
    add_scram: initial users, each as "SCRAM-SHA-256=[name=alice,password=secret]", the format of `kafka-storage.sh`.
    seed: of all randomness in the cluster (topic ids, member ids, assignments); different each time when None.
    profile: of timers, "kafka" or "quick" (docs/mockbroker.md). release: of Kafka, "4.4" or "4.3" (docs/releases.md).
    share_edition: other share groups than the release has, "4.0-early-access" or a revision of KIP-932, "kip932-r1" to
    "kip932-r5" (docs/kip-932.md); all else is of 4.3.
    versions: API versions as of an older Kafka, "2.8", or at most by the name of each API, {"Produce": 8}
    (docs/mockbroker.md); of single nodes {0: "2.8"}. node_properties: properties of single nodes, by their ids.
    host: where the nodes listen, 127.0.0.1 by default. advertised: the address that clients are given, "HOST" or
    "HOST:PORT", the port of the first node.
    tls: "auto" makes certificates. sasl: a user, "SCRAM-SHA-512 alice:secret". `client_settings` has what clients need.
    share_persister: where share groups store their state: "default" as in the edition, "no-op" nowhere,
    "control-records" in the log of the topic-partition itself.
    control: the port of the control over HTTP, or "HOST:PORT", 0 for a free one; its URL is `control_url`
    (docs/control.md). control_token: that its requests need.
    faults: added at the start, each as a `Fault` or in its JSON form, or the path of a JSON file (docs/faults.md).
    memory_limit: of the logs together, in bytes or as "512MiB"; half of the machine's memory by default, "none" for no
    limit. controller_port: of a listener of the controller itself, 0 for a free one; `bootstrap_controllers` has its
    address.
    data_dir: a folder in which everything is stored; the next cluster there goes on from it (docs/mockbroker.md).
    fsync: acknowledge what is on the disk. repair: cut logs at damage instead of refusing to start.
    stop_grace_ms: how long clients may take to read their last answers when it stops, milliseconds of the wall clock;
    then their connections are aborted.
    Raises: ConfigError for a wrong configuration, FaultError for a wrong fault, OSError if an address is in use.

    Works as a sync and as an async context manager.
    """

    def __init__(
        self,
        *,
        nodes: int | None = None,
        port: int | None = None,
        properties: Properties | None = None,
        settings: Iterable[str] = (),
        features: Iterable[str] = (),
        topics: Mapping[str, int] | Iterable[str] | None = None,
        capture: str | Path | None = None,
        add_scram: Iterable[str] = (),
        seed: int | None = None,
        profile: str = DEFAULT_PROFILE,
        release: str | None = None,
        share_edition: str | None = None,
        share_persister: str = "default",
        faults: FaultSource = (),
        tls: str | None = None,
        sasl: str | None = None,
        versions: NodeVersions | None = None,
        node_properties: NodeProperties | None = None,
        control: int | str | None = None,
        control_token: str | None = None,
        host: str | None = None,
        advertised: str | None = None,
        memory_limit: int | str | None = None,
        controller_port: int | None = None,
        data_dir: str | Path | None = None,
        fsync: bool = False,
        repair: bool = False,
        stop_grace_ms: int = STOP_GRACE_MS,
    ) -> None:
        control_options = parse_control_options(control, control_token)
        check_edition(share_edition)
        parse = partial(_config, release=choose_release(release, share_edition), dialect=config_dialect(share_edition))
        settings = [*settings, *persister_settings(share_persister)]
        security = create_security(tls, sasl, advertised, data_dir)
        if security is not None:
            refuse_own_listeners(parse(properties, settings))
            settings = [*security.broker_settings(), *settings]
            add_scram = [*security.scram_users(), *add_scram]
        config = parse(properties, settings).with_settings(profile_settings(profile))
        limits, node_options = load_nodes(config, versions, node_properties or {}, share_edition)
        options = Options(
            nodes=None if nodes is None else check_node_count(nodes),
            port=port,
            config=config,
            features=tuple(features),
            topics=partition_counts(topics or {}),
            capture=None if capture is None else Path(capture),
            seed=seed,
            add_scram=tuple(add_scram),
            share_edition=share_edition,
            share_persister=share_persister,
            faults=load_faults(faults),
            security=security,
            versions=limits,
            node_options=node_options,
            profile=profile,
            host=host,
            advertised=advertised,
            memory_limit=parse_memory_limit(memory_limit),
            controller_port=controller_port,
            storage=parse_storage_options(
                data_dir, fsync=fsync, repair=repair, share_edition=share_edition, share_persister=share_persister
            ),
            stop_grace_ms=check_stop_grace(stop_grace_ms),
        )
        super().__init__(options, control_options, _load_control_api)
        _warn_of_unknown(options.config)

    def __repr__(self) -> str:
        addresses = self._running().bootstrap() if self._thread is not None else "not running"
        return f"<mockbroker.Cluster: {addresses}>"


def _warn_of_unknown(config: BrokerConfig) -> None:
    """Warn the caller of `Cluster` of configurations that Kafka does not know: a typo has no effect otherwise."""
    if not config.unknown:
        return
    import warnings

    from mockbroker.log.config_log import suggest_known

    text = f"configurations unknown to Kafka {config.release}, ignored: {', '.join(suggest_known(config))}"
    warnings.warn(text, stacklevel=3)


def _load_control_api() -> ControlApi:
    from mockbroker.control.routes import CLUSTER_API

    return CLUSTER_API


def partition_counts(topics: Mapping[str, int] | Iterable[str]) -> dict[str, int]:
    """The topics to create, with their numbers of partitions: 1 for topics without one.

    Raises: ConfigError for anything but names and numbers from 1 on.
    """
    if isinstance(topics, str):
        raise ConfigError(f"topics: {topics!r} is one text; expected names with partition counts, or a list of names")
    counts = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)
    for name, count in counts.items():
        if not isinstance(name, str) or not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise ConfigError(f"topics: {name!r}: {count!r}; expected a name and a number of partitions from 1 on")
    return counts


def _config(
    properties: Properties | None, settings: Iterable[str], release: str, dialect: ConfigDialect | None
) -> BrokerConfig:
    text, lines = "", []
    if isinstance(properties, str | Path):
        text = Path(properties).read_text(encoding="utf-8")
    else:
        lines = [f"{name}={format_value(name, value)}" for name, value in (properties or {}).items()]
    return BrokerConfig.from_properties(text, [*lines, *settings], release=release, dialect=dialect)
