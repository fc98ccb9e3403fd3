"""What brokers and coordinators of a cluster share: metadata, configuration, randomness, the inter-broker channel."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from mockbroker.cluster_services.broker_storage import BrokerStorage
from mockbroker.state.release import Release
from mockbroker.state.share.share_rules import ShareRules
from mockbroker.state.timers import EarliestDeadline

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from mockbroker.cluster_services.edition_records import EditionRecords
    from mockbroker.cluster_services.inter_broker import InterBrokerChannel
    from mockbroker.config.broker_config import BrokerConfig
    from mockbroker.state.metadata.cluster_image import ClusterImage
    from mockbroker.state.metadata.configs import Configs
    from mockbroker.state.security.authorizer import Authorizer

N_co = TypeVar("N_co", covariant=True)
#: What a parked request waits for, as a tuple of plain values: ("log", topic_id, 0), ("share", "g", topic_id, 0).
WakeKey = tuple[Hashable, ...]


class ClusterServices(msgspec.Struct, Generic[N_co], kw_only=True):
    """The part of the cluster's state that brokers and coordinators use. N_co: what they require of another broker.

    features: finalized levels by name. wake: resumes the requests that wait for a key, after the current handler.
    release: what the release of Kafka specifies. rules: what it specifies for share groups, or the edition of KIP-932
    in its place. edition_records: its record formats, None for those of the released edition. earliest_deadline: of
    all components but `inter_broker`. node_configs: of nodes with properties of their own. group_listeners: called with
    the id of a group after its coordinator has written records of it, offsets left out.
    """

    config: BrokerConfig
    configs: Configs
    metadata: ClusterImage
    features: dict[str, int]
    inter_broker: InterBrokerChannel[N_co]
    rng: random.Random
    wake: Callable[[WakeKey], None]
    release: Release
    rules: ShareRules
    edition_records: EditionRecords | None = None
    authorizer: Authorizer | None = None
    broker_storage: BrokerStorage = msgspec.field(default_factory=BrokerStorage)
    earliest_deadline: EarliestDeadline = msgspec.field(default_factory=EarliestDeadline)
    node_configs: dict[int, BrokerConfig] = msgspec.field(default_factory=dict)
    group_listeners: list[Callable[[str], None]] = msgspec.field(default_factory=list)

    def node_config(self, node_id: int) -> BrokerConfig:
        """The static configuration of a node."""
        return self.node_configs.get(node_id, self.config)
