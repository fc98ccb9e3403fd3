"""Record batches in a message are described as by Kafka's reader."""

from __future__ import annotations

import gzip
import json
from typing import cast

import pytest

from kwire.layout import Kind, Node, Tree, describe_bytes
from kwire.records import write_batch
from kwire.records.record import Record
from tests.support.messages.golden_vectors import GOLDEN


def golden() -> list[tuple[bytes, list[dict[str, object]]]]:
    with gzip.open(GOLDEN / "batches.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [(bytes.fromhex(line["hex"]), line["batches"]) for line in map(json.loads, lines)]


def produce(records: bytes) -> Tree:
    """The records in a ProduceRequest of version 3, with a field of the message behind them."""
    topic = b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x00"
    body = b"\xff\xff\xff\xff\x00\x00\x75\x30" + topic + len(records).to_bytes(4) + records
    return describe_bytes("ProduceRequest", 3, body)


def records_of(tree: Tree) -> Node:
    return tree.find("ProduceRequest.topic_data[0].partition_data[0].records")


def field(node: Node, name: str) -> object:
    return node.child(name).value


def hexed(value: object) -> str | None:
    return cast(bytes, value).hex() if value is not None else None


def test_headers_and_records_match_kafkas_reader() -> None:
    batches = records = 0
    for data, known in golden():
        tree = produce(data)

        assert tree.errors == []
        nodes = [node for node in records_of(tree).children if node.kind is not Kind.FORM]
        if known[0]["magic"] != 2:
            # Kafka's reader returns each legacy message as a batch, and decompresses wrappers.
            assert {node.type for node in nodes} == {f"message v{known[0]['magic']}"}
            continue
        assert len(nodes) == len(known)
        for node, batch in zip(nodes, known, strict=True):
            batches += 1
            base = cast(int, field(node, "base_offset"))
            assert base == batch["baseOffset"]
            assert base + cast(int, field(node, "last_offset_delta")) == batch["lastOffset"]
            for ours, theirs in (
                ("partition_leader_epoch", "partitionLeaderEpoch"),
                ("max_timestamp", "maxTimestamp"),
                ("producer_id", "producerId"),
                ("producer_epoch", "producerEpoch"),
                ("base_sequence", "baseSequence"),
            ):
                assert field(node, ours) == batch[theirs]
            if batch["codec"] == "none":
                records += check_records(node, batch)
            else:
                assert node.children[-1].type == f"records, compressed: {batch['codec']}"
    assert batches > 100
    assert records > 100


def check_records(node: Node, batch: dict[str, object]) -> int:
    known = cast(list[dict[str, object]], batch["records"])
    found = [child for child in node.child("records").children if child.kind is not Kind.FORM]
    assert len(found) == len(known)
    for record, their in zip(found, known, strict=True):
        offset = cast(int, field(node, "base_offset")) + cast(int, field(record, "offset_delta"))
        assert (offset, hexed(field(record, "key")), hexed(field(record, "value"))) == (
            their["offset"],
            their["key"],
            their["value"],
        )
        headers = [child for child in record.child("headers").children if child.kind is not Kind.FORM]
        assert len(headers) == len(cast(list[object], their["headers"]))
    return len(known)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_without_compression_show_key_and_value(magic: int) -> None:
    data, known = next(
        (data, known) for data, known in golden() if {b["magic"] for b in known} == {magic} and is_plain(known)
    )

    nodes = [node for node in records_of(produce(data)).children if node.kind is not Kind.FORM]

    records = [record for batch in known for record in cast(list[dict[str, object]], batch["records"])]
    assert [(field(node, "offset"), hexed(field(node, "key")), hexed(field(node, "value"))) for node in nodes] == [
        (record["offset"], record["key"], record["value"]) for record in records
    ]


def is_plain(known: list[dict[str, object]]) -> bool:
    return all(batch["codec"] == "none" for batch in known)


def test_damage_in_a_batch_is_an_error_node_and_the_message_continues() -> None:
    batch = write_batch([Record(0, 1000, b"key", b"value", ())])
    topic = b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x02\x00\x00\x00\x00"
    broken = bytearray(batch)
    broken[16] = 9
    partitions = len(broken).to_bytes(4) + bytes(broken) + b"\x00\x00\x00\x01" + len(batch).to_bytes(4) + batch

    tree = describe_bytes("ProduceRequest", 3, b"\xff\xff\xff\xff\x00\x00\x75\x30" + topic + partitions)

    assert tree.damage is None
    assert [(node.path, node.value) for node in tree.errors] == [
        ("ProduceRequest.topic_data[0].partition_data[0].records", "magic 9; 0, 1 and 2 are known (at byte 43)")
    ]
    assert tree.find("ProduceRequest.topic_data[0].partition_data[1].records[0].records[0].value").value == b"value"


@pytest.mark.parametrize(
    ("at", "new", "reason"),
    [
        (8, b"\x7f\xff\xff\xff", "is cut off"),
        (8, b"\x80\x00\x00\x00", "is too small"),
        (57, b"\x7f\xff\xff\xff", "2147483647 records, but"),
        (57, b"\xff\xff\xff\xff", "-1 records, but"),
        (57, b"\x00\x00\x00\x00", "bytes of the batch are left over"),
        (61, b"\xff\xff\xff\xff\x0f", "length -2147483648 is negative"),
        (61, b"\xff\xff\xff\xff\xff", "varint goes beyond 32 bits"),
        (61, b"\xfe\xff\xff\xff\x0f", "needs 2147483647 bytes"),
    ],
)
def test_hostile_sizes_in_a_batch_are_reported(at: int, new: bytes, reason: str) -> None:
    batch = bytearray(write_batch([Record(0, 1000, b"key", b"value", (("h", b"1"),))]))
    batch[at : at + len(new)] = new

    tree = produce(bytes(batch))

    assert tree.damage is None
    (error,) = tree.errors
    assert reason in str(error.value)
    end = 0
    for leaf in tree.root.leaves():
        assert leaf.start == end
        end = leaf.end
    assert end == len(tree.data)
