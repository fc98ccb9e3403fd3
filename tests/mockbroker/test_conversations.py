"""The broker answers recorded conversations as a real Apache Kafka 4.3.0 did, on virtual time."""

from __future__ import annotations

import pytest

from mockbroker.handlers import ROUTES
from tests.mockbroker import conversations

_SERVED = {route.name for route in ROUTES.values()}
#: These compare the whole list of APIs, of which some are not served yet.
_LIST_EVERY_API = {"other-apiversions-forms", "share-off-api-versions"}


def _playable() -> list[str]:
    """Conversations that use served APIs only; docs/not-supported.md names the others."""
    scripts = {name: conversations.load(name)[0] for name in conversations.names()}
    return [
        name
        for name, script in scripts.items()
        if name not in _LIST_EVERY_API and {step["api"] for step in script["steps"] if "api" in step} <= _SERVED
    ]


@pytest.mark.parametrize("name", _playable())
def test_answers_are_those_of_the_real_broker(name: str) -> None:
    script, expected = conversations.load(name)

    answers = conversations.Player(script, conversations.broker_for(script)).play()

    for index, (answer, want) in enumerate(zip(answers, expected, strict=True)):
        assert answer == want, f"answer {index}"
