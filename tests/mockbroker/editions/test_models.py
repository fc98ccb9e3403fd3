"""The models of share partitions and share groups, played by the rules of every edition of KIP-932."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from kwire.registry import DEFAULT_EDITION, EDITIONS
from mockbroker.editions import edition_of
from tests.mockbroker.state import test_group_models, test_share_partition_model

OTHERS = [edition for edition in EDITIONS if edition != DEFAULT_EDITION]
_SETTINGS = settings(max_examples=40, stateful_step_count=40, deadline=None)


def _play(model: type[RuleBasedStateMachine], edition: str) -> None:
    by_its_rules = type(model.__name__, (model,), {"share_rules": edition_of(edition).rules})
    run_state_machine_as_test(by_its_rules, settings=_SETTINGS)


@pytest.mark.parametrize("edition", OTHERS)
def test_a_share_partition_is_as_its_table_in_every_edition(edition: str) -> None:
    _play(test_share_partition_model.ShareHistory, edition)


@pytest.mark.parametrize("edition", OTHERS)
def test_a_share_group_is_as_its_records_in_every_edition(edition: str) -> None:
    _play(test_group_models.ShareGroups, edition)
