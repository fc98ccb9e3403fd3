"""The journal's limits."""

from __future__ import annotations

import pytest

from mockbroker.journal import journal
from mockbroker.journal.journal import Journal


def test_names_of_topics_are_limited_in_number_and_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "TOPIC_NAMES_MAX", 2)
    names = Journal()

    for name in ("a", "b", "b", "c"):
        names.record_topic_name(name.encode() * 16, name)

    assert list(names.topic_names.values()) == ["b", "c"]
