"""The generated pages: up to date, and refusing what no real broker has answered."""

from __future__ import annotations

import pytest

from tools.reference import differences, share_groups
from tools.reference.differences import Defect
from tools.reference.share_rules import RULES, Rule


def test_every_rule_of_share_groups_has_answers_of_a_real_broker() -> None:
    page = share_groups.page()

    rules = [line.split(" | ") for line in page.splitlines() if line.count(" | ") >= 3]
    rows = {cells[0].split(" ")[1]: cells for cells in rules}
    assert [rule.number for rule in RULES if "`" not in rows[rule.number][2]] == []


def test_a_rule_that_nobody_asked_of_a_real_broker_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_groups, "RULES", (*RULES, Rule("9.9", "New", "Nobody has asked.")))

    with pytest.raises(ValueError, match=r"shows the rules 9\.9"):
        share_groups.page()


def test_a_story_that_is_not_recorded_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_groups, "STORIES", {"2.11": ("a_node_falls_in_love",)})

    with pytest.raises(ValueError, match=r"rule 2\.11: no story a_node_falls_in_love"):
        share_groups.page()


def test_a_defect_that_no_conversation_shows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(differences, "DEFECTS", (Defect("It hums", ("share-hum",)),))

    with pytest.raises(ValueError, match="no conversation share-hum"):
        differences.page()


def test_share_groups_differ_only_where_kafka_promises_no_order_or_choice() -> None:
    assert {row.subject for row in differences.SHARE_GROUPS} == {"Assignment", "Order of rows", "Byte budget"}
    assert all("Kafka promises" in row.why for row in differences.SHARE_GROUPS)
