"""The table of all cases, and the selection by patterns."""

from __future__ import annotations

import pytest

from mockbroker.certify.case import FAMILIES
from mockbroker.certify.case_table import NoSuchCase, find_cases, select_cases


def test_every_family_has_cases_in_its_order() -> None:
    families = [case.family for case in find_cases()]

    assert sorted(families, key=FAMILIES.index) == families
    assert set(families) == set(FAMILIES)


def test_every_case_stands_in_the_package_of_its_family() -> None:
    wrong = [case.id for case in find_cases() if f".cases.{case.family}." not in case.function.__module__]

    assert wrong == []


def test_the_quick_subset_has_cases_of_every_family() -> None:
    assert {case.family for case in find_cases() if case.quick} == set(FAMILIES)


def test_a_pattern_selects_by_id_family_and_subject() -> None:
    cases = find_cases()

    assert {case.family for case in select_cases(cases, ["share"])} == {"share"}
    found = {case.id for case in select_cases(cases, ["*.not-leader"])}
    assert {"producing.retries.not-leader", "fetching.errors.not-leader"} <= found
    assert all(name.endswith(".not-leader") for name in found)
    assert "share.session.lost" in [case.id for case in select_cases(cases, ["share.session"])]
    assert select_cases(cases, ["*"]) == cases


def test_a_pattern_without_a_match_names_the_nearest_case() -> None:
    with pytest.raises(
        NoSuchCase, match=r"no case matches 'share\.session\.lots'; did you mean share\.session\.lost\?"
    ):
        select_cases(find_cases(), ["share", "share.session.lots"])


def test_a_pattern_like_no_case_points_to_the_list() -> None:
    with pytest.raises(NoSuchCase, match="no case matches 'zzz'; --list shows the cases"):
        select_cases(find_cases(), ["zzz"])
