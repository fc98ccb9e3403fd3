"""Columns from the headers of an exchange equal those of its row."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.capture.display_filter.display_filter import DisplayFilter
from kwire.capture.kafka.exchange import Exchange
from kwire.capture.kafka.topic_names import TopicNames
from kwire.capture.options import Options
from kwire.capture.reader import read_outcomes
from kwire.capture.rows.message_rows import MessageRowBuilder
from kwire.cli.decode.header_row import COLUMNS, build_header_row
from tests.support.captures.capture_files import CAPTURES


@pytest.mark.parametrize("path", sorted(CAPTURES.glob("*.pcap*")), ids=lambda path: path.name)
def test_header_columns_equal_those_of_the_rows(path: Path) -> None:
    rows = MessageRowBuilder("", Options(bodies=False), TopicNames({}))
    for outcome in read_outcomes(path, Options()):
        if isinstance(outcome, Exchange):
            row = rows.exchange_row(outcome)
            assert build_header_row(outcome) == {name: row[name] for name in COLUMNS}


def test_only_necessary_conditions_are_evaluated_early() -> None:
    def necessary(text: str, **values: object) -> bool | None:
        test = DisplayFilter(text).test_for_columns(COLUMNS)
        return None if test is None else test({**dict.fromkeys(COLUMNS), **values})

    assert necessary("api=Fetch and error!=0", api_name="Fetch") is True
    assert necessary("api=Fetch and error!=0", api_name="Produce") is False
    assert necessary("api=Fetch or error!=0", api_name="Produce") is None
    assert necessary("not (api=Fetch and latency>1s)", api_name="Fetch", latency_us=1) is True
    assert necessary("error!=0") is None
