"""Makes rows of captures of different brokers comparable: without ids, times and repeated requests."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from kwire.capture.model import Row
from tools.oracle.conversations.normalization import ResponseNormalizer

Json = Any
#: The comparable columns, in addition to the bodies.
_COLUMNS = (
    "api_name",
    "api_version",
    "header_version",
    "client_id",
    "principal",
    "error_code",
    "error_name",
    "throttle_ms",
    "n_topics",
    "n_partitions",
    "status",
    "in_flight",
    "order_ok",
    "issues",
)
#: The only node of the mock has the id 1, that of Kafka 0.
_NORMAL = ResponseNormalizer({}, {0: "<node>", 1: "<node>"})
#: The random suffix of names in a run of a conversation, as in "t-abcdefgh".
_RUN = re.compile(r"^[a-z]+-([a-z]{8})$")


def comparable_connections(found: Iterable[Row]) -> list[list[Json]]:
    """The comparable rows of each connection of a conversation's clients, in the order in which they were opened."""
    by_connection: dict[tuple[object, object], list[Row]] = defaultdict(list)
    for row in found:
        if str(row["client_id"] or "").startswith(("client-", "warm-up")):
            by_connection[row["conn_id"], row["stream_epoch"]].append(row)
    comparable = []
    runs: list[str] = []
    for rows in sorted(by_connection.values(), key=lambda rows: _int(rows[0]["req_ts"])):
        runs += [run for row in rows for run in _runs_in(row) if run not in runs]
        comparable.append(_without_repetitions([_comparable(row, runs) for row in rows]))
    return comparable


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def _runs_in(row: Row) -> list[str]:
    """The random suffixes of names in a request."""
    text = f"{row['body_request']}"
    return [found[1] for word in re.findall(r'"([^"]*)"', text) if (found := _RUN.match(word))]


def _comparable(row: Row, runs: list[str]) -> Json:
    comparable = {name: row[name] for name in _COLUMNS}
    for side in ("body_request", "body_response"):
        tree = None if row[side] is None else json.loads(_without_runs(str(row[side]), runs))
        comparable[side] = (
            None if tree is None else _without_producers(_NORMAL.normalize_response({}, tree, 0, lambda each: each))
        )
    if len(_error_codes(comparable["body_response"])) > 1:
        # Without an order of rows, any error may be the first.
        comparable["error_code"] = comparable["error_name"] = "one of several"
    issues: Json = comparable["issues"]
    for issue in issues:
        issue["detail"] = "*"  # For example a checksum of data with times.
    return comparable


def _without_runs(text: str, runs: list[str]) -> str:
    return re.sub("|".join(map(re.escape, runs)), "<run>", text) if runs else text


def _without_producers(tree: Json) -> Json:
    if isinstance(tree, dict):
        return {
            key: "<id>" if key.lower().endswith("producerid") and value not in (None, -1) else _without_producers(value)
            for key, value in tree.items()
        }
    return [_without_producers(each) for each in tree] if isinstance(tree, list) else tree


def _error_codes(tree: Json) -> set[int]:
    """All error codes in a response."""
    if isinstance(tree, list):
        return set().union(*map(_error_codes, tree))
    if not isinstance(tree, dict):
        return set()
    codes = {value for key, value in tree.items() if key.lower().endswith("errorcode") and value}
    return codes.union(*map(_error_codes, tree.values()))


def _without_repetitions(found: list[Json]) -> list[Json]:
    """The last of consecutive equal requests, which a client repeats until the response is ready."""
    distinct_rows: list[Json] = []
    for row in found:
        if (
            distinct_rows
            and distinct_rows[-1]["api_name"] == row["api_name"]
            and distinct_rows[-1]["body_request"] == row["body_request"]
        ):
            distinct_rows[-1] = row
        else:
            distinct_rows.append(row)
    return distinct_rows


def comparable_level_rows(found: Iterable[Row]) -> list[str]:
    """The rows of a level below `messages` of a conversation's clients, sorted, since partitions have no order."""
    distinct_rows = []
    for row in found:
        if str(row["client_id"] or "").startswith("client-"):
            comparable = {name: value for name, value in row.items() if name not in _IDS_AND_TIMES}
            for name in ("topic", "group_id"):
                if comparable.get(name) is not None:
                    comparable[name] = re.sub(r"-[a-z]{8}$", "-<run>", str(comparable[name]))
            distinct_rows.append(json.dumps(comparable))
    return sorted(distinct_rows)


_IDS_AND_TIMES = frozenset(
    [
        "file",
        "req_packet",
        "resp_packet",
        "conn_id",
        "stream_epoch",
        "correlation_id",
        "topic_id",
        "producer_id",
        "ts",
        "timestamp",
    ]
)
