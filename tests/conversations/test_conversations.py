"""Scripts of raw requests and the responses of real brokers of each release: on virtual time, and through sockets.

A script whose response lists unsupported APIs is skipped.
"""

from __future__ import annotations

from typing import Any

import pytest

from kwire.schema import RELEASES
from mockbroker import Cluster
from mockbroker.handlers import ROUTES
from tests.conversations import script_library
from tools.oracle.conversations.broker_properties import BROKERS, features, properties, virtual_broker
from tools.oracle.conversations.normalization import difference
from tools.oracle.conversations.script_runner import ScriptRunner
from tools.oracle.conversations.socket_brokers import ClockedBroker
from tools.oracle.conversations.virtual_broker import Broker

SERVED = {route.name for route in ROUTES.values()}
CONVERSATIONS = [(name, release) for release in RELEASES for name in script_library.script_names(release)]
#: All scripts with the newest release, and with an older one those that it answers otherwise.
OVER_SOCKETS = [
    (name, release)
    for name, release in CONVERSATIONS
    if release == RELEASES[0]
    or script_library.RECORDED.find(name, release) != script_library.RECORDED.find(name, RELEASES[0])
]


def _check_supported(script: Any, expected: Any) -> None:
    missing = sorted({step["api"] for step in script["steps"] if "api" in step} - SERVED)
    if missing:
        pytest.fail(f"requires {', '.join(missing)}, not supported")
    listed = script_library.listed_apis(expected)
    if listed - ROUTES.keys():
        pytest.skip(f"lists {len(listed - ROUTES.keys())} unsupported APIs")
    if script_library.broker_name(script) not in BROKERS:
        pytest.fail(f"needs the broker {script['broker']!r}")


def _run_and_compare(name: str, release: str, broker: Broker) -> None:
    for earlier in script_library.PRECEDING_SCRIPTS.get(name, ()):
        ScriptRunner(broker, script_library.read_script(earlier, release)).run()
    expected = script_library.RECORDED.read(name, release)
    answers = ScriptRunner(broker, script_library.read_script(name, release)).run()

    for index, (want, got) in enumerate(zip(expected, answers, strict=False)):
        assert difference(want, got) is None, f"answer {index}"
    assert len(answers) == len(expected)


@pytest.mark.parametrize(("name", "release"), CONVERSATIONS)
def test_conversation(name: str, release: str) -> None:
    script = script_library.read_script(name, release)
    _check_supported(script, script_library.RECORDED.read(name, release))

    _run_and_compare(name, release, virtual_broker(script_library.broker_name(script), release))


@pytest.mark.parametrize(("name", "release"), OVER_SOCKETS)
def test_conversation_over_sockets(name: str, release: str) -> None:
    script = script_library.read_script(name, release)
    _check_supported(script, script_library.RECORDED.read(name, release))
    broker = script_library.broker_name(script)

    with Cluster(properties=properties(broker), features=features(broker), release=release) as cluster:
        _run_and_compare(name, release, ClockedBroker(cluster))
