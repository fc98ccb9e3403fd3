"""Messages of removed versions are judged as classes of the newest release, with defaults of what they lack."""

from __future__ import annotations

import pytest

from kwire.codec import decode
from kwire.conformance.capture_exchanges import find_capture_notes
from kwire.conformance.newest_form import newest_form
from kwire.messages import fetch as newest_fetch
from kwire.messages.before_4_0 import controlled_shutdown, fetch
from kwire.registry import REMOVED_EDITION, codec_of_class, message_class
from kwire.schema import load_schema, own_message_names
from tests.support.captures.old_clients import old_client
from tests.support.messages.golden_vectors import vectors


def test_a_fetch_of_a_removed_version_has_the_defaults_of_the_fields_that_it_lacks() -> None:
    asked = fetch.FetchRequest(max_wait_ms=500, topics=[fetch.FetchTopic("t", [fetch.FetchPartition(3, 40, 100)])])

    assert newest_form(asked) == newest_fetch.FetchRequest(
        max_wait_ms=500,
        topics=[
            newest_fetch.FetchTopic(
                "t", partitions=[newest_fetch.FetchPartition(3, fetch_offset=40, partition_max_bytes=100)]
            )
        ],
    )


def test_a_message_of_the_newest_release_or_of_a_removed_api_stays() -> None:
    for message in (newest_fetch.FetchRequest(), controlled_shutdown.ControlledShutdownRequest(), None):
        assert newest_form(message) is message


@pytest.mark.parametrize("name", [name for name in own_message_names(REMOVED_EDITION) if load_schema(name).versions])
def test_every_message_of_a_removed_version_has_a_newest_form(name: str) -> None:
    for vector in vectors(REMOVED_EDITION):
        if vector.message == name:
            message = newest_form(decode(name, vector.version, vector.raw, edition=REMOVED_EDITION))

            assert message is not None
            assert codec_of_class(type(message)).message is message_class(name)


def test_a_capture_of_an_old_client_is_judged() -> None:
    assert find_capture_notes(old_client()) == []
