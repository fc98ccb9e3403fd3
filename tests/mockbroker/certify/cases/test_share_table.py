"""The cases of share groups: their subjects, sources and levels, and what those for a real Kafka may use."""

from __future__ import annotations

import inspect

from mockbroker.certify.case import Case
from mockbroker.certify.case_table import find_cases, select_cases

#: The subjects that issue and sources name, each with at least this many cases.
SUBJECTS = {
    "session": 8,
    "acknowledge": 10,
    "implicit": 5,
    "results": 8,
    "leaders": 7,
    "locks": 5,
    "records": 8,
    "membership": 8,
    "topics": 6,
    "close": 6,
    "idle": 4,
    "poll": 5,
}
CASES = select_cases(find_cases(), ["share"])


def _source_of(case: Case) -> str:
    return inspect.getsource(case.function)


def test_every_subject_of_share_groups_has_its_cases() -> None:
    subjects = [case.id.split(".")[1] for case in CASES]

    assert {subject: subjects.count(subject) >= least for subject, least in SUBJECTS.items()} == dict.fromkeys(
        SUBJECTS, True
    )
    assert set(subjects) == set(SUBJECTS)


def test_every_case_names_a_document_and_a_section() -> None:
    assert [case.id for case in CASES if not (case.source.document and case.source.section)] == []


def test_every_case_needs_share_groups() -> None:
    assert [case.id for case in CASES if not any(need.startswith("share") for need in case.needs)] == []


def test_cases_for_a_real_kafka_use_no_mock_cluster() -> None:
    wrong = [case.id for case in CASES if case.on_kafka and "run.cluster" in _source_of(case)]

    assert wrong == []
    assert sum(case.on_kafka for case in CASES) >= 40


def test_the_docstring_says_whether_there_is_a_fault() -> None:
    wrong = [case.id for case in CASES if "faults.add" in _source_of(case) and case.broker.startswith("No fault")]

    assert wrong == []


def test_every_title_and_rule_stands_once() -> None:
    titles = [case.title for case in CASES]

    assert sorted(set(titles)) == sorted(titles)
