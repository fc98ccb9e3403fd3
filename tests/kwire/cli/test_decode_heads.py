"""What heads tell early is what rows tell later."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.capture.exchange import Exchange
from kwire.capture.options import Options
from kwire.capture.pipeline import outcomes
from kwire.capture.rows import MessageRows
from kwire.capture.topic_names import TopicNames
from kwire.capture.where.where import Where
from kwire.cli.decode_heads import COLUMNS, head
from tests.kwire.capture.wire import CAPTURES


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("*.pcap*")), ids=lambda path: path.name)
def test_heads_say_what_the_rows_say(path: Path) -> None:
    rows = MessageRows("", Options(bodies=False), TopicNames({}))
    for outcome in outcomes(path, Options()):
        if isinstance(outcome, Exchange):
            row = rows.exchange(outcome)
            assert head(outcome) == {name: row[name] for name in COLUMNS}


def test_only_what_must_hold_in_any_case_is_asked_early() -> None:
    def necessary(text: str, **values: object) -> bool | None:
        test = Where(text).necessary(COLUMNS)
        return None if test is None else test({**dict.fromkeys(COLUMNS), **values})

    assert necessary("api=Fetch and error!=0", api_name="Fetch") is True
    assert necessary("api=Fetch and error!=0", api_name="Produce") is False
    assert necessary("api=Fetch or error!=0", api_name="Produce") is None
    assert necessary("not (api=Fetch and latency>1s)", api_name="Fetch", latency_us=1) is True
    assert necessary("error!=0") is None
