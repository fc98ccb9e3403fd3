"""The share scripts in version 0, and the recorded responses of Apache Kafka 4.0.0."""

from __future__ import annotations

import pytest

from tests.conversations import early
from tools.oracle.conversations.script_runner import ScriptRunner


@pytest.mark.parametrize("name", early.recorded_names())
def test_conversation_with_the_early_access(name: str) -> None:
    script = early.read_script(name)
    assert script is not None
    expected = early.read_recorded(name)

    answers = ScriptRunner(early.virtual_broker(early.broker_name(script)), script).run()

    for index, (want, got) in enumerate(zip(expected, answers, strict=False)):
        assert early.difference(want, got) is None, f"answer {index}"
    assert len(answers) == len(expected)
