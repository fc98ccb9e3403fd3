"""Log directories: where logs are, and where they may go."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.log_dirs import LogDirs

PLACE = (bytes(15) + b"\1", 0)


def refusal(topic: str, path: str, *, partition_index: int = 0, cordoned: tuple[str, ...] = ()) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        LogDirs(["/a", "/b"]).check(topic, partition_index, path, cordoned=cordoned)
    return refused.value.code


def test_a_log_lies_in_the_first_directory_until_it_is_moved() -> None:
    dirs = LogDirs(["/a", "/b", "/a"])

    assert dirs.paths == ("/a", "/b")
    assert dirs.path_of(PLACE) == "/a"
    dirs.move(PLACE, "/b")
    assert dirs.path_of(PLACE) == "/b"


def test_a_deleted_topic_is_forgotten() -> None:
    dirs = LogDirs(["/a", "/b"])
    dirs.move(PLACE, "/b")
    dirs.forget(PLACE[0])

    assert dirs.path_of(PLACE) == "/a"


def test_a_directory_that_is_none_of_the_brokers_is_not_found() -> None:
    assert refusal("t", "/c") is ErrorCode.LOG_DIR_NOT_FOUND


def test_nothing_moves_to_a_cordoned_directory() -> None:
    assert refusal("t", "/b", cordoned=("/b",)) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_name_too_long_for_a_future_directory_is_refused_first() -> None:
    assert refusal("x" * 214, "/c") is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert refusal("x" * 213, "/c") is ErrorCode.LOG_DIR_NOT_FOUND
    assert refusal("x" * 213, "/c", partition_index=10) is ErrorCode.INVALID_TOPIC_EXCEPTION
