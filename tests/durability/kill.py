"""`python -m tests.durability.kill`: kills a broker at random moments under load, and compares what is left.

Each round has topics and clients of its own: an idempotent producer, transactional copiers, a consumer that commits,
share consumers, and in some modes a producer to a compacted topic, and a client that creates and deletes topics. They
go on while the broker is killed and started again on the same folder. After a round every promise of the broker is
checked: no acknowledged record is missing, none is stored twice, no committed offset, no accepted record of a share
group and no change of a topic is lost, and no aborted record is read with read_committed. `modes.py` lists the modes.
"""

from __future__ import annotations

import argparse
import random
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, nullcontext
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.durability.broker_process import BrokerProcess
from tests.durability.committing import OffsetCommitter
from tests.durability.copying import TransactionalCopier
from tests.durability.folder_watch import FolderWatch
from tests.durability.kafka_process import KafkaProcess
from tests.durability.keyed_producing import KeyedProducer
from tests.durability.modes import MODES, Mode
from tests.durability.producing import IdempotentProducer
from tests.durability.sharing import ShareReader
from tests.durability.small_disk import SmallDisk
from tests.durability.topic_changes import TopicChanger
from tests.durability.verification import (
    Record,
    find_broken_transactions,
    find_lost_records,
    find_uncopied_records,
    read_topic,
)
from tests.durability.worker import Worker

PARTITION_COUNT = 2
#: Below those of connections. Source: /proc/sys/net/ipv4/ip_local_port_range.
_PORTS = (10_000, 30_000)
_PORT_COUNT = 3
_ROUND_KILLS = 50
#: Most times between a start and a kill, in seconds; some are long enough for share groups to rebalance.
_RUN_MAX_S = 0.8
_CREATION_S = 60.0
#: How long a client may take to its first promise, after the last kill.
_FIRST_PROMISES_S = 240.0
#: Of a start on an idle machine; on a busy one the processes run longer too, so that clients get answers.
_START_S = 0.4
_SLOWER_MAX = 6.0
_LONG_RUN_S = 6.0
_LONG_RUN_SHARE = 0.04
#: So many kills of a mode that has an aim follow the appearance of a file, after at most so many seconds.
_AIMED_SHARE = 0.8
_AIM_LIMIT_S = 10.0
_AIM_DELAY_S = 0.004


