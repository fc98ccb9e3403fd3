"""Which keys have changed since a number of changes."""

from __future__ import annotations

import pytest

from mockbroker.state import changed_keys
from mockbroker.state.changed_keys import ChangedKeys


def test_keys_are_known_by_their_last_change_the_newest_last() -> None:
    changed: ChangedKeys[str] = ChangedKeys()
    for key in "abac":
        changed.add(key)

    assert changed.count == 4
    assert [changed.since(count) for count in range(5)] == [["b", "a", "c"], ["b", "a", "c"], ["a", "c"], ["c"], []]


def test_after_too_many_keys_only_the_latest_changes_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_keys, "_KEPT", 3)
    changed: ChangedKeys[str] = ChangedKeys()
    for key in "abcd":
        changed.add(key)

    assert changed.since(2) is None
    assert changed.since(3) == ["d"]
