"""Rows of captures of different brokers made comparable: without ids and times, what was asked again once."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from kwire.capture.rows import Row
from tests.conversations.normal import Normaliser

Json = Any
#: What is told of each exchange, beside the bodies.
_FACTS = (
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
#: The mock's only node is 1, the real one's 0.
_NORMAL = Normaliser({}, {0: "<node>", 1: "<node>"})
#: The names of a conversation's run, as in "t-abcdefgh".
_RUN = re.compile(r"^[a-z]+-([a-z]{8})$")


def conversations(found: Iterable[Row]) -> list[list[Json]]:
    """The comparable rows of each connection of a conversation's clients, in the order in which they were opened."""
    by_connection: dict[tuple[object, object], list[Row]] = defaultdict(list)
    for row in found:
        if str(row["client_id"] or "").startswith(("client-", "warm-up")):
            by_connection[row["conn_id"], row["stream_epoch"]].append(row)
    told = []
    runs: list[str] = []
    for rows in sorted(by_connection.values(), key=lambda rows: _int(rows[0]["req_ts"])):
        runs += [run for row in rows for run in _runs_in(row) if run not in runs]
        told.append(_asked_once([_comparable(row, runs) for row in rows]))
    return told


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def _runs_in(row: Row) -> list[str]:
    """Names of runs, where a topic or group of one is mentioned first."""
    text = f"{row['body_request']}"
    return [found[1] for word in re.findall(r'"([^"]*)"', text) if (found := _RUN.match(word))]


def _comparable(row: Row, runs: list[str]) -> Json:
    told = {name: row[name] for name in _FACTS}
    for side in ("body_request", "body_response"):
        tree = None if row[side] is None else json.loads(_without_runs(str(row[side]), runs))
        told[side] = None if tree is None else _without_producers(_NORMAL.finish({}, tree, 0, lambda each: each))
    if len(_codes(told["body_response"])) > 1:
        # Where rows have no order, the first error among them is any.
        told["error_code"] = told["error_name"] = "one of several"
    issues: Json = told["issues"]
    for issue in issues:
        issue["detail"] = "*"  # A checksum, for example, in which times are.
    return told


def _without_runs(text: str, runs: list[str]) -> str:
    return re.sub("|".join(map(re.escape, runs)), "<run>", text) if runs else text


def _without_producers(tree: Json) -> Json:
    if isinstance(tree, dict):
        return {
            key: "<id>" if key.lower().endswith("producerid") and value not in (None, -1) else _without_producers(value)
            for key, value in tree.items()
        }
    return [_without_producers(each) for each in tree] if isinstance(tree, list) else tree


def _codes(tree: Json) -> set[int]:
    """All errors in a response."""
    if isinstance(tree, list):
        return set().union(*map(_codes, tree))
    if not isinstance(tree, dict):
        return set()
    own = {value for key, value in tree.items() if key.lower().endswith("errorcode") and value}
    return own.union(*map(_codes, tree.values()))


def _asked_once(found: list[Json]) -> list[Json]:
    """Of what a client asked again until the answer was ready, the last."""
    kept: list[Json] = []
    for row in found:
        if kept and kept[-1]["api_name"] == row["api_name"] and kept[-1]["body_request"] == row["body_request"]:
            kept[-1] = row
        else:
            kept.append(row)
    return kept


def of_level(found: Iterable[Row]) -> list[str]:
    """The rows of a level below `messages`, of a conversation's clients; partitions of a message have no order."""
    kept = []
    for row in found:
        if str(row["client_id"] or "").startswith("client-"):
            told = {name: value for name, value in row.items() if name not in _IDS_AND_TIMES}
            for name in ("topic", "group_id"):
                if told.get(name) is not None:
                    told[name] = re.sub(r"-[a-z]{8}$", "-<run>", str(told[name]))
            kept.append(json.dumps(told))
    return sorted(kept)


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
