"""Plays recorded conversations against a cluster on virtual time, and normalises its answers as the record is.

A conversation is a script of raw requests, NAME.json, with the answers that a real Apache Kafka 4.3.0 gave,
NAME.expected.json: one for each step that is not set-up. What differs from run to run is masked: throttle times,
hosts, ports, generated ids; error messages are null, "" or "<text>"; arrays are sorted where Kafka promises no order.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from kwire import from_json, to_json, uuids
from kwire.records import Record, read_batches, write_batch
from kwire.registry import request_class
from mockbroker.handlers import ROUTES
from tests.mockbroker.broker import Broker
from tests.mockbroker.conversation_forms import Forms, Json, Step, at

GOLDEN = Path(__file__).parents[1] / "golden" / "conversations"
_KEYS = {route.name: route.api_key for route in ROUTES.values()}
_RETRIES_MAX = 150
#: An answer that waits is looked for this often, and this long.
_POLL_MS, _WAIT_MS = 10, 40_000
_TRANSIENT = (14, 15, 16, 51)
_VARIABLE = re.compile(r"\$\{([^}]+)\}")


def names() -> list[str]:
    """All recorded conversations."""
    return sorted(path.stem for path in GOLDEN.glob("*.json") if not path.name.endswith(".expected.json"))


def load(name: str) -> tuple[Step, list[Json]]:
    """A script and the answers of the real broker."""
    return json.loads((GOLDEN / f"{name}.json").read_text()), json.loads((GOLDEN / f"{name}.expected.json").read_text())


def broker_for(script: Step) -> Broker:
    """A cluster configured as the broker was that answered."""
    named = script.get("broker") or "common"
    config: dict[str, str] = {}
    for file in ("every.properties", f"{named}.properties"):
        for line in (GOLDEN / file).read_text().splitlines():
            key, found, value = line.partition("=")
            if found and not line.startswith("#"):
                config[key.strip()] = value.strip()
    features = ("share.version=0",) if named == "noshare" else ()
    return Broker(config=config, features=features)


class Player:
    """Plays one script; `answers` are the normalised ones, in order."""

    def __init__(self, script: Step, broker: Broker) -> None:
        self.script = script
        self.broker = broker
        self.variables: dict[str, Json] = {"run": "r1x"}
        self.answers: list[Json] = []
        self._waiting: dict[str, Step] = {}
        self._sent_at_ms: dict[str, int] = {}
        self._forms = Forms(self.variables, self._substituted)

    def play(self) -> list[Json]:
        """Run every step."""
        for step in self.script["steps"]:
            if "sleep_ms" in step:
                self.broker.advance(step["sleep_ms"])
            elif "await" in step:
                self._await(step)
            elif "close" in step:
                self.broker.disconnect(step["close"])
            elif "connect" in step:
                self._connect(step)
            elif "produce" in step:
                self._produce(step)
            else:
                self._exchange(step, step["api"], step["version"], partial(self._body, step))
        return self.answers

    def _body(self, step: Step) -> Json:
        return self._substituted(step.get("body", {}))

    def _connect(self, step: Step) -> None:
        name = step["connect"]
        client_id = self._substituted(step.get("clientId", f"client-{name}"))
        self.broker.reconnect(name, client_id=client_id)

    def _await(self, step: Step) -> None:
        asked = self._waiting.pop(step["await"])
        raw = self._received(step["await"], asked["version"])
        self._answered({**asked, **step}, raw)

    def _exchange(
        self, step: Step, api: str, version: int, body: Callable[[], Json], transient: tuple[int, ...] = _TRANSIENT
    ) -> None:
        connection = step.get("conn", "a")
        transient = step.get("transient", transient)
        for _ in range(_RETRIES_MAX):
            cls = request_class(_KEYS[api])
            self.broker.send(from_json(cls, version, body()), version, connection=connection)
            self._sent_at_ms[connection] = self.broker.now_ms
            if step.get("async"):
                self._waiting[connection] = step
                return
            raw = self._received(connection, version)
            self._save(step, raw)
            until = step.get("until")
            if (self._reached(raw, until)) if until is not None else not _has_code(raw, transient):
                break
            self.broker.advance(100)
        self._answered(step, raw)

    def _received(self, connection: str, version: int) -> Json:
        self.broker.advance(0)
        for _ in range(_WAIT_MS // _POLL_MS):
            raw = self._taken(connection, version)
            if raw is not None:
                return raw
            self.broker.advance(_POLL_MS)
        return {"timeout": True}

    def _taken(self, connection: str, version: int) -> Json:
        message = self.broker.answer(connection)
        if message is not None:
            return _decoded(message, version)
        return {"closed": True} if self.broker.closed.pop(connection, None) else None

    def _save(self, step: Step, raw: Json) -> None:
        for name, pointer in step.get("save", {}).items():
            value = at(raw, pointer)
            if value is not None:
                self.variables[name] = value

    def _answered(self, step: Step, raw: Json) -> None:
        self._save(step, raw)
        if not step.get("setup"):
            took_ms = self.broker.now_ms - self._sent_at_ms[step.get("await") or step.get("conn", "a")]
            self.answers.append(self._forms.finished(step, raw, took_ms=took_ms))

    def _produce(self, step: Step) -> None:
        wanted = self._substituted(step["produce"])
        step = {**step, "conn": wanted.get("conn", step.get("conn", "a"))}
        version = wanted.get("version", 11)
        groups = [wanted["batches"]] if wanted.get("together") else [[batch] for batch in wanted["batches"]]
        for group in groups:
            records = b"".join(self._batch(batch) for batch in group)
            topic = {"topicId": wanted["topicId"]} if version >= 13 else {"name": wanted["topic"]}
            body = {
                "transactionalId": wanted.get("transactionalId"),
                "acks": wanted.get("acks", -1),
                "timeoutMs": 10_000,
                "topicData": [
                    topic
                    | {
                        "partitionData": [
                            {
                                "index": wanted.get("partition", 0),
                                "records": None if wanted.get("null") else base64.b64encode(records).decode(),
                            }
                        ]
                    }
                ],
            }
            if wanted.get("acks", -1) == 0:
                request = from_json(request_class(_KEYS["Produce"]), version, body)
                self.broker.send(request, version, connection=step["conn"], answered=False)
                continue
            self._exchange(step, "Produce", version, partial(dict, body), transient=(6, *_TRANSIENT))

    def _batch(self, wanted: Step) -> bytes:
        now_ms = wanted.get("timestamp", self.broker.now_ms)
        base = wanted.get("baseOffset", 0)
        records = [
            Record(
                base + index,
                now_ms + wanted.get("step", 0) * index,
                wanted["key"].encode() if "key" in wanted else None,
                None if wanted.get("tombstone") else bytes([97 + index % 26]) * wanted.get("size", 10),
                (),
            )
            for index in range(wanted.get("records", 1))
        ]
        raw = bytearray(
            write_batch(
                records,
                base_offset=base,
                codec=wanted.get("codec", "none"),
                magic=wanted.get("magic", 2),
                producer_id=wanted.get("producerId", -1),
                producer_epoch=wanted.get("producerEpoch", -1),
                base_sequence=wanted.get("baseSequence", -1),
                transactional=wanted.get("transactional", False),
                control=wanted.get("control", False),
            )
        )
        if wanted.get("corrupt"):
            raw[17] ^= 0x55
        return bytes(raw)

    def _variable(self, name: str) -> Json:
        if name.startswith("uuid:"):
            made = uuids.to_text(name.encode().ljust(16, b"~")[:16])
            return self.variables.setdefault(name[5:], made)
        if name == "now":
            return self.broker.now_ms
        if name in self.variables:
            return self.variables[name]
        sum_ = re.fullmatch(r"(.+?)([+-]\d+)", name)
        assert sum_ is not None, f"no variable {name}"
        return self.variables[sum_.group(1)] + int(sum_.group(2))

    def _substituted(self, node: Json) -> Json:
        if isinstance(node, str):
            whole = _VARIABLE.fullmatch(node)
            if whole:
                return self._variable(whole.group(1))
            return _VARIABLE.sub(lambda found: str(self._variable(found.group(1))), node)
        if isinstance(node, list):
            return [self._substituted(entry) for entry in node]
        if isinstance(node, dict):
            return {key: self._substituted(value) for key, value in node.items()}
        return node

    def _reached(self, raw: Json, until: Step) -> bool:
        for pointer, wanted in until.items():
            have, want = at(raw, pointer), self._substituted(wanted)
            if isinstance(want, dict) and "not" in want:
                if have == want["not"]:
                    return False
            elif isinstance(want, dict) and "size" in want:
                if len(have or ()) != want["size"]:
                    return False
            elif have != want:
                return False
        return True

def _decoded(message: Any, version: int) -> Json:
    tree = to_json(message, version)
    for topic, topic_tree in zip(getattr(message, "responses", ()), tree.get("responses", ()), strict=False):
        for row, row_tree in zip(getattr(topic, "partitions", ()), topic_tree.get("partitions", ()), strict=False):
            if "records" in row_tree:
                row_tree["records"] = [
                    [
                        batch.base_offset,
                        batch.last_offset,
                        batch.codec.name.lower(),
                        batch.is_control,
                        batch.is_transactional,
                    ]
                    for batch in read_batches(row.records or b"", partial_ok=True)
                ]
    return tree


def _has_code(node: Json, codes: Any) -> bool:
    if isinstance(node, dict):
        return any(
            (key.lower().endswith("errorcode") and value in codes) or _has_code(value, codes)
            for key, value in node.items()
        )
    return isinstance(node, list) and any(_has_code(entry, codes) for entry in node)
