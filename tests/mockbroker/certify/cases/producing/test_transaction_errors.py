"""Which errors of group members brokers can give to TxnOffsetCommit."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.messages.txn_offset_commit import TxnOffsetCommitRequest
from mockbroker.certify.case_table import find_cases, select_cases
from mockbroker.certify.cases.producing.transaction_errors import explain_no_member
from mockbroker.journal import Exchange

_CASES = ("illegal-generation", "unknown-member", "fenced-instance")


def _commit(**fields: Any) -> Exchange:
    return Exchange(
        number=1,
        node_id=0,
        connection_id=1,
        client="",
        api_key=28,
        api_name="TxnOffsetCommit",
        api_version=3,
        correlation_id=1,
        client_id=None,
        arrived_ms=0,
        request=TxnOffsetCommitRequest(group_id="shop", **fields),
    )


@pytest.mark.parametrize(
    ("code", "noun", "fields"),
    [
        ("ILLEGAL_GENERATION", "generation", {"generation_id_or_member_epoch": 0}),
        ("UNKNOWN_MEMBER_ID", "member id", {"member_id": "consumer-1"}),
        ("FENCED_INSTANCE_ID", "instance id", {"group_instance_id": "till"}),
    ],
)
def test_an_error_of_a_member_needs_a_request_that_names_it(code: str, noun: str, fields: dict[str, Any]) -> None:
    seen = f"the client names no {noun} in TxnOffsetCommit 3: brokers do not answer with {code} then"

    assert explain_no_member(_commit(), code) == seen
    assert explain_no_member(_commit(**fields), code) is None


def test_other_errors_need_no_member() -> None:
    assert explain_no_member(_commit(), "GROUP_AUTHORIZATION_FAILED") is None


@pytest.mark.parametrize("name", _CASES)
def test_the_offsets_of_these_cases_are_those_of_a_member(name: str) -> None:
    [found] = select_cases(find_cases(), [f"producing.transaction-errors.{name}"])

    assert "consumer.classic" in found.needs
    assert "a member of its group" in found.broker
