"""Plays a script of requests, step by step, and gathers the answers that are to be compared."""

from __future__ import annotations

import base64
import random
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kwire import uuids
from kwire.client.scram import ScramClient
from kwire.codec import from_json, to_json
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.records import ControlType, Record, write_batch, write_marker
from kwire.registry import DEFAULT_EDITION
from tests.conversations.normal import Json, Normaliser, spell_records, text_of
from tests.conversations.state_topic import state_records
from tests.conversations.venues import Line, Venue

_VARIABLE = re.compile(r"\$\{([^}]+)\}")
_SUM = re.compile(r"(.+?)([+-]\d+)")
_RETRY_MS = 15_000
_PAUSE_MS = 100
_TRANSIENT = frozenset({14, 15, 16, 51})
_PRODUCE_TRANSIENT = _TRANSIENT | {6}


class Player:
    """One run of one script at a venue."""

    def __init__(self, venue: Venue, script: Mapping[str, Json]) -> None:
        self.venue = venue
        self.script = script
        self._edition: str = script.get("edition", DEFAULT_EDITION)
        # A seed per script keeps the names of one run apart from those of any other at the same broker.
        self._chance = random.Random(f"{script['name']} {venue.now_ms()}")
        self.variables: dict[str, Json] = {"run": "".join(self._chance.choices("abcdefghijklmnopqrstuvwxyz", k=8))}
        self.answers: list[Json] = []
        self._lines: dict[str, Line] = {}
        self._clients: dict[str, str] = {}
        self._listeners: dict[str, str] = {}
        self._asyncs: dict[str, Mapping[str, Json]] = {}
        self._nodes: dict[int, str] = {}

    def play(self) -> list[Json]:
        """All answers, normalised."""
        self._learn_nodes()
        for step in self.script["steps"]:
            self._step(step)
        for line in self._lines.values():
            line.close()
        return self.answers

    def _learn_nodes(self) -> None:
        line = self.venue.connect("warm-up")
        # As on the recording broker; else a script's first producer id is 0, which cannot be told from any other 0.
        line.submit(InitProducerIdRequest(None), 4, 4, ("InitProducerIdResponse", 4))
        line.receive()
        line.submit(MetadataRequest(topics=[]), 12, 12, ("MetadataResponse", 12))
        response: Any = line.receive()[0]
        for index, node_id in enumerate(sorted(broker.node_id for broker in response.brokers)):
            self._nodes[node_id] = f"<node{index}>"
        line.close()

    def _step(self, step: Mapping[str, Json]) -> None:
        if "api" in step:
            self._request(step)
        elif "produce" in step:
            self._produce(step)
        elif "sleep_ms" in step:
            self.venue.sleep(step["sleep_ms"])
        elif "connect" in step:
            name = step["connect"]
            self._clients[name] = str(self._resolve(step.get("clientId", f"client-{name}")))
            self._listeners[name] = step.get("listener", "PLAINTEXT")
            self._close(name)
            self._line(name)
        elif "scram" in step:
            self._scram(step)
        elif "state" in step:
            group_id = str(self._resolve(step["state"]))
            self._answer(step, state_records(self._line(step.get("conn", "a")), group_id, self._edition), 0)
        elif "close" in step:
            self._close(step["close"])
        elif "await" in step:
            asked = dict(self._asyncs.pop(step["await"]))
            asked.update({key: step[key] for key in ("elapsed",) if key in step})
            raw, took_ms = self._receive(
                self._line(step["await"]), asked.get("api", "Produce"), asked["answer_version"]
            )
            self._answer(asked, raw, took_ms)
        else:
            raise ValueError(f"unknown step {step}")

    def _line(self, name: str) -> Line:
        if name not in self._lines:
            client, listener = self._clients.get(name, f"client-{name}"), self._listeners.get(name, "PLAINTEXT")
            self._lines[name] = self.venue.connect(client, listener)
        return self._lines[name]

    def _close(self, name: str) -> None:
        line = self._lines.pop(name, None)
        if line is not None:
            line.close()

    def _request(self, step: Mapping[str, Json]) -> None:
        api, version = step["api"], step["version"]

        def build() -> msgspec.Struct:
            body = self._resolve(step.get("body", {}))
            if "token" in step:
                body["authBytes"] = base64.b64encode(self._resolve(step["token"]).encode()).decode()
            message: msgspec.Struct = from_json(f"{api}Request", version, body, edition=self._edition)
            return message

        self._exchange(step, api, version, build, frozenset(step.get("transient", _TRANSIENT)))

    def _exchange(
        self,
        step: Mapping[str, Json],
        api: str,
        version: int,
        build: Callable[[], msgspec.Struct],
        transient: frozenset[int],
    ) -> None:
        name = step.get("conn", "a")
        stop_ms = self.venue.now_ms() + _RETRY_MS
        answer_version = step.get("answerVersion", version)
        while True:
            line = self._line(name)
            expected = None if step.get("noanswer") else (f"{api}Response", answer_version)
            line.submit(build(), version, step.get("wireVersion", version), expected)
            if step.get("noanswer"):
                return
            if step.get("async"):
                self._asyncs[name] = {**step, "answer_version": answer_version}
                return
            raw, took_ms = self._receive(line, api, answer_version, offsets=bool(step.get("offsets")))
            is_late = self.venue.now_ms() > stop_ms
            if "until" in step:
                for variable, pointer in step.get("save", {}).items():
                    value = _at(raw, pointer)
                    if value is not None:
                        self.variables[variable] = value
                if not is_late and "closed" not in raw and not self._reached(raw, step["until"]):
                    self.venue.sleep(step.get("every", _PAUSE_MS))
                    continue
            elif not is_late and _has_code(raw, transient):
                self.venue.sleep(_PAUSE_MS)
                continue
            self._answer(step, raw, took_ms)
            return

    def _receive(self, line: Line, api: str, version: int, *, offsets: bool = False) -> tuple[Json, int]:
        message, took_ms = line.receive()
        if message is None:
            return {"closed": True}, took_ms
        raw = to_json(message, version)
        spell_records(api, raw, offsets=offsets)
        return raw, took_ms

    def _answer(self, step: Mapping[str, Json], raw: Json, took_ms: int) -> None:
        for variable, pointer in step.get("save", {}).items():
            value = _at(raw, pointer, _MISSING)
            if value is not _MISSING:
                self.variables[variable] = value
        if not step.get("setup"):
            normaliser = Normaliser(self.variables, self._nodes)
            self.answers.append(normaliser.finish(step, raw, took_ms, self._resolve))
        if "closed" in raw:
            self._close(step.get("conn", "a"))

    def _reached(self, raw: Json, until: Mapping[str, Json]) -> bool:
        for pointer, wanted in until.items():
            have, want = _at(raw, pointer, _MISSING), self._resolve(wanted)
            if isinstance(want, dict) and "not" in want:
                if have is _MISSING or have == want["not"]:
                    return False
            elif isinstance(want, dict) and "size" in want:
                if not isinstance(have, list) or len(have) != want["size"]:
                    return False
            elif have is _MISSING or (have is None) != (want is None) or str(have) != str(want):
                return False
        return True

    def _resolve(self, tree: Json) -> Json:
        if isinstance(tree, str):
            whole = _VARIABLE.fullmatch(tree)
            return self._variable(whole[1]) if whole else _VARIABLE.sub(lambda m: str(self._variable(m[1])), tree)
        if isinstance(tree, list):
            return [self._resolve(item) for item in tree]
        if isinstance(tree, dict):
            return {key: self._resolve(value) for key, value in tree.items()}
        return tree

    def _variable(self, name: str) -> Json:
        if name.startswith("uuid:"):
            fresh = uuids.to_text(self._chance.randbytes(16))
            return self.variables.setdefault(name[5:], fresh)
        if name == "now":
            return self.venue.now_ms()
        summed = _SUM.fullmatch(name)
        if summed and summed[1] == "now":
            return self.venue.now_ms() + int(summed[2])
        if name not in self.variables and summed and summed[1] in self.variables:
            return int(self.variables[summed[1]]) + int(summed[2])
        return self.variables[name]

    def _scram(self, step: Mapping[str, Json]) -> None:
        """Speak SCRAM after a handshake; each answer of the broker is one to compare."""
        asked = self._resolve(step["scram"])
        name, version = step.get("conn", "a"), asked.get("version", 2)
        talk = ScramClient(
            asked["mechanism"],
            asked["user"],
            asked["password"],
            nonce="".join(self._chance.choices("abcdefghijklmnopqrstuvwxyz", k=20)),
            extensions="tokenauth=true" if asked.get("token") else "",
        )
        said: bytes | None = talk.first()
        while said is not None:
            line = self._line(name)
            line.submit(
                SaslAuthenticateRequest(auth_bytes=said), version, version, ("SaslAuthenticateResponse", version)
            )
            raw, took_ms = self._receive(line, "SaslAuthenticate", version)
            heard = base64.b64decode(raw.get("authBytes", ""))
            said = talk.final(heard) if heard.startswith(b"r=") else None
            self._answer({**step, "mask": [*step.get("mask", ()), "/authBytes"]}, raw, took_ms)

    def _produce(self, raw: Mapping[str, Json]) -> None:
        produce = self._resolve(raw["produce"])
        step = {key: value for key, value in raw.items() if key != "produce"}
        if "conn" in produce:
            step["conn"] = produce["conn"]
        if produce.get("acks", -1) == 0:
            step["noanswer"] = True
        batches = produce["batches"]
        for several in [batches] if produce.get("together") else [[batch] for batch in batches]:
            data = b"".join(self._batch(batch) for batch in several)
            self._exchange(
                step,
                "Produce",
                produce.get("version", 11),
                lambda data=data: _produce_request(produce, data),  # type: ignore[misc]  # Bound now, not later.
                frozenset(step.get("transient", _PRODUCE_TRANSIENT)),
            )

    def _batch(self, batch: Mapping[str, Json]) -> bytes:
        timestamp = batch.get("timestamp", self.venue.now_ms())
        producer = {
            "producer_id": batch.get("producerId", -1),
            "producer_epoch": batch.get("producerEpoch", -1),
        }
        base = batch.get("baseOffset", 0)
        if batch.get("control"):
            return write_marker(ControlType.COMMIT, coordinator_epoch=0, timestamp=timestamp, **producer)
        size, keys = batch.get("size", 10), batch.get("keys") or [batch.get("key")] * batch.get("records", 1)
        records = [
            Record(
                offset=base + index,
                timestamp=timestamp + batch.get("step", 0) * index,
                key=None if key is None else key.encode(),
                value=None if batch.get("tombstone") else bytes([ord("a") + index % 26]) * size,
            )
            for index, key in enumerate(keys)
        ]
        data = bytearray(
            write_batch(
                records,
                codec=batch.get("codec", "none"),
                magic=batch.get("magic", 2),
                base_sequence=batch.get("baseSequence", -1),
                transactional=bool(batch.get("transactional")),
                **producer,
            )
        )
        if batch.get("corrupt"):
            data[17] ^= 0x55
        return bytes(data)


