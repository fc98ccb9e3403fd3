"""Reads the share coordinator's records of a group from `__share_group_state`, in their order."""

from __future__ import annotations

from typing import Any

from kwire.codec import decode, to_json
from kwire.messages.early_access import share_snapshot, share_update
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.records import read_batches
from kwire.records.coordinator.share_snapshot import ShareSnapshotKey, ShareSnapshotValue
from kwire.records.coordinator.share_update import ShareUpdateKey, ShareUpdateValue
from tools.oracle.conversations.normalization import Json
from tools.oracle.conversations.virtual_broker import Connection

_TOPIC = "__share_group_state"
#: Two bytes before each key are the record type, two before each value its version.
_RecordClasses = dict[int, tuple[Any, Any]]
_RELEASED_CLASSES: _RecordClasses = {0: (ShareSnapshotKey, ShareSnapshotValue), 1: (ShareUpdateKey, ShareUpdateValue)}
_EDITION_CLASSES: dict[str, _RecordClasses] = {
    "4.0-early-access": {
        0: (share_snapshot.ShareSnapshotKey, share_snapshot.ShareSnapshotValue),
        1: (share_update.ShareUpdateKey, share_update.ShareUpdateValue),
    }
}
_TYPE_SIZE = 2

_FETCH_BYTES = 50_000_000


def state_records(connection: Connection, group_id: str, edition: str) -> Json:
    """The records of a group, each with its key and value in Kafka's JSON format; without times."""
    kinds = _EDITION_CLASSES.get(edition, _RELEASED_CLASSES)
    request = MetadataRequest(topics=[MetadataRequestTopic(name=_TOPIC)])
    [topic] = _send(connection, request, 12, "MetadataResponse").topics
    records: list[Json] = []
    for index in sorted(row.partition_index for row in topic.partitions):
        for key, value in _read_partition(connection, index):
            record = _to_json_record(key, value, kinds)
            if record["key"]["groupId"] == group_id:
                records.append(record)
    return {"records": records}


def _read_partition(connection: Connection, index: int) -> list[tuple[bytes, bytes | None]]:
    offset = _find_offset(connection, index, earliest=True)
    end = _find_offset(connection, index, earliest=False)
    records: list[tuple[bytes, bytes | None]] = []
    while offset < end:
        partition = FetchPartition(index, fetch_offset=offset, partition_max_bytes=_FETCH_BYTES)
        request = FetchRequest(
            max_wait_ms=500, min_bytes=1, max_bytes=_FETCH_BYTES, topics=[FetchTopic(_TOPIC, partitions=[partition])]
        )
        [row] = _send(connection, request, 12, "FetchResponse").responses[0].partitions
        assert row.error_code == 0, f"{_TOPIC}-{index}: error {row.error_code}"
        for batch in read_batches(row.records or b"", partial_ok=True):
            for record in batch.records():
                if record.offset >= offset:
                    assert record.key is not None
                    records.append((bytes(record.key), None if record.value is None else bytes(record.value)))
            offset = batch.last_offset + 1
    return records


def _find_offset(connection: Connection, index: int, *, earliest: bool) -> int:
    partition = ListOffsetsPartition(index, timestamp=-2 if earliest else -1)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(_TOPIC, [partition])])
    answer = _send(connection, request, 7, "ListOffsetsResponse")
    offset = answer.topics[0].partitions[0].offset
    assert isinstance(offset, int)
    return offset


def _send(connection: Connection, request: Any, version: int, answer: str) -> Any:
    connection.submit(request, version, version, (answer, version))
    return connection.receive()[0]


def _to_json_record(key: bytes, value: bytes | None, kinds: _RecordClasses) -> Json:
    key_class, value_class = kinds[int.from_bytes(key[:_TYPE_SIZE], "big")]
    record: dict[str, Json] = {
        "record": key_class.__name__.removesuffix("Key"),
        "key": to_json(decode(key_class, 0, key[_TYPE_SIZE:]), 0),
        "value": None,
    }
    if value is not None:
        version = int.from_bytes(value[:_TYPE_SIZE], "big")
        tree = to_json(decode(value_class, version, value[_TYPE_SIZE:]), version)
        record["value"] = {name: field for name, field in tree.items() if not name.endswith("Timestamp")}
        record["version"] = version
    return record
