"""The share scripts in version 0, against the recorded answers of Apache Kafka 4.0.0."""

from __future__ import annotations

import pytest

from tests.conversations import early
from tests.conversations.player import Player


@pytest.mark.parametrize("name", early.names())
def test_conversation_with_the_early_access(name: str) -> None:
    script = early.script(name)
    assert script is not None
    expected = early.recorded(name)

    answers = Player(early.venue(early.broker_of(script)), script).play()

    for index, (want, got) in enumerate(zip(expected, answers, strict=False)):
        assert early.difference(want, got) is None, f"answer {index}"
    assert len(answers) == len(expected)
