"""The record batches in messages: the fields that hold them, and summaries without their content."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple, cast

import msgspec

from kwire.errors import WireError
from kwire.records import Batch, Codec, read_batches

Tree = dict[str, object]
Records = bytes | memoryview | None


class RecordsField(NamedTuple):
    """The attributes from the message down to its records, each with its key in the JSON form."""

    topics: tuple[str, str]
    partitions: tuple[str, str]
    records: tuple[str, str]


_TOPICS = ("responses", "responses")
_PARTITIONS = ("partitions", "partitions")
_RECORDS = ("records", "records")
RECORDS_FIELDS = {
    "ProduceRequest": RecordsField(("topic_data", "topicData"), ("partition_data", "partitionData"), _RECORDS),
    "FetchResponse": RecordsField(_TOPICS, _PARTITIONS, _RECORDS),
    "ShareFetchResponse": RecordsField(_TOPICS, _PARTITIONS, _RECORDS),
    "FetchSnapshotResponse": RecordsField(("topics", "topics"), _PARTITIONS, ("unaligned_records", "unalignedRecords")),
}


def read_complete_batches(records: Records) -> Iterator[Batch]:
    """The batches in a message; a truncated last one, as a Fetch response may have it, is omitted.

    Raises: CorruptRecords.
    """
    return read_batches(records if records is not None else b"", verify=False, partial_ok=True)


def codec_label(batch: Batch) -> str:
    """The name of the batch's codec, or its number where Kafka has no name for it."""
    return codec_name(batch.attributes & 0x07)


@cache
def codec_name(number: int) -> str:
    """The name of the codec with this number, as `codec_label`."""
    return Codec(number).label if number in Codec._value2member_map_ else f"codec {number}"


def summarize_records(records: Records) -> Tree | None:
    """Count, size and compression of the records; invalid ones add the key `error`."""
    if records is None:
        return None
    count = 0
    codecs: dict[str, None] = {}
    failure: Tree = {}
    try:
        for batch in read_complete_batches(records):
            codecs[codec_label(batch)] = None
            count += batch.count
    except WireError as error:
        failure = {"error": str(error)}
    return {"count": count, "bytes": len(records), "codec": ",".join(codecs) or "none", **failure}


def add_summaries(tree: Tree, message: msgspec.Struct) -> None:
    """Put summaries of the records of a message into its JSON form, in the place of the records."""
    place = RECORDS_FIELDS.get(type(message).__name__)
    if place is None:
        return
    attribute, key = place.records
    holders = [
        getattr(partition, attribute)
        for topic in getattr(message, place.topics[0])
        for partition in getattr(topic, place.partitions[0])
    ]
    topics = cast(list[dict[str, list[Tree]]], tree[place.topics[1]])
    partitions = (partition for topic in topics for partition in topic[place.partitions[1]])
    for shown, records in zip(partitions, holders, strict=True):
        shown[key] = summarize_records(records)
