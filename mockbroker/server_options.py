"""`Options`: the options of a cluster, as the command and `mockbroker.Cluster` have parsed them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import msgspec

from mockbroker.config.broker_config import BrokerConfig
from mockbroker.config.profiles import DEFAULT_PROFILE

if TYPE_CHECKING:
    from pathlib import Path

    from mockbroker.config.features import FeatureSupport
    from mockbroker.config.kafka_versions import ApiLimits
    from mockbroker.config.node_options import NodeOptions
    from mockbroker.faults.cluster_model import ClusterFault
    from mockbroker.faults.model import Fault
    from mockbroker.security.client_security import ClientSecurity
    from mockbroker.storage_options import StorageOptions

#: How long clients may take to read their last answers when a cluster stops, milliseconds.
STOP_GRACE_MS = 1_000


class Options(msgspec.Struct, frozen=True):
    """The options of a cluster.

    nodes: None for as many as are stored, 1 without. port: of the first listener of node 0, node i adds i; 0: a free
    port for each; None: as in `listeners`.
    topics: name to partition count, created before the first client connects. seed: of all randomness in the cluster.
    share_edition: of KIP-932, None for that of the release. share_persister: where share groups store their state.
    add_scram: initial users, in the format of `kafka-storage.sh`; they contain passwords. faults: added at the start.
    versions: the API versions of an older broker. node_options: what single nodes have of their own, None for nothing.
    host: where the nodes listen. advertised: the address that clients are given, "HOST" or "HOST:PORT".
    chaos: a profile of faults, and its seed. security: TLS and SASL in one word each; its files exist as long as it.
    profile: of timers, which `config` has. memory_limit: bytes that the logs may take, None for no limit.
    controller_port: of the controller's own listener, 0: a free one, None: it has none. storage: None for a cluster in
    memory. stop_grace_ms: how long clients may take to read their last answers when it stops, of the wall clock.
    """

    nodes: int | None = None
    port: int | None = None
    config: BrokerConfig = msgspec.field(default_factory=BrokerConfig)
    features: tuple[str, ...] = ()
    topics: Mapping[str, int] = msgspec.field(default_factory=dict)
    capture: Path | None = None
    seed: int | None = None
    share_edition: str | None = None
    share_persister: str = "default"
    add_scram: tuple[str, ...] = ()
    faults: tuple[Fault | ClusterFault, ...] = ()
    chaos: tuple[str, int] | None = None
    versions: ApiLimits | None = None
    node_options: NodeOptions | None = None
    host: str | None = None
    advertised: str | None = None
    security: ClientSecurity | None = None
    profile: str = DEFAULT_PROFILE
    memory_limit: int | None = None
    controller_port: int | None = None
    storage: StorageOptions | None = None
    stop_grace_ms: int = STOP_GRACE_MS

    #: The fields with passwords or keys, which a text of the options leaves out.
    secret_fields: ClassVar[frozenset[str]] = frozenset({"add_scram", "security"})

    def limit_features(self, support: FeatureSupport) -> FeatureSupport:
        """The features that all nodes have, of which some may be of an older release."""
        for limits in (self.versions, *(self.node_options.versions if self.node_options else {}).values()):
            support = support if limits is None else limits.limit_features(support)
        return support

    def __repr__(self) -> str:
        """All fields but the secret ones."""
        shown = (name for name in self.__struct_fields__ if name not in self.secret_fields)
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"
