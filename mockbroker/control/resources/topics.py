"""Topics, their records and the leaders of their partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mockbroker.control.models import topics as models
from mockbroker.control.models.common import NoParameters, decode_data, encode_data
from mockbroker.control.operations import ClusterContext

if TYPE_CHECKING:
    from mockbroker.broker.node_views import TopicView
    from mockbroker.broker.topic_records import TopicRecord
    from mockbroker.cluster_methods.topics import RecordFields


def list_topics(control: ClusterContext, parameters: NoParameters) -> models.Topics:
    """All topics, internal ones included."""
    return models.Topics(topics=[topic_model(view) for view in control.cluster.describe_topics()])


def get_topic(control: ClusterContext, parameters: models.TopicPath) -> models.Topic:
    """A topic with its partitions."""
    return topic_model(control.cluster.describe_topic(parameters.topic))


def create_topic(control: ClusterContext, parameters: NoParameters, body: models.NewTopic) -> models.Topic:
    """Create a topic, as CreateTopics does."""
    control.cluster.create_topic(
        body.name, body.partitions, replication_factor=body.replication_factor, configs=body.configs
    )
    return topic_model(control.cluster.describe_topic(body.name))


def delete_topic(control: ClusterContext, parameters: models.TopicPath) -> None:
    """Delete a topic."""
    control.cluster.delete_topic(parameters.topic)


def move_leader(control: ClusterContext, parameters: models.PartitionPath, body: models.LeaderMove) -> models.Topic:
    """Make another replica that is in sync the leader of a partition."""
    control.cluster.move_leader(parameters.topic, parameters.partition, to=body.to)
    return topic_model(control.cluster.describe_topic(parameters.topic))


def produce_records(control: ClusterContext, parameters: models.TopicPath, body: models.NewRecords) -> models.Records:
    """Append records at the leaders of their partitions, as a producer's would be: all, or none."""
    records = control.cluster.produce_all(parameters.topic, [_record_fields(record) for record in body.records])
    return models.Records(records=[record_model(record) for record in records])


def append_old_messages(
    control: ClusterContext, parameters: models.PartitionPath, body: models.OldMessages
) -> models.Records:
    """Append records in the message format of brokers before 0.11, as an upgraded cluster has them on its disks."""
    records = control.cluster.append_old_messages(
        parameters.topic,
        [_record_fields(record) for record in body.records],
        magic=body.magic,
        partition=parameters.partition,
        compression=body.compression,
        append_time_ms=body.append_time_ms,
        offsets=body.offsets,
    )
    return models.Records(records=[record_model(record) for record in records])


def read_records(control: ClusterContext, parameters: models.RecordsParameters) -> models.Records:
    """The records of a topic up to the high watermark."""
    records = control.cluster.read(
        parameters.topic,
        partition=parameters.partition,
        offset=parameters.offset,
        isolation=parameters.isolation,
        limit=parameters.limit + 1,
    )
    return models.Records(
        records=[record_model(record) for record in records[: parameters.limit]],
        is_truncated=len(records) > parameters.limit,
    )


def _record_fields(record: models.NewRecord) -> RecordFields:
    """The arguments for a record. Raises: ValueError."""
    return {
        "key": decode_data(record.key, record.key_base64, "key"),
        "value": decode_data(record.value, record.value_base64, "value"),
        "headers": [
            (header.name, decode_data(header.value, header.value_base64, "value")) for header in record.headers
        ],
        "partition": record.partition,
        "timestamp_ms": record.timestamp_ms,
    }


def record_model(record: TopicRecord) -> models.Record:
    """A record as it is sent."""
    key, key_base64 = encode_data(record.key)
    value, value_base64 = encode_data(record.value)
    headers = []
    for name, data in record.headers:
        text, text_base64 = encode_data(data)
        headers.append(models.Header(name=name, value=text, value_base64=text_base64))
    return models.Record(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        key=key,
        value=value,
        key_base64=key_base64,
        value_base64=value_base64,
        headers=tuple(headers),
    )


def topic_model(view: TopicView) -> models.Topic:
    """A topic as it is sent."""
    return models.Topic(
        name=view.name,
        topic_id=view.topic_id,
        is_internal=view.is_internal,
        partitions=[
            models.Partition(
                partition=row.partition,
                leader=row.leader,
                leader_epoch=row.leader_epoch,
                replicas=list(row.replicas),
                in_sync=list(row.in_sync),
                start_offset=row.start_offset,
                end_offset=row.end_offset,
            )
            for row in view.partitions
        ],
        configs=dict(view.configs),
    )