_MISSING = object()


def _at(tree: Json, pointer: str, default: Any = None) -> Json:
    """What a JSON pointer names."""
    for key in pointer[1:].split("/"):
        if isinstance(tree, list) and key.isdigit() and int(key) < len(tree):
            tree = tree[int(key)]
        elif isinstance(tree, dict) and key in tree:
            tree = tree[key]
        else:
            return default
    return tree


def _has_code(tree: Json, codes: frozenset[int]) -> bool:
    if isinstance(tree, dict):
        if any(key.lower().endswith("errorcode") and value in codes for key, value in tree.items()):
            return True
        return any(_has_code(value, codes) for value in tree.values())
    return isinstance(tree, list) and any(_has_code(item, codes) for item in tree)


def _produce_request(produce: Mapping[str, Json], data: bytes) -> ProduceRequest:
    topic = TopicProduceData()
    if produce.get("version", 11) >= 13:
        topic.topic_id = uuids.from_text(produce["topicId"])
    else:
        topic.name = produce["topic"]
    topic.partition_data = [PartitionProduceData(produce.get("partition", 0), None if produce.get("null") else data)]
    return ProduceRequest(
        transactional_id=produce.get("transactionalId"),
        acks=produce.get("acks", -1),
        timeout_ms=produce.get("timeoutMs", 10_000),
        topic_data=[topic],
    )


__all__ = ["Player", "text_of"]
