"""What a request is about, read once for all faults: its client, and the topics, groups and members that it names."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from mockbroker.faults.api_fields import api_fields, selector_values
from mockbroker.journal.named_topics import NamedTopic, read_topics

if TYPE_CHECKING:
    from mockbroker.broker.cluster_state import ClusterState
    from mockbroker.engine.active_request import ActiveRequest


#: The APIs whose requests are about all topics if they list none, with what that is.
_LISTING_APIS: dict[str, object] = {"Metadata": None, "DescribeTopicPartitions": []}


class RequestFacts:
    """A request and what it names. The values of a fetch include those of its session."""

    def __init__(self, request: ActiveRequest, state: ClusterState) -> None:
        self.active = request
        self.info = request.connection.info
        self.incoming = request.incoming
        self._state = state

    @property
    def names_all_topics(self) -> bool:
        """Whether the request is about all topics, and so lists none: Metadata with null, DescribeTopicPartitions."""
        none = _LISTING_APIS.get(self.incoming.api_name, ())
        return none != () and getattr(self.incoming.handler_request, "topics", ()) == none

    @cached_property
    def topics(self) -> tuple[NamedTopic, ...]:
        """The topics that the request names, with their names and ids where the cluster has them."""
        if self.names_all_topics:
            return tuple(
                NamedTopic(topic.name, topic.topic_id, tuple(partition.index for partition in topic.partitions))
                for topic in self._state.metadata.topics()
            )
        named = (*read_topics(self.incoming.handler_request, self._resolve), *self._session_topics())
        if api_fields(self.incoming.api_name).has_response_partitions:
            return tuple(topic._replace(partitions=self._partitions_of(topic)) for topic in named)
        return named

    @property
    def topic_names(self) -> tuple[str | None, ...]:
        """The names of these topics; None for an id that the cluster does not have."""
        return tuple(topic.name for topic in self.topics)

    @property
    def subject(self) -> str:
        """The request as text, for messages: API, version, client and node."""
        incoming, info = self.incoming, self.info
        client = f"client {incoming.client_id!r}" if incoming.client_id else f"{info.host}:{info.port}"
        return f"{incoming.api_name} v{incoming.api_version} of {client} to node {info.node_id}"

    def selector(self, name: str) -> list[object]:
        """The groups, members or transactional ids that the request names."""
        return selector_values(self.incoming.handler_request, name)

    def _resolve(self, name: str | None, topic_id: bytes | None) -> tuple[str | None, bytes | None]:
        metadata = self._state.metadata
        topic = metadata.topic_by_id(topic_id) if topic_id else metadata.topic(name) if name else None
        return (name, topic_id) if topic is None else (topic.name, topic.topic_id)

    def _partitions_of(self, named: NamedTopic) -> tuple[int, ...]:
        """The partitions of a topic that the cluster has, which the response to a request for the topic names."""
        topic = self._state.metadata.topic(named.name) if named.name is not None else None
        return () if topic is None else tuple(partition.index for partition in topic.partitions)

    def _session_topics(self) -> list[NamedTopic]:
        """The partitions of the session that a Fetch or ShareFetch continues."""
        request, node = self.incoming.handler_request, self._state.inter_broker.nodes.get(self.info.node_id)
        if node is None:
            return []
        if "session_id" in type(request).__struct_fields__ and "fetch_sessions" in node.__dict__:
            session = node.fetch_sessions.get(getattr(request, "session_id", 0))
            keys = [] if session is None else list(session.partitions)
            return [NamedTopic(*self._resolve(*_name_and_id(topic)), (index,)) for topic, index in keys]
        if "share_session_epoch" in type(request).__struct_fields__ and node.is_loaded("share_sessions"):
            group_id, member_id = getattr(request, "group_id", None), getattr(request, "member_id", None)
            share_session = node.share_sessions.get(group_id or "", member_id or "")
            keys_of_session = [] if share_session is None else list(share_session.partitions)
            return [NamedTopic(*self._resolve(None, key.topic_id), (key.partition_index,)) for key in keys_of_session]
        return []


def _name_and_id(topic: str | bytes) -> tuple[str | None, bytes | None]:
    """The key of a topic in a fetch session is its name or its id."""
    return (topic, None) if isinstance(topic, str) else (None, topic)
