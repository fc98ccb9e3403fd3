"""Captures of a real Apache Kafka 4.3.0, made by tcpdump or dumpcap on the loopback interface.

    python -m tests.support.captures.kafka_captures record     records tests/captures/kafka_*.pcap again
    python -m tests.support.captures.kafka_captures check      captures the conversations again and compares the rows

Both start a real broker, and need Java, Maven, and the permission to capture on the loopback interface.
`kafka_play.pcap`: the random workload of `share_workload.py`, with DescribeShareGroupOffsets at the end.
`kafka_scripts.pcap`: conversations of tests/conversations, one after the other.
`kafka_cluster.pcap.gz`: the random workload of `cluster_workload.py` on three brokers: leaders move, one stops.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
from collections.abc import Mapping
from contextlib import closing
from itertools import zip_longest
from pathlib import Path

from kwire import Client
from kwire.capture.reader import read_rows
from tests.conversations import script_library
from tests.nodes.real_cluster import RealCluster
from tests.support.brokers.captured_share_members import send_json
from tests.support.brokers.cluster_targets import KafkaClusterTarget
from tests.support.brokers.cluster_workload import GROUPS, ClusterWorkload
from tests.support.brokers.share_workload import GROUP, PARTITIONS, TOPIC, KafkaTarget, ShareWorkload
from tests.support.captures import comparable_rows
from tests.support.captures.capture_files import CAPTURES
from tests.support.captures.packet_recorder import record_packets
from tools.oracle.broker import run_broker, run_cluster
from tools.oracle.conversations.broker_properties import real_properties
from tools.oracle.conversations.coordinator_warm_up import warm_up
from tools.oracle.conversations.normalization import Json, difference
from tools.oracle.conversations.script_runner import ScriptRunner
from tools.oracle.conversations.socket_brokers import RealTimeBroker, wait_real_time
from tools.oracle.conversations.virtual_broker import Broker
from tools.oracle.jars import KAFKA_VERSIONS

PLAY, SCRIPTS = CAPTURES / "kafka_play.pcap", CAPTURES / "kafka_scripts.pcap"
CLUSTER = CAPTURES / "cluster" / "kafka_cluster.pcap.gz"
BROKER = "common"
NAMES = (
    "share-session-worked",
    "share-random-0001",
    "share-random-0004",
    "share-random-0010",
    "share-errors-0003",
    "share-ack-versions",
    "share-renew-by-fetch",
    "share-session-disconnect-releases",
    "share-count-expiry-archives-at-limit",
    "share-offsets-alter",
    "other-classic-static",
    "other-consumer-commit",
    "other-fetch-forms",
    "other-list-offsets",
    "other-metadata-forms",
    "other-produce-validation",
    "other-txn-commit-abort",
)
_RELEASE = "4.3"
_VERSION = KAFKA_VERSIONS[_RELEASE]
_SEED, _STEPS, _LOCK_MS = 7, 60, 1_000
_CLUSTER_STEPS = 90
#: Time for what a broker does after its last response, as writing the state of a session.
_SETTLE_S = 1.0


def play_scripts(venue: Broker) -> None:
    """Play all conversations, one after the other."""
    for name in NAMES:
        assert script_library.broker_name(script_library.read_script(name, _RELEASE)) == BROKER
        ScriptRunner(venue, script_library.read_script(name, _RELEASE)).run()


def record_play(address: str, path: Path) -> None:
    """Record the random workload, by the wall clock."""
    with closing(Client(address, client_id="admin")) as client:
        topic = {"name": TOPIC, "numPartitions": PARTITIONS, "replicationFactor": 1, "configs": []}
        send_json(client, "CreateTopics", 7, {"topics": [topic], "timeoutMs": 30_000})
        config = {"name": "share.record.lock.duration.ms", "configOperation": 0, "value": str(_LOCK_MS)}
        resource = {"resourceType": 32, "resourceName": GROUP, "configs": [config]}
        send_json(client, "IncrementalAlterConfigs", 1, {"resources": [resource]})
        wait_real_time(_SETTLE_S)
        with record_packets(_port(address), path):
            with ShareWorkload(KafkaTarget(address), _SEED, lock_ms=_LOCK_MS) as workload:
                workload.run(_STEPS)
                wait_real_time(3 * _LOCK_MS / 1000)
                numbers = list(range(PARTITIONS))
                wanted = {"groupId": GROUP, "topics": [{"topicName": TOPIC, "partitions": numbers}]}
                send_json(workload.admin.client, "DescribeShareGroupOffsets", 1, {"groups": [wanted]})
            wait_real_time(_SETTLE_S)


def record_scripts(addresses: Mapping[str, str], path: Path) -> None:
    """Record the conversations, by the wall clock."""
    with record_packets(_port(addresses["PLAINTEXT"]), path):
        play_scripts(RealTimeBroker(addresses))
        wait_real_time(_SETTLE_S)


def record_cluster(port: int, folder: Path, path: Path) -> None:
    """Record the random workload on three brokers with consecutive ports."""
    addresses = {node: f"127.0.0.1:{port + node}" for node in range(3)}
    target = KafkaClusterTarget(RealCluster(port, folder), addresses)
    with Client(addresses[0], client_id="admin") as client:
        topic = {"name": TOPIC, "numPartitions": PARTITIONS, "replicationFactor": len(addresses), "configs": []}
        send_json(client, "CreateTopics", 7, {"topics": [topic], "timeoutMs": 30_000})
        for group in GROUPS:
            _create_group(client, addresses, group)
        with record_packets(port, path, count=len(addresses)):
            with ClusterWorkload(
                target, _SEED, ("move_leader", "move_leader", "stop_node"), lock_ms=_LOCK_MS
            ) as workload:
                workload.run(_CLUSTER_STEPS)
                wait_real_time(3 * _LOCK_MS / 1000)
                for group in GROUPS:
                    workload.describe(group)
            wait_real_time(_SETTLE_S)


def _create_group(client: Client, addresses: Mapping[int, str], group: str) -> None:
    """Create a group; the first coordinator of a cluster is available only after a while."""
    rows = [{"partitionIndex": index, "startOffset": 0} for index in range(PARTITIONS)]
    body = {"groupId": group, "topics": [{"topicName": TOPIC, "partitions": rows}]}
    code = -1
    while code:
        wait_real_time(_SETTLE_S)
        found = send_json(client, "FindCoordinator", 6, {"keyType": 0, "coordinatorKeys": [group]})["coordinators"][0]
        if found["nodeId"] in addresses:
            with Client(addresses[found["nodeId"]]) as coordinator:
                code = send_json(coordinator, "AlterShareGroupOffsets", 0, body)["errorCode"]


def _cluster_properties(folder: Path) -> Path:
    """Write the properties of `tests/nodes`, with short acquisition locks."""
    known = (Path(__file__).parents[2] / "nodes" / "cluster.properties").read_text("utf-8")
    made = folder / "cluster.properties"
    locks = "".join(f"group.share.{name}record.lock.duration.ms={_LOCK_MS}\n" for name in ("min.", ""))
    made.write_text(known + locks, "utf-8")
    return made


def _port(address: str) -> int:
    return int(address.rsplit(":", 1)[1])


def record() -> None:
    """Record all captures again."""
    with run_broker(real_properties(BROKER), version=_VERSION) as addresses:
        warm_up(addresses["PLAINTEXT"])
        record_scripts(addresses, SCRIPTS)
        record_play(addresses["PLAINTEXT"], PLAY)
    with (
        tempfile.TemporaryDirectory() as folder,
        run_cluster(_cluster_properties(Path(folder)), version=_VERSION) as (port, where),
    ):
        made = Path(folder) / "made.pcap"
        record_cluster(port, where, made)
        CLUSTER.write_bytes(gzip.compress(made.read_bytes(), mtime=0))
    for path in (PLAY, SCRIPTS):
        path.with_suffix(".log").unlink()
    for path in (PLAY, SCRIPTS, CLUSTER):
        print(f"{path.name}: {path.stat().st_size:,} bytes")


def check() -> int:
    """Print the rows of the conversations that differ from the recorded ones; return their number."""
    with tempfile.TemporaryDirectory() as folder:
        again = Path(folder) / SCRIPTS.name
        with run_broker(real_properties(BROKER), version=_VERSION) as addresses:
            warm_up(addresses["PLAINTEXT"])
            record_scripts(addresses, again)
        known, found = (
            comparable_rows.comparable_connections(read_rows(path, "messages")) for path in (SCRIPTS, again)
        )
    pairs: list[tuple[Json, Json]] = []
    for theirs, ours in zip(known, found, strict=True):
        pairs += zip_longest(theirs, ours, fillvalue={})
    differences = [text for pair in pairs if (text := difference(*pair)) is not None]
    print(f"{len(pairs)} rows of captured conversations, {len(differences)} differ", *differences, sep="\n")
    return len(differences)


def main(arguments: list[str]) -> int:
    """Exit code 1 when a row differs, 2 for wrong use."""
    if arguments == ["record"]:
        record()
        return 0
    if arguments == ["check"]:
        return int(check() > 0)
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
