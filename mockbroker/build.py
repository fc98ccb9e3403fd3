"""Put a cluster together: configuration and number of nodes in, a core ready for its first client out."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kwire import uuids
from mockbroker.calls import Calls
from mockbroker.config import BrokerConfig
from mockbroker.context import ClusterState
from mockbroker.core import Core
from mockbroker.handlers import ROUTES
from mockbroker.node import Node
from mockbroker.outcome import Key
from mockbroker.routes import Route
from mockbroker.security.authorize import authorizer_of
from mockbroker.security.rooms import Security
from mockbroker.state.configs import Configs
from mockbroker.state.feature_levels import SHARE_VERSION
from mockbroker.state.logs import LogStore
from mockbroker.state.metadata import Metadata
from mockbroker.state.share_rules import CONTROL_RECORDS_DEFAULTS, RELEASED, RELEASED_EDITION, ShareRules

if TYPE_CHECKING:
    from mockbroker.coordinators.edition_records import EditionRecords

_FIRST_VERSION_WITH_ELR = 1


def build_core(
    *,
    config: BrokerConfig,
    node_count: int,
    features: dict[str, int],
    topics: Mapping[str, int],
    rng: random.Random,
    now_ms: int,
    share_edition: str = RELEASED_EDITION,
    share_persister: str = "default",
) -> Core:
    """A cluster of `node_count` nodes, whose ids follow each other from `node.id` on.

    features: finalized levels by name. topics: name to partition count, made at once. share_edition: of KIP-932, the
    released one or another (`mockbroker/editions`). share_persister: "control-records" keeps the state of
    share-partitions in their own log.
    Raises: KafkaError for a topic that cannot be made, ConfigError for super users that are no principals, and for an
    edition that there is not.
    """
    routes, rules, records, defaults = _spoken(share_edition)
    config = config.with_defaults(defaults) if defaults else config
    if config.dialect is not None and not config.dialect.enables_share_groups(config.given):
        features = {name: level for name, level in features.items() if name != SHARE_VERSION}
    if share_persister == "control-records":
        rules = replace(rules, state_in_log=True)
    if rules.state_in_log:
        config = config.with_defaults(CONTROL_RECORDS_DEFAULTS)
    first_id = config.integer("node.id")
    node_ids = range(first_id, first_id + node_count)
    metadata = Metadata(node_ids, config, rng, is_cold=config.is_cold)
    has_elr = features.get("eligible.leader.replicas.version", 0) >= _FIRST_VERSION_WITH_ELR
    configs = Configs(config, elr=has_elr, group_names=rules.group_configs, compacts_states=rules.compacts_states)
    configs.follow(metadata)
    nodes: dict[int, Node] = {}
    running: dict[int, Node] = {}

    def wake(key: Key) -> None:
        core.wake(key)

    state = ClusterState(
        cluster_id=uuids.to_text(rng.randbytes(16)),
        config=config,
        configs=configs,
        metadata=metadata,
        features=features,
        nodes=nodes,
        calls=Calls(running),
        rng=rng,
        wake=wake,
        routes=routes,
        rules=rules,
        records=records,
        security=Security(config, rng),
        authorizer=authorizer_of(config),
    )
    state.store = store = LogStore(metadata, configs, wake, started_ms=now_ms)
    rack = config.string("broker.rack")

    def make_node(node_id: int) -> Node:
        return Node(node_id, state, store, rack=rack)

    core = Core(state, make_node, now_ms=now_ms)
    for node_id in node_ids:
        nodes[node_id] = running[node_id] = make_node(node_id)
    for name, count in topics.items():
        core.create_topic(name, count)
    return core


def _spoken(
    share_edition: str,
) -> tuple[Mapping[int, Route], ShareRules, EditionRecords | None, Mapping[str, str]]:
    """The APIs, rules, records and defaults of an edition. Whoever asks for none does not wait for the others."""
    if share_edition == RELEASED_EDITION:
        return ROUTES, RELEASED, None, {}
    from mockbroker.editions import edition_of

    edition = edition_of(share_edition)
    return edition.routes, edition.rules, edition.records, edition.defaults
