"""Broker loggers: levels, and what they inherit."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from mockbroker.state.metadata.broker_loggers import BrokerLoggers
from mockbroker.state.metadata.config_changes import ConfigChange, ConfigOperation
from tests.support.raises_code import raises_code


def change(name: str, level: str | None) -> ConfigChange:
    return ConfigChange(name, ConfigOperation.DELETE if level is None else ConfigOperation.SET, level)


def test_a_logger_without_a_level_has_that_of_its_nearest_ancestor() -> None:
    loggers = BrokerLoggers()
    loggers.apply_changes([change("kafka", "DEBUG"), change("kafka.request.logger", None)])

    assert loggers.levels(["kafka.request.logger"]) == {"kafka.request.logger": "DEBUG"}
    loggers.apply_changes([change("kafka", None), change("root", "ERROR")])
    assert loggers.levels(["kafka.request.logger"]) == {"kafka.request.logger": "ERROR"}


def test_a_changed_level_is_returned_and_others_stay() -> None:
    loggers = BrokerLoggers()
    before = loggers.levels(None)
    loggers.apply_changes([change("state.change.logger", "TRACE")])

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
def test_invalid_changes_are_rejected(name: str, level: str | None, code: ErrorCode) -> None:
    with raises_code(code):
        BrokerLoggers().check_change(change(name, level))
