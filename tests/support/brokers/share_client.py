"""A member of a share group over a socket, by the raw client: for tests that need one, not a real client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kwire import Client
from kwire.messages import share_acknowledge, share_fetch
from kwire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from mockbroker import Cluster

#: The type of a group among the resources that have configurations.
_GROUP = 32
ACCEPT, RELEASE, REJECT = 1, 2, 3


class ShareClient:
    """Joins a group, with a session for partition 0 of one topic at its leader, from the first record on."""

    def __init__(self, cluster: Cluster, group: str, topic: str, *, client_id: str) -> None:
        self._client = Client(cluster.bootstrap_servers, client_id=client_id)
        self._names: dict[str, Any] = {"group_id": group, "member_id": "member-1"}
        self._topic_id = next(id_ for id_, name in cluster.journal.topic_names.items() if name == topic)
        self._epoch = 0
        config = AlterableConfig(name="share.auto.offset.reset", value="earliest")
        resource = AlterConfigsResource(resource_type=_GROUP, resource_name=group, configs=[config])
        (answer,) = self._client.send(IncrementalAlterConfigsRequest(resources=[resource])).responses
        assert answer.error_code == 0
        heartbeat = ShareGroupHeartbeatRequest(**self._names, member_epoch=0, subscribed_topic_names=(topic,))
        assert self._client.send(heartbeat).error_code == 0

    def fetch(self, records_max: int) -> list[int]:
        """Acquire so many records at most, without waiting. Returns: their offsets."""
        topic = share_fetch.FetchTopic(topic_id=self._topic_id, partitions=[share_fetch.FetchPartition()])
        request = share_fetch.ShareFetchRequest(
            **self._names,
            share_session_epoch=self._next_epoch(),
            max_wait_ms=0,
            max_records=records_max,
            batch_size=max(records_max, 1),
            share_acquire_mode=1,
            topics=[topic] if self._epoch == 1 else [],
        )
        response = self._client.send(request)
        assert response.error_code == 0
        rows = [row for topic in response.responses for row in topic.partitions]
        spans = [(span.first_offset, span.last_offset + 1) for row in rows for span in row.acquired_records]
        return [offset for first, end in spans for offset in range(first, end)]

    def acknowledge(self, types: Mapping[int, int]) -> None:
        """Acknowledge records, each by its type."""
        batches = [
            share_acknowledge.AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=(kind,))
            for offset, kind in sorted(types.items())
        ]
        partition = share_acknowledge.AcknowledgePartition(acknowledgement_batches=batches)
        topic = share_acknowledge.AcknowledgeTopic(topic_id=self._topic_id, partitions=[partition])
        response = self._client.send(
            share_acknowledge.ShareAcknowledgeRequest(
                **self._names, share_session_epoch=self._next_epoch(), topics=[topic]
            )
        )
        assert response.error_code == 0

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _next_epoch(self) -> int:
        self._epoch += 1
        return self._epoch - 1
