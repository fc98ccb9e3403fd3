"""Broker loggers: levels, and what they inherit."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.config_changes import ConfigChange, Operation
from mockbroker.state.loggers import Loggers


def change(name: str, level: str | None) -> ConfigChange:
    return ConfigChange(name, Operation.DELETE if level is None else Operation.SET, level)


def test_a_logger_without_a_level_has_that_of_its_nearest_ancestor() -> None:
    loggers = Loggers()
    loggers.apply([change("kafka", "DEBUG"), change("kafka.request.logger", None)])

    assert loggers.levels(["kafka.request.logger"]) == {"kafka.request.logger": "DEBUG"}
    loggers.apply([change("kafka", None), change("root", "ERROR")])
    assert loggers.levels(["kafka.request.logger"]) == {"kafka.request.logger": "ERROR"}


def test_a_level_that_is_set_is_told_and_others_stay() -> None:
    loggers = Loggers()
    before = loggers.levels(None)
    loggers.apply([change("state.change.logger", "TRACE")])

    assert loggers.levels(None) == {**before, "state.change.logger": "TRACE"}


@pytest.mark.parametrize(
    ("name", "level", "code"),
    [
        ("nosuch", "INFO", ErrorCode.INVALID_CONFIG),
        ("kafka", "LOUD", ErrorCode.INVALID_CONFIG),
        ("kafka", "OFF", ErrorCode.INVALID_CONFIG),
        ("root", None, ErrorCode.INVALID_REQUEST),
    ],
)
def test_wrong_changes_are_refused(name: str, level: str | None, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        Loggers().check([change(name, level)])

    assert refused.value.code is code
