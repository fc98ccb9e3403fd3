"""Log directories: where logs are, and where they may go."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from mockbroker.state.storage.log_dirs import LogDirs
from tests.support.raises_code import code_of

KEY = (bytes(15) + b"\1", 0)


def error_code(topic: str, path: str, *, partition_index: int = 0, cordoned: tuple[str, ...] = ()) -> ErrorCode:
    return code_of(lambda: LogDirs(["/a", "/b"]).check_move(topic, partition_index, path, cordoned=cordoned))


def test_a_log_is_in_the_first_directory_until_it_is_moved() -> None:
    dirs = LogDirs(["/a", "/b", "/a"])

    assert dirs.paths == ("/a", "/b")
    assert dirs.path_of(KEY) == "/a"
    dirs.move_log(KEY, "/b")
    assert dirs.path_of(KEY) == "/b"


def test_a_deleted_topic_is_removed() -> None:
    dirs = LogDirs(["/a", "/b"])
    dirs.move_log(KEY, "/b")
    dirs.forget_topic(KEY[0])

    assert dirs.path_of(KEY) == "/a"


def test_an_unknown_directory_is_not_found() -> None:
    assert error_code("t", "/c") is ErrorCode.LOG_DIR_NOT_FOUND


def test_nothing_moves_to_a_cordoned_directory() -> None:
    assert error_code("t", "/b", cordoned=("/b",)) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_name_too_long_for_a_future_directory_is_rejected_first() -> None:
    assert error_code("x" * 214, "/c") is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert error_code("x" * 213, "/c") is ErrorCode.LOG_DIR_NOT_FOUND
    assert error_code("x" * 213, "/c", partition_index=10) is ErrorCode.INVALID_TOPIC_EXCEPTION
