"""Compares how a real Kafka and mockbroker throttle the same requests, sent at the same times.

`python -m tools.oracle.quota_traffic record` sends the requests of `quota_scenarios.py` to an Apache Kafka 4.4.0 and
writes times and results to tests/golden/quota_traffic.json; `compare` sends them to one and compares at once. Needs
Java and Maven. mockbroker gets each request at the time of its virtual clock at which it was sent to Kafka: both have
the same rates.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kwire import to_json
from kwire.messages import incremental_alter_configs as configs
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.registry import response_class
from tools.oracle.broker import run_broker
from tools.oracle.conversations.socket_brokers import RealTimeBroker
from tools.oracle.conversations.virtual_broker import Broker, Connection, VirtualBroker
from tools.oracle.quota_scenarios import ADMIN, Step, scenarios, set_quota

RECORDING = Path(__file__).parents[2] / "tests" / "golden" / "quota_traffic.json"
_ANSWER_TIMEOUT_MS = 60_000
#: Throttle times, and times of answers, may differ by so many times the longest latency of the machine on which Kafka
#: ran, and by a constant, milliseconds.
_LATENCY_FACTOR, _LATENCY_MS = 2, 20
#: How long a real broker may take for a request whose channel is not muted.
_UNMUTED_MAX_MS = 1000
#: After so long no earlier connection counts: the windows are 11 seconds.
_FORGET_MS = 13_000
_PROPERTIES = {"group.initial.rebalance.delay.ms": "0"}


class Observation(NamedTuple):
    """What a client has seen of one request. Times: milliseconds; sent_ms from the start of all scenarios.

    throttle_ms: -1 in a response without it. codes: all error codes. size: bytes of records. is_closed: the connection
    was closed instead of an answer.
    """

    sent_ms: int
    took_ms: int
    throttle_ms: int = -1
    codes: tuple[int, ...] = ()
    size: int = 0
    is_closed: bool = False


#: By scenario: the observations of its steps, or of its connections.
Traffic = Mapping[str, Sequence[Observation]]


class ConnectionScenario(NamedTuple):
    """Connections that are opened at once, each with a request, under a limit of the rate of new connections."""

    limit: msgspec.Struct
    limit_version: int
    removal: msgspec.Struct
    connection_count: int


def connection_scenarios() -> Mapping[str, ConnectionScenario]:
    """The scenarios of KIP-612."""
    address = {"ip": "127.0.0.1"}
    rate = "max.connection.creation.rate"
    return {
        "connections-of-address": ConnectionScenario(
            set_quota(address, "connection_creation_rate", 2),
            1,
            set_quota(address, "connection_creation_rate", None),
            25,
        ),
        "connections-of-broker": ConnectionScenario(_set_config("", rate, "5"), 1, _set_config("", rate, None), 56),
        "connections-of-listener": ConnectionScenario(
            _set_config("", f"listener.name.plaintext.{rate}", "4"),
            1,
            _set_config("", f"listener.name.plaintext.{rate}", None),
            46,
        ),
    }


def _set_config(broker: str, name: str, value: str | None) -> configs.IncrementalAlterConfigsRequest:
    change = configs.AlterableConfig(name, 1 if value is None else 0, value)
    return configs.IncrementalAlterConfigsRequest([configs.AlterConfigsResource(4, broker, [change])])


class _Traffic:
    """Sends the scenarios to a broker. times: when to send each request, from the start; None for as they come."""

    def __init__(self, broker: Broker, times: Traffic | None) -> None:
        self._broker = broker
        self._times = times
        self._started_ms = broker.now_ms()
        self._connections: dict[str, Connection] = {}

    def run(self) -> dict[str, list[Observation]]:
        results = {name: self._run_steps(name, steps) for name, steps in scenarios().items()}
        results |= {name: self._run_connections(name, plan) for name, plan in connection_scenarios().items()}
        return results

    def _sent_ms(self, name: str, at: int) -> int | None:
        return None if self._times is None else self._times[name][at].sent_ms

    def _run_steps(self, name: str, steps: Iterable[Step]) -> list[Observation]:
        return [self._run_step(step, self._sent_ms(name, at)) for at, step in enumerate(steps)]

    def _run_step(self, step: Step, sent_ms: int | None) -> Observation:
        self._wait(step.pause_ms, sent_ms)
        if step.connection not in self._connections:
            self._connections[step.connection] = self._broker.connect(f"client-{step.connection}")
        return self._send(self._connections[step.connection], step.request, step.version, is_answered=step.is_answered)

    def _send(
        self, connection: Connection, request: msgspec.Struct, version: int, *, is_answered: bool = True
    ) -> Observation:
        sent_ms = self._broker.now_ms() - self._started_ms
        name = response_class(request.API_KEY).__name__  # type: ignore[attr-defined]
        connection.submit(request, version, version, (name, version) if is_answered else None)
        return _observe(connection, sent_ms, version) if is_answered else Observation(sent_ms, 0)

    def _wait(self, pause_ms: int, sent_ms: int | None) -> None:
        if sent_ms is not None:
            pause_ms = max(0, sent_ms - (self._broker.now_ms() - self._started_ms))
        self._broker.advance(pause_ms)

    def _run_connections(self, name: str, plan: ConnectionScenario) -> list[Observation]:
        admin = self._connections[ADMIN]
        self._wait(_FORGET_MS, self._sent_ms(name, 0))
        observations = [self._send(admin, plan.limit, plan.limit_version)]
        opened = []
        request = ApiVersionsRequest()
        for at in range(plan.connection_count):
            self._wait(1000 if at == 0 else 0, self._sent_ms(name, at + 1))
            sent_ms = self._broker.now_ms() - self._started_ms
            connection = self._broker.connect("client-new")
            connection.submit(request, 0, 0, ("ApiVersionsResponse", 0))
            opened.append((connection, sent_ms))
        observations += [_observe(connection, sent_ms, 0) for connection, sent_ms in opened]
        self._wait(0, self._sent_ms(name, plan.connection_count + 1))
        observations.append(self._send(admin, plan.removal, plan.limit_version))
        for connection, _ in opened:
            connection.close()
        return observations


def _observe(connection: Connection, sent_ms: int, version: int) -> Observation:
    response, took_ms = connection.receive()
    if response is None:
        return Observation(sent_ms, took_ms, is_closed=True)
    tree = to_json(response, version)
    throttle_ms = tree.get("throttleTimeMs", -1)
    assert isinstance(throttle_ms, int)
    return Observation(sent_ms, took_ms, throttle_ms, tuple(_error_codes(tree)), _records_size(response))


def _error_codes(tree: Any) -> Iterator[int]:
    if isinstance(tree, dict):
        for name, value in tree.items():
            if name == "errorCode":
                yield value
            else:
                yield from _error_codes(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _error_codes(value)


def _records_size(response: Any) -> int:
    topics = getattr(response, "responses", [])
    return sum(
        len(getattr(row, "records", None) or b"") for topic in topics for row in getattr(topic, "partitions", [])
    )


def run_kafka() -> dict[str, list[Observation]]:
    """What clients of a new Apache Kafka see."""
    with run_broker(_PROPERTIES) as addresses:
        return _Traffic(RealTimeBroker(addresses, response_timeout_ms=_ANSWER_TIMEOUT_MS), None).run()


def run_mockbroker(times: Traffic) -> dict[str, list[Observation]]:
    """What clients of mockbroker see that send at these times."""
    return _Traffic(VirtualBroker(_PROPERTIES, response_timeout_ms=_ANSWER_TIMEOUT_MS), times).run()


def find_differences(expected: Traffic, actual: Traffic) -> list[str]:
    """The observations that differ by more than the latency of the machine on which Kafka ran, as lines."""
    tolerance_ms = _LATENCY_MS + _LATENCY_FACTOR * _find_latency_ms(expected)
    return [
        f"{name} {at}: Kafka {want}, mockbroker {got} (tolerance {tolerance_ms} ms)"
        for name, rows in expected.items()
        for at, (want, got) in enumerate(zip(rows, actual[name], strict=True))
        if not _are_alike(want, got, tolerance_ms)
    ]


def _are_alike(want: Observation, got: Observation, tolerance_ms: int) -> bool:
    """Whether both are the same but for times, and times are near each other."""
    if (want.codes, want.size, want.is_closed) != (got.codes, got.size, got.is_closed):
        return False
    if (want.throttle_ms > 0) != (got.throttle_ms > 0) or abs(want.throttle_ms - got.throttle_ms) > tolerance_ms:
        return False
    # What mockbroker answers at once may take a real broker its time: topics are created on disk.
    return abs(want.took_ms - got.took_ms) <= (tolerance_ms if got.took_ms else _UNMUTED_MAX_MS)


def _find_latency_ms(traffic: Traffic) -> int:
    """The longest time of the first requests, for quotas or topics: their connection is never muted."""
    return max(rows[0].took_ms for rows in traffic.values())


def _read_row(row: list[Any]) -> Observation:
    sent_ms, took_ms, throttle_ms, codes, size, is_closed = row
    return Observation(sent_ms, took_ms, throttle_ms, tuple(codes), size, is_closed)


def load_recording() -> dict[str, list[Observation]]:
    """What clients of Apache Kafka 4.4.0 have seen."""
    tree = json.loads(RECORDING.read_text("utf-8"))
    return {name: [_read_row(row) for row in rows] for name, rows in tree.items()}


def main() -> int:
    """Record, or compare; exit code 1 for a difference."""
    mode = sys.argv[1] if len(sys.argv) == 2 else ""
    if mode not in ("record", "compare"):
        print("usage: python -m tools.oracle.quota_traffic record|compare", file=sys.stderr)
        return 2
    traffic = run_kafka()
    if mode == "record":
        rows = {name: [list(row) for row in observations] for name, observations in traffic.items()}
        text = ",\n".join(f"  {json.dumps(name)}: {json.dumps(values)}" for name, values in rows.items())
        RECORDING.write_text(f"{{\n{text}\n}}\n", "utf-8")
    differences = find_differences(traffic, run_mockbroker(traffic))
    for line in differences:
        print(line)
    throttled = sum(row.throttle_ms > 0 for rows in traffic.values() for row in rows)
    count = sum(map(len, traffic.values()))
    print(f"{count} requests, {throttled} of them throttled by Kafka, {len(differences)} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
