"""Hostile bytes always give a tree that covers every byte, no exception, and work in proportion to the bytes."""

from __future__ import annotations

import random
import time

import pytest

import kwire
from kwire.errors import UnsupportedVersion, WireError
from kwire.layout import Kind, Tree, describe_bytes, render_hex, render_tree
from tests.support.messages.filled_messages import filled_vectors
from tests.support.messages.golden_vectors import Vector, all_vectors

SHARE_FETCH = filled_vectors("ShareFetchRequest", "4.3")[-1]


def describe(vector: Vector, data: bytes) -> Tree:
    return describe_bytes(vector.message, vector.version, data, edition=vector.edition)


def assert_covered(tree: Tree) -> None:
    end = 0
    for leaf in tree.root.leaves():
        assert leaf.start == end
        assert leaf.end >= leaf.start
        end = leaf.end
    assert end == len(tree.data)


def is_refused(vector: Vector, data: bytes) -> bool:
    try:
        kwire.decode(vector.message, vector.version, data, edition=vector.edition)
    except WireError:
        return True
    return False


@pytest.mark.slow
def test_a_truncated_message_is_a_tree_up_to_its_end_at_every_length() -> None:
    seen = 0
    for vector in all_vectors()[::7]:
        for size in {*range(min(len(vector.raw), 40)), len(vector.raw) - 1}:
            if size < 0:
                continue
            data = vector.raw[:size]
            tree = describe(vector, data)

            assert_covered(tree)
            assert (tree.damage is not None) == is_refused(vector, data), (vector.message, vector.version, size)
            seen += 1
    assert seen > 3000


