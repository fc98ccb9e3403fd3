"""Steps that several tests with librdkafka's clients share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from mockbroker import Cluster

PATIENCE_S = 40.0
#: librdkafka logs every broken connection; in these tests the broker often closes first.
QUIET = {"log_level": 0}


def share_from_earliest(settings: Mapping[str, Any], group: str) -> None:
    """Let a share group start at the earliest offset, by an admin client with these settings."""
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    admin = AdminClient(dict(settings))  # The client is closed when its last reference is deleted.
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(PATIENCE_S)


def share_consumer(cluster: Cluster, group: str, *, explicit: bool) -> ShareConsumer:
    """A share consumer of the topic "orders", from the earliest offset."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, **QUIET}
    share_from_earliest(settings, group)
    mode = "explicit" if explicit else "implicit"
    consumer = ShareConsumer({**settings, "group.id": group, "share.acknowledgement.mode": mode})
    consumer.subscribe(["orders"])
    return consumer
