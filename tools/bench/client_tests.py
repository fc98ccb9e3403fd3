"""`python -m tools.bench.client_tests`: what a test of a client costs: clusters, first records, history and faults."""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec
from confluent_kafka import Consumer, ShareConsumer

import kwire
from kwire.headers import encode_request
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record, write_batch
from mockbroker import Cluster
from mockbroker.build import build_core
from mockbroker.config.broker_config import BrokerConfig
from mockbroker.engine.core import Core
from mockbroker.faults import Fault, Then, When
from mockbroker.faults.registry import FaultRegistry
from tools.bench.history import Result, summarize, summarize_timing
from tools.bench.page import describe_machine, markdown_table, publish_section, spread_text
from tools.bench.rounds import compare_candidates
from tools.oracle.jars import KAFKA_VERSIONS, fetch_jars

TOPIC = "orders"
KINDS = ("classic", "consumer", "share")
PROFILES = ("kafka", "quick")
_JAVA_PROGRAM = Path(__file__).with_name("FirstRecord.java")
_LIMIT_S = 60.0
_POLL_MS = 100
_NOW_MS = 1_700_000_000_000


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.client_tests", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="first records of each kind")
    parser.add_argument("--dry-run", action="store_true", help="print only")
    args = parser.parse_args()
    results: list[Result] = []
    parts = (_measure_clusters(200, results), _measure_first_records(args.rounds, results), _measure_requests(results))
    publish_section("client-tests", "\n\n".join(parts), results, write=not args.dry_run)


def _measure_clusters(rounds: int, results: list[Result]) -> str:
    rows = []
    for nodes in (1, 3):
        starts = [_milliseconds(partial(_start_and_stop, nodes)) for _ in range(rounds)]
        with Cluster(nodes=nodes) as cluster:
            resets = [_milliseconds(partial(_use_and_reset, cluster)) for _ in range(rounds)]
        results.append(summarize(f"start and stop, {nodes} nodes", "mockbroker", "ms", starts))
        results.append(summarize(f"create a topic and reset, {nodes} nodes", "mockbroker", "ms", resets))
        rows.append([str(nodes), *(f"{sorted(times)[rounds // 2]:.2f}" for times in (starts, resets))])
    head = ["nodes", "start and stop, ms", "create a topic and `reset()`, ms"]
    return f"## Clusters in tests\n\nMedian of {rounds}; {describe_machine()}.\n\n{markdown_table(head, rows)}"


def _start_and_stop(nodes: int) -> None:
    with Cluster(nodes=nodes):
        pass


def _use_and_reset(cluster: Cluster) -> None:
    cluster.create_topic(TOPIC)
    cluster.reset()


def _measure_first_records(rounds: int, results: list[Result]) -> str:
    clients: dict[str, Callable[[str, str, int], list[float]]] = {
        f"librdkafka (confluent-kafka {_version()}), `poll({_POLL_MS} ms)`": _librdkafka_times
    }
    if shutil.which("java") and shutil.which("mvn"):
        for poll_ms in (100, 20):
            clients[f"Java {KAFKA_VERSIONS['4.4']}, `poll({poll_ms} ms)`"] = partial(_java_times, poll_ms=poll_ms)
    rows = []
    for name, measure in clients.items():
        for profile in PROFILES:
            cells = []
            for kind in KINDS:
                with Cluster(profile=profile, topics=[TOPIC]) as cluster:
                    cluster.produce(TOPIC, value=b"one espresso")
                    for number in range(rounds):
                        _start_at_zero(cluster, f"{kind}-{number}", kind)
                    times = measure(cluster.bootstrap_servers, kind, rounds)
                    case = f"first record, {kind} group, profile {profile}"
                    results.append(summarize(case, name.replace("`", ""), "ms", times, peer_version=""))
                    cells.append(spread_text(times))
            rows.append([f'{name}, `profile="{profile}"`', *cells])
    head = ["client", *(f"{kind} group, ms" for kind in KINDS)]
    return (
        "## Subscribe to first record\n\nOne record is in the topic, the group is new. Median [least … most] of "
        f"{rounds}; {describe_machine()}. Java's client of the newer consumer protocol has its assignment a few "
        "milliseconds after it joined, and takes it over in the next two or three calls of `poll`: its times are "
        f"multiples of what the program passes to it.\n\n{markdown_table(head, rows)}"
    )


def _version() -> str:
    from importlib.metadata import version

    return version("confluent-kafka")


