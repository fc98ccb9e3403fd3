"""Rules about share consumers."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from kwire import registry
from kwire.capture.kafka.message_fields import struct_type_in
from kwire.error_codes import ErrorCode
from kwire.messages import share_acknowledge, share_fetch
from kwire.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from kwire.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from tests.support.observed_traffic import ObservedTraffic

TOPIC_ID = bytes(range(16))
ACCEPT, RENEW = 1, 4
LOCK_MS = 1000

Batch = tuple[int, int, int]


def fetch(epoch: int) -> ShareFetchRequest:
    return ShareFetchRequest(group_id="g", member_id="m", share_session_epoch=epoch)


def fetched(*acquired: tuple[int, int]) -> ShareFetchResponse:
    records = [share_fetch.AcquiredRecords(first_offset=first, last_offset=last) for first, last in acquired]
    partition = share_fetch.PartitionData(partition_index=0, acquired_records=records)
    topic = share_fetch.ShareFetchableTopicResponse(topic_id=TOPIC_ID, partitions=[partition])
    return ShareFetchResponse(acquisition_lock_timeout_ms=LOCK_MS, responses=[topic])


def acknowledge(epoch: int, *batches: Batch, types: tuple[int, ...] | None = None) -> ShareAcknowledgeRequest:
    partition = share_acknowledge.AcknowledgePartition(
        partition_index=0,
        acknowledgement_batches=[
            share_acknowledge.AcknowledgementBatch(first, last, (kind,) if types is None else types)
            for first, last, kind in batches
        ],
    )
    topics = [share_acknowledge.AcknowledgeTopic(topic_id=TOPIC_ID, partitions=[partition])]
    return ShareAcknowledgeRequest(group_id="g", member_id="m", share_session_epoch=epoch, topics=topics)


def acknowledged(error_code: int = 0) -> ShareAcknowledgeResponse:
    partition = share_acknowledge.PartitionData(partition_index=0, error_code=error_code)
    topic = share_acknowledge.ShareAcknowledgeTopicResponse(topic_id=TOPIC_ID, partitions=[partition])
    return ShareAcknowledgeResponse(acquisition_lock_timeout_ms=LOCK_MS, responses=[topic])


def opened(*acquired: tuple[int, int]) -> ObservedTraffic:
    """A share session with these records."""
    traffic = ObservedTraffic()
    traffic.send(0, fetch(0), fetched(*acquired))
    return traffic


def test_only_records_that_were_acquired_are_acknowledged() -> None:
    traffic = opened((0, 4), (7, 9))
    traffic.send(10, acknowledge(1, (0, 9, ACCEPT)), acknowledged(ErrorCode.INVALID_RECORD_STATE))

    assert traffic.broken() == [("share-ack-not-held", (2,))]
    assert (
        traffic.notes()[0].text == "acknowledged offsets 5 to 6 of AAECAwQFBgcICQoLDA0ODw-0, which it had not acquired"
    )


def test_a_record_is_acknowledged_once() -> None:
    traffic = opened((0, 4))
    traffic.send(10, acknowledge(1, (0, 2, ACCEPT)), acknowledged())
    traffic.send(20, acknowledge(2, (2, 4, ACCEPT)), acknowledged(ErrorCode.INVALID_RECORD_STATE))

    assert traffic.broken() == [("share-ack-not-held", (2, 3))]
    assert "offset 2 of" in traffic.notes()[0].text


def test_records_that_are_held_are_acknowledged_in_any_number_of_requests() -> None:
    traffic = opened((0, 4), (7, 9))
    traffic.send(10, acknowledge(1, (0, 1, ACCEPT), (7, 7, ACCEPT)), acknowledged())
    traffic.send(20, acknowledge(2, (2, 2, ACCEPT)), acknowledged(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    traffic.send(30, acknowledge(3, (2, 4, ACCEPT), (8, 9, ACCEPT)), acknowledged())
    traffic.send(40, fetch(4), fetched((0, 0)))
    traffic.send(50, acknowledge(5, (0, 0, ACCEPT)), acknowledged())

    assert traffic.broken() == []


def test_the_records_of_a_session_whose_begin_is_missing_are_not_judged() -> None:
    midstream, lossy = ObservedTraffic(), opened((0, 4))
    midstream.send(0, fetch(5), fetched((0, 4)))
    lossy.lose(5)
    for traffic in (midstream, lossy):
        traffic.send(10, acknowledge(6, (20, 30, ACCEPT)), acknowledged())

    assert midstream.broken() == lossy.broken() == []


@pytest.mark.parametrize(("at_ms", "is_broken"), [(990, False), (1100, True)])
def test_a_record_is_acknowledged_while_it_is_locked(at_ms: float, is_broken: bool) -> None:
    traffic = opened((0, 4))
    traffic.send(at_ms, acknowledge(1, (0, 4, ACCEPT)), acknowledged())

    assert traffic.broken() == ([("share-ack-lock-expired", (1, 2))] if is_broken else [])


def test_a_renewed_lock_lasts_longer() -> None:
    traffic = opened((0, 4))
    traffic.send(900, acknowledge(1, (0, 1, RENEW)), acknowledged())
    traffic.send(1500, acknowledge(2, (0, 1, ACCEPT)), acknowledged())
    traffic.send(1510, acknowledge(3, (2, 4, ACCEPT)), acknowledged(ErrorCode.INVALID_RECORD_STATE))

    assert traffic.broken() == [("share-ack-lock-expired", (1, 4))]


def test_batches_ascend_without_overlap() -> None:
    traffic = opened((0, 9))
    traffic.send(10, acknowledge(1, (0, 2, ACCEPT), (3, 3, ACCEPT)), acknowledged())
    traffic.send(20, acknowledge(2, (6, 7, ACCEPT), (4, 5, ACCEPT)), acknowledged(ErrorCode.INVALID_REQUEST))
    traffic.send(30, acknowledge(3, (4, 6, ACCEPT), (6, 7, ACCEPT)), acknowledged(ErrorCode.INVALID_REQUEST))
    traffic.send(40, acknowledge(4, (4, 6, 0), types=(1, 1)), acknowledged(ErrorCode.INVALID_REQUEST))
    traffic.send(50, acknowledge(5, (4, 6, 0), types=(1, 2, 1)), acknowledged())

    rule = "share-ack-invalid-batch"
    assert traffic.broken() == [(rule, (3,)), (rule, (4,)), (rule, (5,))]


def test_epochs_of_a_session_go_up_by_one() -> None:
    traffic = opened()
    traffic.send(10, fetch(1), fetched())
    traffic.send(20, fetch(3), ShareFetchResponse(error_code=ErrorCode.INVALID_SHARE_SESSION_EPOCH))
    traffic.send(30, fetch(0), fetched())
    traffic.send(40, fetch(1), fetched())

    assert traffic.broken() == [("share-session-wrong-epoch", (2, 3))]


def test_a_session_is_unknown_after_an_error_or_a_gap() -> None:
    failed, lossy = opened(), opened()
    failed.send(10, fetch(1), ShareFetchResponse(error_code=ErrorCode.SHARE_SESSION_NOT_FOUND))
    failed.send(20, fetch(7), fetched())
    lossy.lose(10)
    lossy.send(20, fetch(7), fetched())

    assert failed.broken() == lossy.broken() == []


def test_a_client_that_ends_closes_its_share_sessions() -> None:
    open_session, closed, reset = opened(), opened(), opened()
    closed.send(10, acknowledge(-1), ShareAcknowledgeResponse())
    open_session.close(20)
    closed.close(20)
    reset.close(20, is_clean=False)

    assert open_session.broken() == [("share-session-left-open", (1,))]
    assert closed.broken() == reset.broken() == []


@pytest.mark.parametrize("edition", ["kip932-r1", "kip932-r3", "kip932-r5", "4.0-early-access"])
def test_the_messages_of_each_edition_are_judged(edition: str) -> None:
    """The revisions of KIP-932 name the first offset of a range otherwise."""
    fetch_class, response_class = (
        registry.message_class(name, edition) for name in ("ShareFetchRequest", "ShareFetchResponse")
    )
    acquired = struct_at(response_class, "responses", "partitions", "acquired_records")
    batch = struct_at(fetch_class, "topics", "partitions", "acknowledgement_batches")
    rows = struct_at(response_class, "responses", "partitions")(partition_index=0, acquired_records=[acquired(0, 4, 1)])
    topic = struct_at(response_class, "responses")(topic_id=TOPIC_ID, partitions=[rows])
    asked = struct_at(fetch_class, "topics", "partitions")(
        partition_index=0, acknowledgement_batches=[batch(3, 6, (ACCEPT,)), batch(5, 5, (ACCEPT,))]
    )
    topics = [struct_at(fetch_class, "topics")(topic_id=TOPIC_ID, partitions=[asked])]
    member = {"group_id": "g", "member_id": "m"}
    traffic = ObservedTraffic()
    traffic.send(0, fetch_class(**member, share_session_epoch=0), response_class(responses=[topic]))
    traffic.send(10, fetch_class(**member, share_session_epoch=1, topics=topics), response_class())

    rules = [rule for rule, _ in traffic.broken()]
    assert rules == ["share-ack-invalid-batch", "share-ack-not-held", "share-ack-not-held"]


def struct_at(cls: type[msgspec.Struct], *path: str) -> Callable[..., msgspec.Struct]:
    """The class of the elements of a nested array."""
    for name in path:
        found = struct_type_in(next(field.type for field in msgspec.structs.fields(cls) if field.name == name))
        assert found is not None
        cls = found
    return cls
