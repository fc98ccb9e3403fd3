"""The models of share partitions, groups, sessions and coordinators, by the rules of every edition of KIP-932."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test
from msgspec.structs import replace

from kwire.registry import DEFAULT_EDITION, EDITIONS
from mockbroker.editions import edition_of
from mockbroker.state.share_rules import ShareRules
from tests.mockbroker.state import (
    test_group_models,
    test_share_coordinator_model,
    test_share_partition_model,
    test_share_session_model,
)

OTHERS = [edition for edition in EDITIONS if edition != DEFAULT_EDITION]
_SETTINGS = settings(max_examples=40, stateful_step_count=40, deadline=None)


def _play(model: type[RuleBasedStateMachine], rules: ShareRules, *, examples: int = 40) -> None:
    by_its_rules = type(model.__name__, (model,), {"share_rules": rules})
    run_state_machine_as_test(by_its_rules, settings=settings(_SETTINGS, max_examples=examples))


@pytest.mark.parametrize("edition", OTHERS)
def test_a_share_partition_is_as_its_table_in_every_edition(edition: str) -> None:
    _play(test_share_partition_model.ShareHistory, edition_of(edition).rules)


@pytest.mark.parametrize("edition", OTHERS)
def test_a_share_group_is_as_its_records_in_every_edition(edition: str) -> None:
    _play(test_group_models.ShareGroups, edition_of(edition).rules)


@pytest.mark.parametrize("edition", OTHERS)
def test_a_share_session_is_as_its_dictionary_in_every_edition(edition: str) -> None:
    rules = edition_of(edition).rules
    # Where idle sessions make room, that takes a full room and time.
    _play(test_share_session_model.Sessions, rules, examples=200 if rules.session_idle_ms else 20)


@pytest.mark.parametrize("edition", OTHERS)
def test_a_share_coordinator_is_as_its_dictionary_in_every_edition(edition: str) -> None:
    rules = edition_of(edition).rules
    # No history here is long enough for 256 updates.
    _play(test_share_coordinator_model.Coordinators, replace(rules, updates_max=min(rules.updates_max, 2)))