def _start_at_zero(cluster: Cluster, group: str, kind: str) -> None:
    """Let a share group begin with the first record, which for other groups is a setting of the client."""
    if kind != "share":
        return
    request = kwire.from_json(
        "IncrementalAlterConfigsRequest",
        1,
        {
            "resources": [
                {
                    "resourceType": 32,
                    "resourceName": group,
                    "configs": [{"name": "share.auto.offset.reset", "configOperation": 0, "value": "earliest"}],
                }
            ],
            "validateOnly": False,
        },
    )
    with kwire.Client(cluster.bootstrap_servers) as client:
        client.send(request, 1)


def _librdkafka_times(bootstrap: str, kind: str, rounds: int) -> list[float]:
    return [_librdkafka_time(bootstrap, kind, number) for number in range(rounds)]


def _librdkafka_time(bootstrap: str, kind: str, number: int) -> float:
    settings: dict[str, object] = {"bootstrap.servers": bootstrap, "group.id": f"{kind}-{number}"}
    if kind == "share":
        consumer: Consumer | ShareConsumer = ShareConsumer(settings)
    else:
        consumer = Consumer({**settings, "auto.offset.reset": "earliest", "group.protocol": kind})
    began = time.perf_counter()
    consumer.subscribe([TOPIC])
    while not consumer.poll(_POLL_MS / 1e3):
        if time.perf_counter() - began > _LIMIT_S:
            raise TimeoutError(f"no record of a {kind} group within {_LIMIT_S:.0f} s")
    took_ms = (time.perf_counter() - began) * 1e3
    consumer.close()
    return took_ms


def _java_times(bootstrap: str, kind: str, rounds: int, *, poll_ms: int) -> list[float]:
    """Those of one virtual machine, whose first round loads classes and counts as the others."""
    jars = fetch_jars(KAFKA_VERSIONS["4.4"], maven=shutil.which("mvn") or "mvn")
    command = [shutil.which("java") or "java", "-cp", f"{jars}/*", str(_JAVA_PROGRAM), bootstrap, TOPIC, kind]
    done = subprocess.run(
        [*command, str(rounds), str(poll_ms)], capture_output=True, text=True, check=False, timeout=_LIMIT_S * rounds
    )
    if done.returncode:
        raise RuntimeError(f"FirstRecord ended with {done.returncode}: {done.stderr[-2000:]}")
    return [float(line) for line in done.stdout.split()]


def _measure_requests(results: list[Result]) -> str:
    without_history = "no history, no fault"
    with_history = ("no fault", "a fault of another API", "one that does not match", "1,000 that do not match")
    names = (without_history, *with_history)
    rows = []
    for title, request in (("Metadata", _metadata()), ("Produce, one record", _produce())):
        candidates = {without_history: _submitter(request, [], keeps_history=False)}
        for name, faults in zip(with_history, _fault_lists(), strict=True):
            candidates[name] = _submitter(request, faults)
        timings = compare_candidates(candidates)
        results += (summarize_timing(f"{title}, {name}", "mockbroker", timings[name], is_ours=True) for name in names)
        rows.append([title, *(f"{timings[name].seconds * 1e6:,.0f}" for name in names)])
    return (
        "## History and faults\n\nMicroseconds of the core for a request and its response, without sockets: medians. "
        f"The first column is without the history of requests that every cluster keeps. {describe_machine()}."
        f"\n\n{markdown_table(['request', *names], rows)}"
    )


def _fault_lists() -> list[list[Fault]]:
    other = Fault(when=When(api="ListGroups"), then=Then(delay_ms=1))
    mismatching = Fault(when=When(client_id="nobody"), then=Then(delay_ms=1))
    return [[], [other], [mismatching], [mismatching] * 1_000]


def _submitter(
    request: tuple[msgspec.Struct, int], faults: Sequence[Fault], *, keeps_history: bool = True
) -> Callable[[], None]:
    core = _build_core()
    if not keeps_history:
        for method in ("add", "complete"):
            setattr(core.journal, method, lambda exchange: None)
    if faults:
        registry = FaultRegistry(core)
        for fault in faults:
            registry.add(fault)
    message, version = request
    frame = encode_request(message, version, correlation_id=1, client_id="bench")
    connection = core.connect(0, "127.0.0.1", 50_000)

    def submit() -> None:
        core.submit(connection, frame, _NOW_MS)
        core.take_output()

    return submit


def _build_core() -> Core:
    return build_core(
        config=BrokerConfig.from_properties("", []),
        node_count=1,
        features={},
        topics={TOPIC: 1},
        rng=random.Random(1),
        now_ms=_NOW_MS,
    )


def _metadata() -> tuple[msgspec.Struct, int]:
    return MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 9


def _produce() -> tuple[msgspec.Struct, int]:
    batch = write_batch([Record(0, _NOW_MS, b"k", b"one espresso", ())])
    data = [TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(0, batch)])]
    return ProduceRequest(acks=1, timeout_ms=1_000, topic_data=data), 9


def _milliseconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e3


if __name__ == "__main__":
    main()
