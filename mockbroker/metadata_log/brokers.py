"""Registrations of brokers as records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from kwire.records.metadata.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from mockbroker.metadata_log.tables import Message, MetadataLogError
from mockbroker.metadata_log.versions import with_version
from mockbroker.state.metadata.feature_levels import METADATA_VERSION

if TYPE_CHECKING:
    from mockbroker.broker.cluster_state import ClusterState
    from mockbroker.broker.node import Node
    from mockbroker.metadata_log.image import MetadataImage

#: The numbers of Kafka's SecurityProtocol.
_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
#: The epoch of a new registration, until the offset of its record is known.
NEW_EPOCH = -1


class BrokerRuns:
    """The ids of the runs of brokers: a broker that was started again has another one. new_id: makes an id."""

    def __init__(self, new_id: Callable[[], bytes]) -> None:
        self._new_id = new_id
        self._runs: dict[int, tuple[Node, bytes]] = {}

    def incarnation_of(self, node: Node) -> bytes:
        """The id of this run of a broker."""
        known = self._runs.get(node.node_id)
        if known is None or known[0] is not node:
            known = self._runs[node.node_id] = (node, self._new_id())
        return known[1]


def describe_brokers(
    state: ClusterState, previous: MetadataImage, runs: BrokerRuns, directory_of: Callable[[int], bytes]
) -> Iterator[RegisterBrokerRecord]:
    """The registered brokers, those that are down included.

    A registration that differs from the previous one by more than a BrokerRegistrationChangeRecord can say is a new
    one, whose epoch is not known yet.
    """
    level = state.features.get(METADATA_VERSION, 0)
    for node_id in state.metadata.node_ids:
        before = previous.tables[RegisterBrokerRecord].get(node_id)
        node = _find_node(state, node_id)
        if node is None:
            if before is not None:
                yield before
            continue
        directory = directory_of(node_id)
        record: Message = RegisterBrokerRecord(
            broker_id=node_id,
            incarnation_id=runs.incarnation_of(node),
            broker_epoch=before.broker_epoch if before else NEW_EPOCH,
            end_points=_end_points(state, node),
            features=_features(state.features_of(node_id).levels),
            rack=node.rack,
            fenced=node_id in state.metadata.fenced,
            in_controlled_shutdown=node_id in state.metadata.in_controlled_shutdown,
            log_dirs=(directory,),
            cordoned_log_dirs=(directory,) if is_cordoned(state, node) else (),
        )
        record = with_version(record, level).message
        if before is not None and is_new_registration(before, record):
            record.broker_epoch = NEW_EPOCH
        yield record


def is_cordoned(state: ClusterState, node: Node) -> bool:
    """Whether the directory of a node accepts no new logs (KIP-1066)."""
    names = state.configs.broker(node.node_id)["cordoned.log.dirs"]
    # Reading the paths loads their module.
    return isinstance(names, list) and bool(names) and ("*" in names or node.log_dirs.paths[0] in names)


def is_new_registration(before: RegisterBrokerRecord, after: RegisterBrokerRecord) -> bool:
    """Whether two registrations differ by more than what a BrokerRegistrationChangeRecord changes."""
    names = ("incarnation_id", "end_points", "features", "rack", "log_dirs")
    return any(getattr(before, name) != getattr(after, name) for name in names)


def stored_broker_ids(image: MetadataImage) -> tuple[int, ...]:
    """The ids of the registered brokers, ascending. Raises: MetadataLogError when there is none."""
    if not image.tables[RegisterBrokerRecord]:
        raise MetadataLogError("the metadata log has no registered broker")
    return tuple(sorted(image.tables[RegisterBrokerRecord]))


def _find_node(state: ClusterState, node_id: int) -> Node | None:
    node = state.nodes.get(node_id) or state.inter_broker.nodes.get(node_id)
    if node is None and state.controller is not None:
        node = state.controller.fenced.get(node_id)
    return node


def _end_points(state: ClusterState, node: Node) -> list[BrokerEndpoint]:
    points = []
    for listener in node.listener_names():
        host, port = node.endpoint(listener)
        points.append(BrokerEndpoint(listener, host, port, _PROTOCOLS[state.security.security_protocol(listener)]))
    return points


def _features(levels: Mapping[str, tuple[int, int]]) -> list[BrokerFeature]:
    return [BrokerFeature(name, low, high) for name, (low, high) in levels.items()]
