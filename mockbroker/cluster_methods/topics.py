"""Methods of `Cluster` for topics and records, without a client library."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypedDict, TypeVar

from mockbroker.cluster_methods.cluster_thread import ClusterThread

if TYPE_CHECKING:
    from kwire.records import Record
    from mockbroker.broker.node_views import TopicView
    from mockbroker.broker.topic_records import TopicRecord
    from mockbroker.server import Server

T = TypeVar("T")
#: A key, a value or the value of a header; text is encoded as UTF-8.
Data = bytes | str | None
Headers = Mapping[str, Data] | Iterable[tuple[str, Data]]


class RecordFields(TypedDict, total=False):
    """A record to append, as the arguments of `Cluster.produce`."""

    value: Data
    key: Data
    headers: Headers
    partition: int | None
    timestamp_ms: int | None


class TopicMethods(ClusterThread):
    """Topics of a running cluster, and their records."""

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int | None = None,
        configs: Mapping[str, object] | None = None,
    ) -> None:
        """Create a topic, as CreateTopics does. configs: by Kafka's names, as {"cleanup.policy": "compact"}.

        Raises: KafkaError where that would be refused.
        """
        from mockbroker.broker import topic_admin

        texts = {
            key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in (configs or {}).items()
        }
        self._change(
            lambda server, _: topic_admin.create_topic(
                server.core.state, name, partitions, replication_factor=replication_factor, configs=texts
            )
        )

    def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises: KafkaError (UNKNOWN_TOPIC_OR_PARTITION) if there is none."""
        from mockbroker.broker import topic_admin

        self._change(lambda server, _: topic_admin.delete_topic(server.core.state, name))

    def topics(self) -> dict[str, int]:
        """The numbers of partitions of all topics by name, internal ones included."""
        return self._read(lambda server: {t.name: len(t.partitions) for t in server.core.state.metadata.topics()})

    def describe_topics(self) -> list[TopicView]:
        """All topics by their names, internal ones included, with configurations, leaders, replicas and offsets."""
        from mockbroker.broker import node_views

        return self._read(lambda server: node_views.topic_views(server.core.state))

    def describe_topic(self, name: str) -> TopicView:
        """One topic. Raises: KafkaError (UNKNOWN_TOPIC_OR_PARTITION) if there is none."""
        from mockbroker.broker import node_views, topic_admin

        def describe(server: Server) -> TopicView:
            state = server.core.state
            return node_views.topic_view(state, topic_admin.find_topic(state, name))

        return self._read(describe)

    def produce(
        self,
        topic: str,
        value: Data = None,
        *,
        key: Data = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> TopicRecord:
        """Append a record at the leader of a partition, as a producer's would be. Returns: it, with its offset.

        partition: by default the one to which Kafka's clients send the key; 0 without a key. timestamp_ms: by default
        the time of the cluster. The record is appended although `min.insync.replicas` may not be reached.
        Raises: KafkaError for an unknown partition, one without a leader, or a record that the topic refuses.
        """
        fields: RecordFields = {"key": key, "value": value, "headers": headers}
        return self.produce_all(topic, [{**fields, "partition": partition, "timestamp_ms": timestamp_ms}])[0]

    def produce_all(self, topic: str, records: Iterable[RecordFields]) -> list[TopicRecord]:
        """Append several records, all or none: `produce_all("orders", [{"value": "1"}, {"value": "2", "key": "b"}])`.

        Each has the arguments of `produce`. Returns, raises: as `produce`; TypeError for another argument.
        """
        from mockbroker.broker import topic_records

        made = [_make_record(**record) for record in records]
        return self._change(lambda server, now_ms: topic_records.append(server.core.state, topic, made, now_ms=now_ms))

    def append_old_messages(
        self,
        topic: str,
        records: Iterable[RecordFields],
        *,
        magic: Literal[0, 1],
        partition: int = 0,
        compression: Literal["none", "gzip", "snappy", "lz4"] = "none",
        append_time_ms: int | None = None,
        offsets: Sequence[int] = (),
    ) -> list[TopicRecord]:
        """Append records in the message format of brokers before 0.11, as an upgraded cluster has them on its disks.

        magic: 0 has no timestamps; neither has headers. compression: all records are in one message. append_time_ms:
        the broker's time for all records (LogAppendTime of magic 1), by default they have their own. offsets: of the
        records, counted from the end of the log, ascending; with gaps as compaction leaves them. Returns: the records.
        Raises: KafkaError for an unknown partition, one without a leader, and for a cluster with a data directory;
        kwire.InvalidValue for headers; ValueError for offsets that do not ascend, and for another number of them.
        """
        from mockbroker.broker import topic_records

        old_format = topic_records.OldFormat(magic, compression, append_time_ms, offsets)
        made = [_make_record(**record)[1] for record in records]
        return self._change(
            lambda server, now_ms: topic_records.append_old_messages(
                server.core.state, topic, partition, made, old_format, now_ms=now_ms
            )
        )

    def read(
        self,
        topic: str,
        *,
        partition: int | None = None,
        offset: int = 0,
        isolation: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
        limit: int | None = None,
    ) -> list[TopicRecord]:
        """The records of a topic up to the high watermark, by partition and offset; of one partition if it is given.

        offset: the first one in each partition; earlier records than the start of the log do not exist any more.
        isolation: "read_committed" leaves out the records of aborted and of open transactions, as a consumer does.
        limit: the maximum number of records.
        Raises: KafkaError for an unknown partition, or one without a leader; ValueError for another isolation, and for
        a negative offset or limit.
        """
        from mockbroker.broker import topic_records

        if isolation not in ("read_uncommitted", "read_committed"):
            raise ValueError(f"isolation={isolation!r} is not one of 'read_uncommitted', 'read_committed'")
        for name, number in (("offset", offset), ("limit", limit or 0)):
            if number < 0:
                raise ValueError(f"{name}={number}; expected 0 or more")
        is_committed = isolation == "read_committed"
        return self._read(
            lambda server: topic_records.read(
                server.core.state, topic, partition, first_offset=offset, is_committed=is_committed, limit=limit
            )
        )

    def _change(self, action: Callable[[Server, int], T]) -> T:
        """Run an action at the present time of the cluster, as a deadline: requests that wait for it are resumed."""

        def change(server: Server) -> T:
            results: list[T] = []
            errors: list[Exception] = []

            def act(now_ms: int) -> None:
                try:
                    result = action(server, now_ms)
                    server.core.requests.write_metadata()
                    results.append(result)
                except Exception as error:
                    errors.append(error)

            server.core.state.inter_broker.schedule(0, act, now_ms=server.clock.now_ms())
            server.require_started().run_due(is_complete=True)
            if errors:
                raise errors[0]
            return results[0]

        return self.run(change)


def _make_record(
    *,
    value: Data = None,
    key: Data = None,
    headers: Headers = (),
    partition: int | None = None,
    timestamp_ms: int | None = None,
) -> tuple[int | None, Record]:
    """A record with its partition."""
    from mockbroker.broker import topic_records

    return partition, topic_records.make_record(key, value, headers, timestamp_ms)
