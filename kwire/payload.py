"""The record batches inside messages: where they lie, and what can be said of them without showing them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, cast

import msgspec

from kwire.errors import WireError
from kwire.records import Batch, Codec, read_batches

Tree = dict[str, object]
Records = bytes | memoryview | None


class Place(NamedTuple):
    """Attributes from the message down to its records, and the keys of the JSON form."""

    topics: tuple[str, str]
    partitions: tuple[str, str]
    records: tuple[str, str]


PLACES = {
    "ProduceRequest": Place(("topic_data", "topicData"), ("partition_data", "partitionData"), ("records", "records")),
    "FetchResponse": Place(("responses", "responses"), ("partitions", "partitions"), ("records", "records")),
    "ShareFetchResponse": Place(("responses", "responses"), ("partitions", "partitions"), ("records", "records")),
    "FetchSnapshotResponse": Place(
        ("topics", "topics"), ("partitions", "partitions"), ("unaligned_records", "unalignedRecords")
    ),
}


def batches_of(records: Records) -> Iterator[Batch]:
    """The batches in a message; a last one that is cut off, as a Fetch response may have it, is left out.

    Raises: CorruptRecords.
    """
    return read_batches(records if records is not None else b"", verify=False, partial_ok=True)


def codec_label(batch: Batch) -> str:
    """The name of the batch's codec, or its number where Kafka has no name for it."""
    number = batch.attributes & 0x07
    return Codec(number).label if number in Codec._value2member_map_ else f"codec {number}"


def summary(records: Records) -> Tree | None:
    """Count, size and compression of the records; what cannot be read is told as `error`."""
    if records is None:
        return None
    count, codecs, out = 0, dict[str, None](), Tree()
    try:
        for batch in batches_of(records):
            codecs[codec_label(batch)] = None
            count += batch.count
    except WireError as error:
        out["error"] = str(error)
    return {"count": count, "bytes": len(records), "codec": ",".join(codecs) or "none", **out}


@contextmanager
def hide_records(message: msgspec.Struct) -> Iterator[Callable[[Tree], None]]:
    """Inside the block the message has no records, so that its JSON form costs nothing; behind it they are back.

    The value is a function that puts the summaries where the records would be in the JSON form.
    """
    place = PLACES.get(type(message).__name__)
    if place is None:
        yield lambda _: None
        return
    attribute, key = place.records
    holders = [
        (partition, getattr(partition, attribute))
        for topic in getattr(message, place.topics[0])
        for partition in getattr(topic, place.partitions[0])
    ]

    def fill_in(tree: Tree) -> None:
        """Put the summaries where the records were."""
        found = (
            partition
            for topic in cast(list[Tree], tree[place.topics[1]])
            for partition in cast(list[Tree], topic[place.partitions[1]])
        )
        for shown, (_, records) in zip(found, holders, strict=True):
            shown[key] = summary(records)

    try:
        for partition, _ in holders:
            setattr(partition, attribute, b"")
        yield fill_in
    finally:
        for partition, records in holders:
            setattr(partition, attribute, records)