def test_the_codec_and_the_layouts_reject_the_same_mutated_bytes() -> None:
    chance = random.Random(20)
    refused = 0
    for vector in all_vectors()[::3]:
        if not vector.raw:
            continue
        data = bytearray(vector.raw)
        data[chance.randrange(len(data))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
        tree = describe(vector, bytes(data))

        assert_covered(tree)
        # What a strict codec rejects is either damage in the tree, or a note on what Kafka accepts.
        is_wrong = tree.damage is not None or bool(tree.notes)
        assert is_wrong == is_refused(vector, bytes(data)), (vector.message, vector.version, data.hex())
        refused += is_wrong
    assert refused > 100


def test_the_error_node_has_the_reason_and_the_field() -> None:
    tree = describe(SHARE_FETCH, SHARE_FETCH.raw[:14])

    damage = tree.damage
    assert damage is not None
    assert (damage.kind, damage.type, damage.path) == (Kind.ERROR, "error", "ShareFetchRequest.member_id")
    assert damage.value == "needs 10 bytes, but 3 are left (at byte 11)"
    assert (damage.start, damage.end) == (10, 14)
    assert tree.find("ShareFetchRequest.group_id").value == "GroupId 1"


@pytest.mark.parametrize(
    ("name", "version", "data", "reason"),
    [
        ("MetadataRequest", 1, "7fffffff", "needs 2147483647 bytes, but 0 are left"),
        ("MetadataRequest", 12, "ffffffff07" + "00" * 9, "needs 2147483646 bytes, but 9 are left"),
        ("MetadataRequest", 12, "ffffffff0f" + "00" * 9, "6 bytes behind the end of the message"),
        ("MetadataRequest", 12, "ffffffff1f", "needs 1 bytes, but 0 are left"),
        ("MetadataRequest", 12, "ffffffffff01", "a varint goes on after five bytes"),
        ("SaslAuthenticateRequest", 0, "7fffffff00", "needs 2147483647 bytes, but 1 are left"),
        ("SaslAuthenticateRequest", 0, "ffffffff", "is null, which this version does not allow"),
        ("HeartbeatRequest", 0, "8000", "is null, which this version does not allow"),
        ("SaslAuthenticateRequest", 2, "01ffffffff07", "needs 1 bytes, but 0 are left"),
        ("SaslAuthenticateRequest", 2, "010100ffff03", "needs 65535 bytes, but 0 are left"),
        ("ApiVersionsResponse", 3, "00000100000000010109" + "00" * 9, "1 bytes behind the end of the message"),
        ("ApiVersionsRequest", 0, "000000", "3 bytes behind the end of the message"),
        ("ShareFetchRequest", 2, "81" + "80" * 40, "a varint goes on after five bytes"),
    ],
)
def test_a_hostile_length_is_reported_and_allocates_nothing(name: str, version: int, data: str, reason: str) -> None:
    tree = describe_bytes(name, version, bytes.fromhex(data))

    assert_covered(tree)
    assert tree.damage is not None
    assert reason in str(tree.damage.value)


def test_a_string_that_is_too_long_for_kafka_is_damage_even_in_compact_form() -> None:
    tree = describe_bytes("ShareGroupHeartbeatRequest", 1, b"\x81\x80\x02" + b"a" * 32768)

    assert tree.damage is not None
    assert tree.damage.value == "a string has 32767 bytes at most, not 32768"


def test_what_kafka_accepts_is_noted_and_the_message_continues() -> None:
    tree = describe_bytes("DescribeGroupsRequest", 3, bytes.fromhex("000000010002ff4107"))

    assert tree.damage is None
    assert [(node.path, node.note) for node in tree.notes] == [
        ("DescribeGroupsRequest.groups[0]", "byte 0xff is not UTF-8: invalid start byte; read as U+FFFD"),
        ("DescribeGroupsRequest.include_authorized_operations", "a boolean is 0 or 1, not 7; read as true"),
    ]
    assert tree.find("DescribeGroupsRequest.groups[0]").value == "\N{REPLACEMENT CHARACTER}A"


@pytest.mark.parametrize(
    ("name", "version", "data", "note"),
    [
        ("MetadataRequest", 1, "80000000", "length -2147483648 is negative; read as null"),
        ("MetadataRequest", 12, "ffffffff1f0000", "a varint has more than 32 bits; the upper bits are lost"),
        ("HeartbeatRequest", 0, "8000", "length -32768 is negative; read as null"),
        ("ApiVersionsResponse", 3, "00000100000000010109" + "00" * 9, "tag 1 claims 9 bytes, but its field takes 8"),
    ],
)
def test_an_invalid_length_that_kafka_accepts_is_noted(name: str, version: int, data: str, note: str) -> None:
    tree = describe_bytes(name, version, bytes.fromhex(data))

    assert_covered(tree)
    assert any(note in node.note for node in tree.notes)


def test_a_negative_count_of_tagged_fields_is_an_error_as_in_kafka_4_4() -> None:
    tree = describe_bytes("SaslAuthenticateRequest", 2, bytes.fromhex("01ffffffff0f"))

    assert tree.damage is not None
    assert tree.damage.value == "4294967295 tagged fields cannot be"
    assert_covered(tree)


def test_tags_out_of_order_are_noted() -> None:
    tree = describe_bytes("SaslAuthenticateRequest", 2, bytes.fromhex("010205000400"))

    assert tree.damage is None
    assert [node.note for node in tree.notes] == ["tag 4 comes after tag 5; read all the same"]


def test_the_number_of_nodes_is_limited() -> None:
    data = b"\x00\x0f\x42\x40" + b"\x00\x00" * 1_000_000 + b"\x00"

    begin = time.perf_counter()
    tree = describe_bytes("DescribeGroupsRequest", 3, data, nodes_max=10_000)

    assert tree.damage is not None
    assert tree.damage.value == "has more than 10000 fields; the rest is not described"
    assert_covered(tree)
    assert time.perf_counter() - begin < 10


def test_random_bytes_never_raise_in_descriptions_and_renderings() -> None:
    chance = random.Random(7)
    messages = {"ShareFetchRequest": 2, "FetchResponse": 11, "MetadataResponse": 12, "ProduceRequest": 9}
    for name, version in messages.items():
        for _ in range(150):
            data = chance.randbytes(chance.randrange(200))
            tree = describe_bytes(name, version, data)

            assert_covered(tree)
            assert render_tree(tree).isprintable() or "\n" in render_tree(tree)
            assert render_hex(tree).count("\n") < 400


def test_an_unknown_message_version_or_edition_is_named() -> None:
    with pytest.raises(UnsupportedVersion, match=r"ShareFetchRequest.*1-2.*4\.4.*not 9"):
        describe_bytes("ShareFetchRequest", 9, b"")
    with pytest.raises(UnsupportedVersion, match="NoSuchRequest"):
        describe_bytes("NoSuchRequest", 0, b"")
    with pytest.raises(UnsupportedVersion, match=r"3\.9"):
        describe_bytes("ShareFetchRequest", 1, b"", edition="3.9")
