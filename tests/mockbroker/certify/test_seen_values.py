"""What a case has seen is shown without Python's notation."""

from __future__ import annotations

import pytest

from kwire.messages.metadata import MetadataRequest
from kwire.records import Codec
from mockbroker.certify.driver.messages import (
    Committed,
    ConsumedRecord,
    Delivery,
    ErrorInfo,
    PartitionsAssigned,
    TopicPartition,
)
from mockbroker.certify.expectations import ExpectationFailed, describe_evidence
from mockbroker.certify.seen_values import describe_seen

_ERROR = ErrorInfo(name="MESSAGE_TOO_LARGE", message="too large", retriable=False)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        (None, "none"),
        ([], "none"),
        ({Codec.ZSTD}, "ZSTD"),
        ({1064, 7}, "1064, 7"),
        ([b"first", None, b"\xff"], '"first", none, "\\\\xff"'),
        ([None, _ERROR], "none, MESSAGE_TOO_LARGE: too large"),
        ([Delivery(topic="orders", partition=0, offset=3), Delivery(error=_ERROR)],
         "orders-0 at offset 3, MESSAGE_TOO_LARGE: too large"),
        ({("orders", 0): None, ("orders", 1): _ERROR}, "orders-0: none, orders-1: MESSAGE_TOO_LARGE: too large"),
        ([(0, 1), (1, 2)], "(0, 1), (1, 2)"),
        (True, "true"),
        (ConsumedRecord(topic="orders", partition=0, offset=7, key=None, value="a"), '"a" of orders-0 at offset 7'),
        (PartitionsAssigned(partitions=(TopicPartition(topic="orders", partition=1),)),
         "PartitionsAssigned (partitions orders-1)"),
        (MetadataRequest(topics=None, allow_auto_topic_creation=False),
         "MetadataRequest (topics null, allow_auto_topic_creation false, include_cluster_authorized_operations false, "
         "include_topic_authorized_operations false, unknown_tagged_fields none)"),
        (Committed(error=None), "Committed (error null)"),
        (range(60), ", ".join(map(str, range(50))) + ", ... 10 more"),
    ],
)  # fmt: skip
def test_values_are_shown_as_texts(value: object, text: str) -> None:
    assert describe_seen(value) == text
    assert ExpectationFailed("a thing", value).seen == text


def test_long_texts_are_cut() -> None:
    assert describe_seen("x" * 3000).endswith("x... (3000 characters)")


def test_what_was_seen_is_never_empty() -> None:
    assert describe_evidence("", None) == "it was not so"
    assert describe_evidence("", []) == "none"
