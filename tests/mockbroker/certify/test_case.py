"""Cases: the checks of a definition."""

from __future__ import annotations

from typing import Any

import pytest

from mockbroker.certify.case import Level, Source, case
from mockbroker.certify.case_run import CaseRun


def _play(run: CaseRun) -> None:
    """The broker does nothing."""


def _fields(**changes: Any) -> Any:
    return {"title": "Title", "level": Level.MUST, "rule": "Rule.", "source": Source("KIP-1"), **changes}


def test_a_case_has_its_family_and_the_docstring_as_the_course() -> None:
    made = case("share.session.lost", **_fields())(_play)

    assert (made.family, made.broker) == ("share", "The broker does nothing.")


@pytest.mark.parametrize(
    "case_id", ["share", "Share.lost", "share..lost", "other.lost", "share.lost.", "share.lost_session"]
)
def test_an_id_has_a_family_and_words_with_hyphens(case_id: str) -> None:
    with pytest.raises(ValueError, match=r"expected FAMILY\.SUBJECT\.NAME"):
        case(case_id, **_fields())(_play)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"needs": ("share.telepathy",)}, r"unknown capability share\.telepathy"),
        ({"settings_needed": ("colour",)}, "unknown setting colour"),
        ({"title": ""}, "the title is missing"),
        ({"rule": ""}, "the rule is missing"),
        ({"source": Source("")}, "the source is missing"),
    ],
)
def test_a_wrong_definition_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"case share.lost: {message}"):
        case("share.lost", **_fields(**changes))(_play)


def test_a_case_without_a_docstring_is_refused() -> None:
    with pytest.raises(ValueError, match="the docstring is missing"):
        case("share.lost", **_fields())(lambda run: None)


def test_a_source_is_shown_with_its_place() -> None:
    assert (
        str(Source("KIP-932", "Share sessions", "KafkaShareConsumer"))
        == 'KIP-932, "Share sessions"; KafkaShareConsumer'
    )
    assert str(Source("KIP-932")) == "KIP-932"