class Round:
    """The clients of a round."""

    def __init__(self, bootstrap_servers: str, number: int, seed: int, mode: Mode) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._mode = mode
        plain = f"plain-{number}"
        count = {"partition_count": PARTITION_COUNT}
        self.producer = IdempotentProducer(bootstrap_servers, plain, **count)
        self.copiers = [
            TransactionalCopier(bootstrap_servers, f"copies-{number}-{at}", plain, seed=seed + number + at, **count)
            for at in range(mode.copiers)
        ]
        self.committer = OffsetCommitter(bootstrap_servers, plain, **count)
        self.sharers = [ShareReader(bootstrap_servers, f"tasks-{number}-{at}") for at in range(mode.sharers)]
        self.keyed = [KeyedProducer(bootstrap_servers, f"keys-{number}", **count)] if mode.has_keys else []
        self.changers = (
            [TopicChanger(bootstrap_servers, f"made-{number}", replication_factor=mode.factor, seed=seed + number)]
            if mode.changes_topics
            else []
        )
        self.workers: Sequence[Worker] = (
            self.producer,
            self.committer,
            *self.copiers,
            *self.sharers,
            *self.keyed,
            *self.changers,
        )

    def start(self) -> None:
        """Create the topics, and start the clients."""
        admin = AdminClient({"bootstrap.servers": self._bootstrap_servers, "log_level": 0})
        factor, configs = self._mode.factor, dict(self._mode.configs)
        names = [self.producer.topic, *(copier.topic for copier in self.copiers)]
        topics = [NewTopic(name, PARTITION_COUNT, factor, config=configs) for name in names]
        topics += [NewTopic(sharer.topic, 1, factor, config=configs) for sharer in self.sharers]
        compacted = dict(self._mode.compacted)
        topics += [NewTopic(keyed.topic, PARTITION_COUNT, factor, config=compacted) for keyed in self.keyed]
        for name, future in admin.create_topics(topics).items():
            self._await_topic(name, future)
        for worker in self.workers:
            worker.start()

    def _await_topic(self, name: str, future: Future[None]) -> None:
        """Wait until a topic is created; a full disk may refuse it at first."""
        end_s = time.monotonic() + _CREATION_S
        admin = AdminClient({"bootstrap.servers": self._bootstrap_servers, "log_level": 0})
        topic = NewTopic(name, PARTITION_COUNT, self._mode.factor, config=dict(self._mode.configs))
        while True:
            try:
                future.result(_CREATION_S)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    return
                if not self._mode.fills_disk or time.monotonic() > end_s:
                    raise
                wait(0.1)
                future = admin.create_topics([topic])[name]
            else:
                return

    def finish(self) -> list[str]:
        """End the clients while the broker runs, each after its first promise, and return all violations."""
        end_s = time.monotonic() + _FIRST_PROMISES_S
        while not all(worker.has_promises for worker in self.workers) and time.monotonic() < end_s:
            wait(0.05)
        idle = [worker for worker in self.workers if not worker.has_promises]
        for worker in self.workers:
            worker.stop()
        for worker in self.workers:
            worker.join()
        found = [f"{type(worker).__name__} was promised nothing: {worker.progress()}" for worker in idle]
        found += [problem for worker in self.workers for problem in worker.violations]
        return [*found, *self.verify()]

    def verify(self) -> Iterator[str]:
        """Compare the topics with what was promised."""
        plain = self._read(self.producer, isolation="read_uncommitted")
        yield from find_lost_records(self.producer, plain)
        for copier in self.copiers:
            copies = self._read(copier, isolation="read_committed")
            yield from find_broken_transactions(copier, copies)
            yield from find_uncopied_records(copier, plain, copies, copier.committed_positions())
        yield from self.committer.verify()
        for sharer in self.sharers:
            yield from sharer.verify()
        for keyed in self.keyed:
            yield from keyed.find_lost(self._read(keyed, isolation="read_uncommitted"))
        for changer in self.changers:
            yield from changer.verify()

    def _read(self, worker: Worker, *, isolation: str) -> list[Record]:
        return read_topic(self._bootstrap_servers, worker.topic, PARTITION_COUNT, isolation=isolation)

    def progress(self) -> str:
        """What was promised, in one line."""
        return "; ".join(worker.progress() for worker in self.workers)


class Killer:
    """Chooses when to kill. watch: of the data directory. disk: a small one, which has space while a process starts."""

    def __init__(
        self,
        chance: random.Random,
        mode: Mode,
        *,
        run_max_s: float,
        watch: FolderWatch | None = None,
        disk: SmallDisk | None = None,
    ) -> None:
        self.aimed_count = 0
        self._chance = chance
        self._mode = mode
        self._run_max_s = run_max_s
        self._watch = watch
        self._disk = disk
        self._start_s = 0.0

    def kill_and_start(self, broker: BrokerProcess | KafkaProcess) -> float:
        """Let the process run for a while, kill it, and start it again. Returns: the seconds that the start took."""
        chance = self._chance
        run_max_s = self._run_max_s * min(max(1.0, self._start_s / _START_S), _SLOWER_MAX)
        if self._watch is not None and self._mode.pattern is not None and chance.random() < _AIMED_SHARE:
            wait(chance.uniform(0, run_max_s))
            self.aimed_count += self._watch.wait_for(self._mode.pattern, _AIM_LIMIT_S)
            wait(chance.uniform(0, _AIM_DELAY_S))
        else:
            wait(_LONG_RUN_S if chance.random() < _LONG_RUN_SHARE else chance.uniform(0, run_max_s))
        broker.kill()
        return self.start(broker)

    def start(self, broker: BrokerProcess | KafkaProcess) -> float:
        """Start the process; a disk has space meanwhile. Returns: the seconds that this took."""
        with nullcontext() if self._disk is None else self._disk.hold_space():
            self._start_s = broker.start()
        return self._start_s


