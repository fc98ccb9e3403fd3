"""Runs a script of requests, step by step, and collects the responses to compare."""

from __future__ import annotations

import base64
import random
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
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
from kwire.schema import DEFAULT_EDITION
from mockbroker.replay.response_trees import sort_key, summarize_records
from tools.oracle.conversations.normalization import Json, ResponseNormalizer
from tools.oracle.conversations.state_topic import state_records
from tools.oracle.conversations.virtual_broker import Broker, Connection

_VARIABLE = re.compile(r"\$\{([^}]+)\}")
_SUM = re.compile(r"(.+?)([+-]\d+)")
_RETRY_MS = 15_000
_PAUSE_MS = 100
_TRANSIENT = frozenset({14, 15, 16, 51})
_PRODUCE_TRANSIENT = _TRANSIENT | {6}


class ScriptRunner:
    """One run of one script with a broker."""

    def __init__(self, venue: Broker, script: Mapping[str, Json]) -> None:
        self.broker = venue
        self.script = script
        self._edition: str = script.get("edition", DEFAULT_EDITION)
        # A seed per script gives each run distinct names on the same broker.
        self._rng = random.Random(f"{script['name']} {venue.now_ms()}")
        self.variables: dict[str, Json] = {"run": "".join(self._rng.choices("abcdefghijklmnopqrstuvwxyz", k=8))}
        self.responses: list[Json] = []
        self._connections: dict[str, Connection] = {}
        self._clients: dict[str, str] = {}
        self._listeners: dict[str, str] = {}
        self._pending: dict[str, Mapping[str, Json]] = {}
        self.variables |= script.get("variables", {})
        self._transient = script.get("transient")
        self._nodes: dict[int, str] = {}

    def run(self) -> list[Json]:
        """All responses, normalized."""
        self.read_nodes()
        for step in self.script["steps"]:
            self.run_step(step)
        self.close()
        return self.responses

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def read_nodes(self) -> None:
        """Read the ids of the nodes, which responses are compared without; before the first step."""
        connection = self.broker.connect("warm-up")
        # As on the recording broker; else a script's first producer id is 0, which is ambiguous.
        connection.submit(InitProducerIdRequest(None), 4, 4, ("InitProducerIdResponse", 4))
        connection.receive()
        connection.submit(MetadataRequest(topics=[]), 12, 12, ("MetadataResponse", 12))
        response: Any = connection.receive()[0]
        for index, node_id in enumerate(sorted(broker.node_id for broker in response.brokers)):
            self._nodes[node_id] = f"<node{index}>"
        connection.close()

    def run_step(self, step: Mapping[str, Json]) -> None:
        """Run one step, and add its response unless it is a setup step."""
        if "api" in step:
            self._send_request(step)
        elif "produce" in step:
            self._send_batches(step)
        elif "sleep_ms" in step:
            self.broker.advance(step["sleep_ms"])
        elif "connect" in step:
            name = step["connect"]
            self._clients[name] = str(self._resolve_variables(step.get("clientId", f"client-{name}")))
            self._listeners[name] = step.get("listener", "PLAINTEXT")
            self._close_connection(name)
            self._connection(name)
        elif "scram" in step:
            self._authenticate(step)
        elif "state" in step:
            group_id = str(self._resolve_variables(step["state"]))
            self._add_response(step, state_records(self._connection(step.get("conn", "a")), group_id, self._edition), 0)
        elif "close" in step:
            self._close_connection(step["close"])
        elif "await" in step:
            pending = dict(self._pending.pop(step["await"]))
            pending.update({key: step[key] for key in ("elapsed",) if key in step})
            connection = self._connection(step["await"])
            raw, took_ms = self._receive_json(connection, pending.get("api", "Produce"), pending["answer_version"])
            self._add_response(pending, raw, took_ms)
        else:
            raise ValueError(f"unknown step {step}")

    def _connection(self, name: str) -> Connection:
        if name not in self._connections:
            client, listener = self._clients.get(name, f"client-{name}"), self._listeners.get(name, "PLAINTEXT")
            self._connections[name] = self.broker.connect(client, listener)
        return self._connections[name]

    def _close_connection(self, name: str) -> None:
        connection = self._connections.pop(name, None)
        if connection is not None:
            connection.close()

    def _send_request(self, step: Mapping[str, Json]) -> None:
        api, version = step["api"], step["version"]

        def build() -> msgspec.Struct:
            body = self._resolve_variables(step.get("body", {}))
            if "token" in step:
                body["authBytes"] = base64.b64encode(self._resolve_variables(step["token"]).encode()).decode()
            message: msgspec.Struct = from_json(f"{api}Request", version, body, edition=self._edition)
            return message

        self._send_and_retry(step, api, version, build, self._transient_codes(step, _TRANSIENT))

    def _transient_codes(self, step: Mapping[str, Json], default: frozenset[int]) -> frozenset[int]:
        codes = step.get("transient", self._transient)
        return default if codes is None else frozenset(codes)

    def _send_and_retry(
        self,
        step: Mapping[str, Json],
        api: str,
        version: int,
        build: Callable[[], msgspec.Struct],
        transient: frozenset[int],
    ) -> None:
        name = step.get("conn", "a")
        stop_ms = self.broker.now_ms() + _RETRY_MS
        answer_version = step.get("answerVersion", version)
        while True:
            connection = self._connection(name)
            expected = None if step.get("noanswer") else (f"{api}Response", answer_version)
            connection.submit(build(), version, step.get("wireVersion", version), expected)
            if step.get("noanswer"):
                return
            if step.get("async"):
                self._pending[name] = {**step, "answer_version": answer_version}
                return
            raw, took_ms = self._receive_json(connection, api, answer_version, step=step)
            is_late = self.broker.now_ms() > stop_ms
            if "until" in step:
                for variable, pointer in step.get("save", {}).items():
                    value = _resolve_pointer(raw, pointer)
                    if value is not None:
                        self.variables[variable] = value
                if not is_late and "closed" not in raw and not self._is_reached(raw, step["until"]):
                    self.broker.advance(step.get("every", _PAUSE_MS))
                    continue
            elif transient and not is_late and _has_error_code(raw, transient):
                self.broker.advance(_PAUSE_MS)
                continue
            self._add_response(step, raw, took_ms)
            return

    def _receive_json(
        self, connection: Connection, api: str, version: int, *, step: Mapping[str, Json] = MappingProxyType({})
    ) -> tuple[Json, int]:
        message, took_ms = connection.receive()
        if message is None:
            return {"closed": True}, took_ms
        raw = to_json(message, version)
        summarize_records(api, raw, offsets=bool(step.get("offsets")), contents=bool(step.get("contents")))
        return raw, took_ms

    def _add_response(self, step: Mapping[str, Json], raw: Json, took_ms: int) -> None:
        for variable, pointer in step.get("save", {}).items():
            value = _resolve_pointer(raw, pointer, _MISSING)
            has_default = variable in self.script.get("variables", {})
            if value is not _MISSING and not (value is None and has_default):
                self.variables[variable] = value
        if not step.get("setup"):
            normaliser = ResponseNormalizer(self.variables, self._nodes)
            self.responses.append(normaliser.normalize_response(step, raw, took_ms, self._resolve_variables))
        if "closed" in raw:
            self._close_connection(step.get("conn", "a"))

    def _is_reached(self, raw: Json, until: Mapping[str, Json]) -> bool:
        for pointer, expected in until.items():
            actual, want = _resolve_pointer(raw, pointer, _MISSING), self._resolve_variables(expected)
            if isinstance(want, dict) and "not" in want:
                if actual is _MISSING or actual == want["not"]:
                    return False
            elif isinstance(want, dict) and "size" in want:
                if not isinstance(actual, list) or len(actual) != want["size"]:
                    return False
            elif actual is _MISSING or (actual is None) != (want is None) or str(actual) != str(want):
                return False
        return True

    def _resolve_variables(self, tree: Json) -> Json:
        if isinstance(tree, str):
            whole = _VARIABLE.fullmatch(tree)
            if whole:
                return self._variable_value(whole[1])
            return _VARIABLE.sub(lambda match: str(self._variable_value(match[1])), tree)
        if isinstance(tree, list):
            return [self._resolve_variables(item) for item in tree]
        if isinstance(tree, dict):
            return {key: self._resolve_variables(value) for key, value in tree.items()}
        return tree

    def _variable_value(self, name: str) -> Json:
        if name.startswith("uuid:"):
            uuid = uuids.to_text(self._rng.randbytes(16))
            return self.variables.setdefault(name[5:], uuid)
        if name == "now":
            return self.broker.now_ms()
        summed = _SUM.fullmatch(name)
        if summed and summed[1] == "now":
            return self.broker.now_ms() + int(summed[2])
        if name not in self.variables and summed and summed[1] in self.variables:
            return int(self.variables[summed[1]]) + int(summed[2])
        return self.variables[name]

    def _authenticate(self, step: Mapping[str, Json]) -> None:
        """Authenticate by SCRAM after a handshake; each response of the broker is compared."""
        login = self._resolve_variables(step["scram"])
        name, version = step.get("conn", "a"), login.get("version", 2)
        scram = ScramClient(
            login["mechanism"],
            login["user"],
            login["password"],
            nonce="".join(self._rng.choices("abcdefghijklmnopqrstuvwxyz", k=20)),
            extensions="tokenauth=true" if login.get("token") else "",
        )
        message: bytes | None = scram.first_message()
        while message is not None:
            connection = self._connection(name)
            request = SaslAuthenticateRequest(auth_bytes=message)
            connection.submit(request, version, version, ("SaslAuthenticateResponse", version))
            raw, took_ms = self._receive_json(connection, "SaslAuthenticate", version)
            challenge = base64.b64decode(raw.get("authBytes", ""))
            message = scram.final_message(challenge) if challenge.startswith(b"r=") else None
            self._add_response({**step, "mask": [*step.get("mask", ()), "/authBytes"]}, raw, took_ms)

    def _send_batches(self, raw: Mapping[str, Json]) -> None:
        produce = self._resolve_variables(raw["produce"])
        step = {key: value for key, value in raw.items() if key != "produce"}
        if "conn" in produce:
            step["conn"] = produce["conn"]
        if produce.get("acks", -1) == 0:
            step["noanswer"] = True
        batches = produce["batches"]
        for several in [batches] if produce.get("together") else [[batch] for batch in batches]:
            data = b"".join(self._build_batch(batch) for batch in several)
            self._send_and_retry(
                step,
                "Produce",
                produce.get("version", 11),
                lambda data=data: _produce_request(produce, data),  # type: ignore[misc]  # Bound in this iteration.
                self._transient_codes(step, _PRODUCE_TRANSIENT),
            )

    def _build_batch(self, batch: Mapping[str, Json]) -> bytes:
        timestamp = batch.get("timestamp", self.broker.now_ms())
        producer = {"producer_id": batch.get("producerId", -1), "producer_epoch": batch.get("producerEpoch", -1)}
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
                headers=tuple((name, text.encode()) for name, text in batch.get("headers", {}).items()),
            )
            for index, key in enumerate(keys)
        ]
        form = {"codec": batch.get("codec", "none"), "magic": batch.get("magic", 2)}
        sequence, transactional = batch.get("baseSequence", -1), bool(batch.get("transactional"))
        data = bytearray(write_batch(records, base_sequence=sequence, transactional=transactional, **form, **producer))
        if batch.get("corrupt"):
            data[17] ^= 0x55
        return bytes(data)


_MISSING = object()


def _resolve_pointer(tree: Json, pointer: str, default: Any = None) -> Json:
    """The value at a JSON pointer."""
    for key in pointer[1:].split("/"):
        if isinstance(tree, list) and key.isdigit() and int(key) < len(tree):
            tree = tree[int(key)]
        elif isinstance(tree, dict) and key in tree:
            tree = tree[key]
        else:
            return default
    return tree


def _has_error_code(tree: Json, codes: frozenset[int]) -> bool:
    if isinstance(tree, dict):
        if any(key.lower().endswith("errorcode") and value in codes for key, value in tree.items()):
            return True
        return any(_has_error_code(value, codes) for value in tree.values())
    return isinstance(tree, list) and any(_has_error_code(item, codes) for item in tree)


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


__all__ = ["ScriptRunner", "sort_key"]
