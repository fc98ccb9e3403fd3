"""The table of rules, and its page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kwire.conformance.rules import RULES, check_rule_ids

ROOT = Path(__file__).parents[3]


def test_the_page_has_the_table_of_rules() -> None:
    page = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z-]+)` \| (\w+) \| (.+) \| (.+) \|$", page, re.MULTILINE)

    assert rows == [(rule.id, rule.level.value, rule.requirement, rule.source) for rule in RULES.values()]


def test_every_rule_has_a_test_that_breaks_it() -> None:
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*_rules.py"))

    assert [rule for rule in RULES if f'"{rule}"' not in tests] == []


def test_an_unknown_rule_is_refused_with_the_nearest() -> None:
    assert check_rule_ids(["throttle-ignored"]) == {"throttle-ignored"}
    with pytest.raises(ValueError, match="'throttle_ignored' is no conformance rule; did you mean 'throttle-ignored'"):
        check_rule_ids(["throttle_ignored"])
    with pytest.raises(ValueError, match="the rules are api-version-not-offered, "):
        check_rule_ids(["x"])
    with pytest.raises(TypeError, match="one text"):
        check_rule_ids("throttle-ignored")
