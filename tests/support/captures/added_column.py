"""Adds a column to `messages` as a developer would, and prints as JSON what shows it, and with which values.

Sets of columns are made on import, so the column is declared first, and this is a process of its own:
`python -m tests.support.captures.added_column PHASE [FORGOTTEN ...]`. FORGOTTEN: `declaration`, `columns` or `rows`,
the parts that are left out.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kwire.capture.rows import columns
from kwire.capture.rows.column import Column, ColumnKind, Phase

FILE = str(Path(__file__).parents[2] / "captures" / "small_aio.pcap")


def _declare(phase: Phase) -> None:
    columns.MESSAGES = (*columns.MESSAGES, Column("toy_size", ColumnKind.INT64, "size of a toy", phase, short="toy"))  # type: ignore[assignment]
    columns.LEVELS["messages"] = columns.MESSAGES


def _fill_columns(phase: Phase) -> None:
    """The function of the readers by columns."""
    from kwire.capture.columnar import header_columns
    from kwire.capture.model import CONNECTION_VALUES
    from kwire.capture.rows.session_values import SESSION_VALUES

    functions: dict[Phase, tuple[dict[str, Any], Callable[..., Any]]] = {
        Phase.CONNECTION: (CONNECTION_VALUES, lambda flow: flow.ends[0][1] + flow.ends[1][1]),
        Phase.REQUEST: (header_columns.REQUEST_VALUES, lambda each: each.request.frame.size),
        Phase.RESPONSE: (header_columns.RESPONSE_VALUES, lambda each: each.response.frame.size),
        Phase.SESSION: (SESSION_VALUES, lambda session, names: session.epoch + 1),
    }
    table, function = functions[phase]
    table["toy_size"] = function


def _fill_rows(phase: Phase) -> None:
    """The function of the readers that build rows one by one, for phases where it is not the same function."""
    from kwire.capture.rows import header_values as values

    of_request, of_response = values._request_values, values._response_values
    if phase is Phase.REQUEST:
        values._request_values = lambda request: of_request(request) | {"toy_size": request.frame.size}
    elif phase is Phase.RESPONSE:
        values._response_values = lambda response: of_response(response) | {"toy_size": response.frame.size}


def _decode(*arguments: str) -> list[str]:
    """What `kwire decode` prints."""
    import contextlib
    import io

    from kwire.cli.main import main

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main(["decode", FILE, *arguments])
    return out.getvalue().splitlines()


def _observe() -> dict[str, object]:
    from kwire.capture.reader import read_batches, read_rows
    from tools.reference import captures

    rows = [row["toy_size"] for row in read_rows(FILE)]
    lines = _decode("--format", "jsonl", "--columns", "toy", "-Y", "toy>=0")
    return {
        "rows": rows,
        "batches": [value for batch in read_batches(FILE, columns=["toy_size"]) for value in batch[0].to_pylist()],
        "schema": str(columns.arrow_schema("messages").field("toy_size").type),
        "json lines": [json.loads(line)["toy_size"] for line in lines],
        "table": _decode("--columns", "toy,api", "--limit", "1")[0].split(),
        "docs": [line for line in captures.render_page().splitlines() if "toy" in line],
    }


def main() -> int:
    """Add the column and print."""
    phase, forgotten = Phase[sys.argv[1]], sys.argv[2:]
    for part, add in {"declaration": _declare, "columns": _fill_columns, "rows": _fill_rows}.items():
        if part not in forgotten:
            add(phase)
    print(json.dumps(_observe()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
