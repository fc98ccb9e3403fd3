"""Records of calls: long texts are cut, and passwords are not written."""

from __future__ import annotations

from typing import Any

from mockbroker.certify.driver.clients import RecordedCall
from mockbroker.certify.recording import record_calls


def _record(**fields: Any) -> Any:
    call = RecordedCall(at_ns=2_000_000, answered_ns=3_500_000, driver=0, method="open", **fields)
    return record_calls([call], 1_000_000)[0]


def test_times_are_milliseconds_since_the_case_began() -> None:
    record = _record(params={})

    assert (record.at_ms, record.answered_ms) == (1.0, 2.5)


def test_passwords_are_replaced() -> None:
    record = _record(params={"client": "p", "settings": {"username": "alice", "password": "secret"}})

    assert record.params["settings"] == {"username": "alice", "password": "***"}


def test_long_texts_and_lists_are_cut() -> None:
    record = _record(params={"records": [{"value": "x" * 1000}] * 60})

    values = record.params["records"]
    assert (len(values), values[-1]) == (51, "... 10 more")
    assert values[0]["value"] == "x" * 300 + "... (1000 characters)"
