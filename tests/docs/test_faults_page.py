"""docs/faults.md describes every condition, action and profile that there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from mockbroker.faults import ClusterFault, Fault, Then, When
from mockbroker.faults.chaos import PROFILES
from mockbroker.faults.cluster_model import Action, CoordinatorName
from mockbroker.faults.model import Answer, Drop, ErrorPlace, Event

_PAGE = (Path(__file__).parents[2] / "docs" / "faults.md").read_text(encoding="utf-8")
_WORDS = set(re.findall(r"[\w-]+", _PAGE))


@pytest.mark.parametrize("kind", [When, Then, ClusterFault, Fault])
def test_every_field_is_on_the_page(kind: type[When | Then | ClusterFault | Fault]) -> None:
    assert [name for name in kind.__struct_fields__ if name not in _WORDS | {"action"}] == []


@pytest.mark.parametrize("choice", [Action, CoordinatorName, Answer, Drop, ErrorPlace, Event])
def test_every_choice_is_on_the_page(choice: object) -> None:
    assert [name for name in get_args(choice) if name not in _WORDS] == []


def test_every_profile_has_a_row() -> None:
    assert set(re.findall(r"^\| `([\w-]+)` \| ", _PAGE, re.MULTILINE)) == set(PROFILES)
