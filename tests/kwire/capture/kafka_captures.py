"""Captures of a real Apache Kafka 4.3.0, made by tcpdump or dumpcap on the loopback interface.

    python -m tests.kwire.capture.kafka_captures record     makes tests/captures/kafka_*.pcap anew
    python -m tests.kwire.capture.kafka_captures check      captures the conversations again, and compares their rows

Both start a real broker, and need Java, Maven, and the right to listen to the loopback interface.
`kafka_play.pcap`: the random workload of `share_play.py`, with DescribeShareGroupOffsets at the end.
`kafka_scripts.pcap`: conversations of tests/conversations, one after the other.
`kafka_cluster.pcap.gz`: the random workload of `cluster_play.py` on three brokers, of which one stops; leaders move.
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
from kwire.capture.pipeline import rows
from tests.conversations import library
from tests.conversations.brokers import real_properties
from tests.conversations.normal import Json, difference
from tests.conversations.player import Player
from tests.conversations.sockets import WallVenue, let_pass
from tests.conversations.venues import Venue
from tests.conversations.warm import warm_up
from tests.kwire.capture import same_rows
from tests.kwire.capture.cluster_play import GROUPS, ClusterPlay
from tests.kwire.capture.cluster_stages import RealClusterStage
from tests.kwire.capture.listening import listening
from tests.kwire.capture.share_kit import ask
from tests.kwire.capture.share_play import GROUP, PARTITIONS, TOPIC, Play, RealStage
from tests.kwire.capture.wire import CAPTURES
from tests.nodes.record import RealCluster
from tools.oracle.broker import running, running_cluster

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
_SEED, _STEPS, _LOCK_MS = 7, 60, 1_000
_CLUSTER_STEPS = 90
#: So that what a broker does after its last answer, as writing what a session held, is in the capture too.
_AFTERMATH_S = 1.0


def play_scripts(venue: Venue) -> None:
    """All conversations, one after the other."""
    for name in NAMES:
        assert library.broker_of(library.read(name)) == BROKER
        Player(venue, library.read(name)).play()


def record_play(address: str, path: Path) -> None:
    """The random workload, by the wall clock."""
    with closing(Client(address, client_id="admin")) as client:
        topic = {"name": TOPIC, "numPartitions": PARTITIONS, "replicationFactor": 1, "configs": []}
        ask(client, "CreateTopics", 7, {"topics": [topic], "timeoutMs": 30_000})
        config = {"name": "share.record.lock.duration.ms", "configOperation": 0, "value": str(_LOCK_MS)}
        resource = {"resourceType": 32, "resourceName": GROUP, "configs": [config]}
        ask(client, "IncrementalAlterConfigs", 1, {"resources": [resource]})
        let_pass(_AFTERMATH_S)
        with listening(_port(address), path):
            with Play(RealStage(address), _SEED, lock_ms=_LOCK_MS) as play:
                play.go(_STEPS)
                let_pass(3 * _LOCK_MS / 1000)
                numbers = list(range(PARTITIONS))
                wanted = {"groupId": GROUP, "topics": [{"topicName": TOPIC, "partitions": numbers}]}
                ask(play.admin.client, "DescribeShareGroupOffsets", 1, {"groups": [wanted]})
            let_pass(_AFTERMATH_S)


def record_scripts(addresses: Mapping[str, str], path: Path) -> None:
    """The conversations, by the wall clock."""
    with listening(_port(addresses["PLAINTEXT"]), path):
        play_scripts(WallVenue(addresses))
        let_pass(_AFTERMATH_S)


def record_cluster(port: int, folder: Path, path: Path) -> None:
    """The random workload on brokers that follow each other by their ports."""
    addresses = {node: f"127.0.0.1:{port + node}" for node in range(3)}
    stage = RealClusterStage(RealCluster(port, folder), addresses)
    with Client(addresses[0], client_id="admin") as client:
        topic = {"name": TOPIC, "numPartitions": PARTITIONS, "replicationFactor": len(addresses), "configs": []}
        ask(client, "CreateTopics", 7, {"topics": [topic], "timeoutMs": 30_000})
        for group in GROUPS:
            _until_coordinated(client, addresses, group)
        with listening(port, path, count=len(addresses)):
            with ClusterPlay(stage, _SEED, ("move", "move", "stop"), lock_ms=_LOCK_MS) as play:
                play.go(_CLUSTER_STEPS)
                let_pass(3 * _LOCK_MS / 1000)
                for group in GROUPS:
                    play.describe(group)
            let_pass(_AFTERMATH_S)


def _until_coordinated(client: Client, addresses: Mapping[int, str], group: str) -> None:
    """Make a group, for which the first coordinator of a cluster takes a while."""
    rows = [{"partitionIndex": index, "startOffset": 0} for index in range(PARTITIONS)]
    body = {"groupId": group, "topics": [{"topicName": TOPIC, "partitions": rows}]}
    code = -1
    while code:
        let_pass(_AFTERMATH_S)
        found = ask(client, "FindCoordinator", 6, {"keyType": 0, "coordinatorKeys": [group]})["coordinators"][0]
        if found["nodeId"] in addresses:
            with Client(addresses[found["nodeId"]]) as coordinator:
                code = ask(coordinator, "AlterShareGroupOffsets", 0, body)["errorCode"]


def _cluster_properties(folder: Path) -> Path:
    """Those of `tests/nodes`, with short locks."""
    known = (Path(__file__).parents[2] / "nodes" / "cluster.properties").read_text("utf-8")
    made = folder / "cluster.properties"
    locks = "".join(f"group.share.{name}record.lock.duration.ms={_LOCK_MS}\n" for name in ("min.", ""))
    made.write_text(known + locks, "utf-8")
    return made


def _port(address: str) -> int:
    return int(address.rsplit(":", 1)[1])


def record() -> None:
    """Make both anew."""
    with running(real_properties(BROKER)) as addresses:
        warm_up(addresses["PLAINTEXT"])
        record_scripts(addresses, SCRIPTS)
        record_play(addresses["PLAINTEXT"], PLAY)
    with tempfile.TemporaryDirectory() as folder, running_cluster(_cluster_properties(Path(folder))) as (port, where):
        made = Path(folder) / "made.pcap"
        record_cluster(port, where, made)
        CLUSTER.write_bytes(gzip.compress(made.read_bytes(), mtime=0))
    for path in (PLAY, SCRIPTS):
        path.with_suffix(".log").unlink()
    for path in (PLAY, SCRIPTS, CLUSTER):
        print(f"{path.name}: {path.stat().st_size:,} bytes")


def check() -> int:
    """How many rows of the conversations are otherwise than recorded; each is told."""
    with tempfile.TemporaryDirectory() as folder:
        again = Path(folder) / SCRIPTS.name
        with running(real_properties(BROKER)) as addresses:
            warm_up(addresses["PLAINTEXT"])
            record_scripts(addresses, again)
        known, found = (same_rows.conversations(rows(path, "messages")) for path in (SCRIPTS, again))
    pairs: list[tuple[Json, Json]] = []
    for theirs, ours in zip(known, found, strict=True):
        pairs += zip_longest(theirs, ours, fillvalue={})
    differences = [told for pair in pairs if (told := difference(*pair)) is not None]
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
