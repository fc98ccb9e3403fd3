"""The generated pages: every rule and every defect needs recorded answers of a real broker."""

from __future__ import annotations

import pytest

from tools.reference import differences, share_groups
from tools.reference.differences import Defect
from tools.reference.share_rules import RULES, Rule


def test_every_rule_of_share_groups_has_answers_of_a_real_broker() -> None:
    page = share_groups.render_page()

    rules = [line.split(" | ") for line in page.splitlines() if line.count(" | ") >= 3]
    rows = {cells[0].partition("</a>")[2].partition(" ")[0]: cells for cells in rules}
    assert [rule.number for rule in RULES if "`" not in rows[rule.number][2]] == []


def test_a_rule_without_answers_of_a_real_broker_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_groups, "RULES", (*RULES, Rule("9.9", "New", "Not verified.")))

    with pytest.raises(ValueError, match=r"shows the rules 9\.9"):
        share_groups.render_page()


def test_a_scenario_that_is_not_recorded_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_groups, "SCENARIOS", {"2.11": ("a_node_is_renamed",)})

    with pytest.raises(ValueError, match=r"rule 2\.11: no scenario a_node_is_renamed"):
        share_groups.render_page()


def test_a_defect_that_no_conversation_shows_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(differences, "DEFECTS", (Defect("It loops", ("share-loop",)),))

    with pytest.raises(ValueError, match="no conversation share-loop"):
        differences.render_page()


def test_share_groups_differ_only_where_kafka_promises_no_order_or_choice() -> None:
    assert {row.subject for row in differences.SHARE_GROUPS} == {
        "Assignment",
        "Order of rows",
        "Byte budget",
        "Share partitions whose state cannot be read",
    }
    assert all("Kafka promises" in row.why for row in differences.SHARE_GROUPS)
