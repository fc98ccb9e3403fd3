"""A column is declared once; each place that computes values has all declared columns, and no others."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from kwire.capture.columnar import header_columns
from kwire.capture.columnar.levels.level_reader import LEVELS as COLUMNAR_LEVELS
from kwire.capture.kafka.exchange import Client
from kwire.capture.model import CONNECTION_VALUES
from kwire.capture.options import Options
from kwire.capture.reader import read_batches
from kwire.capture.rows.column import BODY_PHASES, Phase
from kwire.capture.rows.columns import LEVELS, MESSAGE_KEY, level_columns, message_columns
from kwire.capture.rows.session_values import SESSION_VALUES
from tests.support.capture_model.pipeline import read_rows
from tests.support.captures.capture_files import CAPTURES

# Columns without a value in the captures of `tests/captures`; other tests make captures for them.
WITHOUT_VALUES = {
    *("principal", "issue", "headers"),
    *("dlq_group_id", "dlq_topic", "dlq_partition", "dlq_offset", "dlq_delivery_count", "dlq_reason"),
}


@pytest.mark.parametrize("level", LEVELS)
def test_each_declared_column_is_filled_one_by_one_and_by_columns(level: str) -> None:
    names = [column.name for column in level_columns(level)]
    options = Options(payload=True)
    by_rows, by_columns = set[str](), set[str]()
    for path in sorted(CAPTURES.glob("*.pcap*")):
        for row in read_rows(path, level, options):
            assert row.keys() == set(names)
            by_rows |= {name for name in names if row[name] not in (None, [])}
        for batch in read_batches(path, level, options):
            assert batch.schema.names == names
            values = {name: batch.column(name).to_pylist() for name in names}
            by_columns |= {name for name in names if any(value not in (None, []) for value in values[name])}

    assert set(names) - by_rows == WITHOUT_VALUES & set(names)
    assert set(names) - by_columns == WITHOUT_VALUES & set(names)


def test_each_phase_of_messages_has_a_function_for_each_of_its_columns() -> None:
    of_requests = {*header_columns.REQUEST_VALUES, "api_name", "client_id"}

    assert {*CONNECTION_VALUES, "file"} == message_columns(Phase.CONNECTION)
    assert {field.name for field in fields(Client)} == message_columns(Phase.CLIENT)
    assert of_requests == message_columns(Phase.REQUEST)
    assert set(header_columns.RESPONSE_VALUES) == message_columns(Phase.RESPONSE)
    assert set(SESSION_VALUES) == message_columns(Phase.SESSION)
    assert message_columns(Phase.LEVEL) == set()
    # The functions of these are found by name inside `BodyColumns` and `json_texts`.
    assert header_columns.COLUMNS | message_columns(*BODY_PHASES, Phase.SESSION, Phase.JSON) == _names("messages")


@pytest.mark.parametrize("level", COLUMNAR_LEVELS)
def test_each_other_level_has_the_declared_columns(level: str) -> None:
    of_exchange = {*(column.name for column in MESSAGE_KEY), "ts", "topic", "topic_id"}

    assert {*COLUMNAR_LEVELS[level].COLUMNS, *of_exchange} == _names(level)


@pytest.mark.parametrize("phase", ["CONNECTION", "REQUEST", "RESPONSE", "SESSION"])
def test_a_new_column_of_messages_is_a_declaration_and_the_functions_of_its_phase(phase: str) -> None:
    seen = json.loads(_add_column(phase).stdout)
    values = [value for value in seen["rows"] if value is not None]

    assert values
    assert seen["batches"] == seen["rows"]
    assert seen["json lines"] == values
    assert seen["table"] == ["TOY", "API"]
    assert seen["schema"] == "int64"
    assert seen["docs"] == ["| `toy` | `toy_size` | a size in bytes |", "| `toy_size` | int64 | size of a toy |"]


def test_a_forgotten_part_of_a_new_column_is_noticed() -> None:
    without_rows = json.loads(_add_column("REQUEST", "rows").stdout)

    assert without_rows["batches"] != without_rows["rows"]
    assert "no function builds the column toy_size" in _add_column("REQUEST", "columns").stderr
    assert "toy_size" in _add_column("REQUEST", "declaration").stderr


def _names(level: str) -> set[str]:
    return {column.name for column in level_columns(level)}


def _add_column(phase: str, *forgotten: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.support.captures.added_column", phase, *forgotten]
    return subprocess.run(command, cwd=Path(__file__).parents[4], capture_output=True, text=True, check=False)
