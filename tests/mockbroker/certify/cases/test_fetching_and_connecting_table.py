"""The cases of fetching and connecting: what those for a real Kafka may use, and what their texts say."""

from __future__ import annotations

import inspect

from mockbroker.certify.case import Case
from mockbroker.certify.case_table import find_cases, select_cases

CASES = select_cases(find_cases(), ["fetching", "connecting"])


def _source_of(case: Case) -> str:
    return inspect.getsource(case.function)


def test_cases_for_a_real_kafka_use_no_mock_cluster() -> None:
    assert [case.id for case in CASES if case.on_kafka and "run.cluster" in _source_of(case)] == []


def test_the_docstring_says_whether_there_is_a_fault() -> None:
    wrong = [case.id for case in CASES if "faults.add" in _source_of(case) and case.broker.startswith("No fault")]

    assert wrong == []


def test_no_case_shows_values_in_the_notation_of_python() -> None:
    wrong = [case.id for case in CASES if "seen=str(" in _source_of(case) or "!r}" in _source_of(case)]

    assert wrong == []
