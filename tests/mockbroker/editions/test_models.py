"""The models of share partitions, groups, sessions and coordinators, by the rules of every edition of KIP-932."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test
from msgspec.structs import replace

from mockbroker.editions import load_edition
from mockbroker.state.share.share_rules import SHARE_EDITIONS, ShareRules
from tests.mockbroker.state import test_groups
from tests.mockbroker.state.share import test_share_partition, test_share_session_model
from tests.mockbroker.state.share_coordinator import test_share_coordinator_model

pytestmark = pytest.mark.slow

OTHERS = SHARE_EDITIONS
_SETTINGS = settings(max_examples=40, stateful_step_count=40, deadline=None)


def _run_model(model: type[RuleBasedStateMachine], rules: ShareRules, *, examples: int = 40) -> None:
    by_its_rules = type(model.__name__, (model,), {"share_rules": rules, "has_queues": False})
    run_state_machine_as_test(by_its_rules, settings=settings(_SETTINGS, max_examples=examples))


@pytest.mark.parametrize("edition", OTHERS)
def test_a_share_partition_is_as_its_table_in_every_edition(edition: str) -> None:
    _run_model(test_share_partition.ShareHistory, load_edition(edition).rules)


@pytest.mark.parametrize("edition", OTHERS)
def test_a_share_group_is_as_its_records_in_every_edition(edition: str) -> None:
    _run_model(test_groups.ShareGroups, load_edition(edition).rules)


@pytest.mark.parametrize("edition", OTHERS)
def test_a_share_session_is_as_its_dictionary_in_every_edition(edition: str) -> None:
    rules = load_edition(edition).rules
    # Eviction of idle sessions requires the limit, and time.
    _run_model(test_share_session_model.Sessions, rules, examples=200 if rules.sessions.idle_eviction_ms else 20)


@pytest.mark.parametrize("edition", OTHERS)
def test_a_share_coordinator_is_as_its_dictionary_in_every_edition(edition: str) -> None:
    rules = load_edition(edition).rules
    # No history here is long enough for 256 updates.
    updates_max = min(rules.state.max_updates_per_snapshot, 2)
    limited = replace(rules, state=replace(rules.state, max_updates_per_snapshot=updates_max))
    _run_model(test_share_coordinator_model.Coordinators, limited)
