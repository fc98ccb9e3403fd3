"""Errors of methods as problems; a defect is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kwire.error_codes import ErrorCode
from mockbroker import FaultError, KafkaError, WaitTimeout
from mockbroker.control.problems import ProblemError, ProblemKind, describe_error

PAGE = Path(__file__).parents[3] / "docs" / "control.md"


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        (ProblemError(ProblemKind.NOT_FOUND, "x"), "not-found", 404),
        (KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "x"), "kafka-error", 404),
        (KafkaError(ErrorCode.INVALID_CONFIG, "x"), "kafka-error", 422),
        (KafkaError(ErrorCode.NON_EMPTY_GROUP, "x"), "kafka-error", 409),
        (WaitTimeout("x", "seen"), "wait-timeout", 409),
        (FaultError("x"), "invalid-fault", 422),
        (ValueError("x"), "invalid-value", 422),
        (OSError("x"), "address-in-use", 409),
        (RuntimeError("x"), "conflict", 409),
    ],
)
def test_an_error_of_a_method_is_a_problem(error: Exception, kind: str, status: int) -> None:
    problem = describe_error(error)

    assert problem is not None
    assert (problem.type, problem.status) == (f"urn:problem-type:mockbroker:{kind}", status)
    assert problem.detail.endswith("x")


@pytest.mark.parametrize("error", [TypeError(), KeyError(), RecursionError(), NotImplementedError(), TimeoutError()])
def test_a_defect_is_no_problem_of_the_request(error: Exception) -> None:
    assert describe_error(error) is None


def test_the_page_has_every_type_with_its_status() -> None:
    rows = re.findall(r"^\| (`.*?) \| (\d+(?:, \d+)*) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    documented = {
        (name, status)
        for names, statuses in rows
        for name in re.findall(r"`([a-z-]+)`", names)
        for status in map(int, statuses.split(", "))
    }

    assert {(kind.value.name, kind.value.status) for kind in ProblemKind} <= documented
    assert {name for name, _ in documented} == {kind.value.name for kind in ProblemKind}