def play_kills(
    broker: BrokerProcess | KafkaProcess,
    *,
    kills: int,
    seed: int,
    run_max_s: float = _RUN_MAX_S,
    mode: Mode = MODES["node"],
    data: Path | None = None,
    disk: SmallDisk | None = None,
) -> list[str]:
    """Play rounds until there were so many kills, each at most `run_max_s` after a start but for some long runs.

    data: the directory, which is watched for the files that a mode aims at.
    Returns: the violations, none if every promise was held.
    """
    watch = FolderWatch(data) if mode.pattern is not None and data is not None else None
    chance = random.Random(seed)
    violations: list[str] = []
    killer = Killer(chance, mode, run_max_s=run_max_s, watch=watch, disk=disk)
    starts = [killer.start(broker)]
    rounds: list[Round] = []
    for number in range(-(-kills // _ROUND_KILLS)):
        present = Round(broker.bootstrap_servers, number, seed, mode)
        present.start()
        for _ in range(min(_ROUND_KILLS, kills - number * _ROUND_KILLS)):
            starts.append(killer.kill_and_start(broker))
        found = present.finish()
        violations += found
        rounds.append(present)
        slowest_s = max(starts)
        done = min(kills, (number + 1) * _ROUND_KILLS)
        aimed = f", {killer.aimed_count} aimed" if mode.pattern is not None else ""
        full = f", {disk.full_count} times full" if disk is not None else ""
        print(f"{done} kills{aimed}{full}: {present.progress()}; slowest start {slowest_s:.2f} s", flush=True)
        for problem in found:
            print(f"  VIOLATION {problem}", flush=True)
    for earlier in rounds[:-1]:
        violations += earlier.verify()
    if watch is not None:
        watch.close()
    code = broker.stop()
    if code not in broker.clean_codes:
        violations.append(f"the broker has ended with code {code}")
    return violations + broker.find_errors()


def wait(duration_s: float) -> None:
    """Let the load run for a while of real time."""
    threading.Event().wait(duration_s)


def _create_broker(folder: Path, data: Path, mode: Mode, *, is_real: bool) -> BrokerProcess | KafkaProcess:
    if is_real:
        return KafkaProcess(folder, partition_count=PARTITION_COUNT)
    arguments = ["--data-dir", str(data), "--profile", "quick", *mode.arguments]
    arguments += ["--set", f"num.partitions={PARTITION_COUNT}"]
    return BrokerProcess(arguments, folder / "broker.log", port=_find_ports())


def _find_ports() -> int:
    """The first of some free ports that the system gives to no connection while the process is down."""
    chance = random.SystemRandom()
    while True:
        first = chance.randrange(*_PORTS)
        with ExitStack() as stack:
            try:
                for port in range(first, first + _PORT_COUNT):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            return first


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.durability.kill", description=__doc__)
    parser.add_argument("--kills", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mode", choices=MODES, default="node")
    parser.add_argument("--run-max", type=float, default=_RUN_MAX_S, metavar="S", help="between a start and a kill")
    parser.add_argument("--data-dir", type=Path, help="default: a temporary folder")
    parser.add_argument("--real", action="store_true", help="kill a real Apache Kafka instead; needs Java and Maven")
    return parser.parse_args()


def main() -> int:
    """Returns 1 when a promise was broken."""
    args = _parse_arguments()
    mode = MODES[args.mode]
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        disk = stack.enter_context(SmallDisk(folder / "disk", args.seed)) if mode.fills_disk else None
        data = args.data_dir or (folder if disk is None else disk.folder) / "data"
        broker = _create_broker(folder, data, mode, is_real=args.real)
        stack.callback(broker.kill)
        started_s = time.monotonic()
        given = {"kills": args.kills, "seed": args.seed, "run_max_s": args.run_max}
        try:
            violations = play_kills(broker, mode=mode, data=data, disk=disk, **given)
        except Exception:
            print(broker.log_tail(), file=sys.stderr)
            raise
    seconds = time.monotonic() - started_s
    print(f"{args.mode}: {args.kills} kills in {seconds:.0f} s, seed {args.seed}: {len(violations)} violations")
    for problem in violations:
        print(f"  VIOLATION {problem}")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
