"""`python -m tests.durability.kill`: kills a broker at random moments under load, and compares what is left.

Each round has topics and clients of its own: an idempotent producer, a transactional copier, a consumer that commits, a
share consumer. They go on while the broker is killed and started again on the same folder. After a round every promise
of the broker is checked: no acknowledged record is missing, none is stored twice, no committed offset and no accepted
record of a share group is lost, and no aborted record is read with read_committed.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.durability.broker_process import BrokerProcess
from tests.durability.committing import OffsetCommitter
from tests.durability.copying import TransactionalCopier
from tests.durability.kafka_process import KafkaProcess
from tests.durability.producing import IdempotentProducer
from tests.durability.sharing import ShareReader
from tests.durability.verification import (
    find_broken_transactions,
    find_lost_records,
    find_uncopied_records,
    read_topic,
)
from tests.durability.worker import Worker

PARTITION_COUNT = 2
_ROUND_KILLS = 50
#: Most times between a start and a kill, in seconds; some are long enough for share groups to rebalance.
_RUN_MAX_S = 0.8
_CREATION_S = 60.0
#: How long a client may take to its first promise, after the last kill.
_FIRST_PROMISES_S = 60.0
_LONG_RUN_S = 6.0
_LONG_RUN_SHARE = 0.04


class Round:
    """The clients of a round."""

    def __init__(self, bootstrap_servers: str, number: int, seed: int) -> None:
        self._bootstrap_servers = bootstrap_servers
        plain, copies, tasks = (f"{name}-{number}" for name in ("plain", "copies", "tasks"))
        self.producer = IdempotentProducer(bootstrap_servers, plain, partition_count=PARTITION_COUNT)
        self.copier = TransactionalCopier(
            bootstrap_servers, copies, plain, partition_count=PARTITION_COUNT, seed=seed + number
        )
        self.committer = OffsetCommitter(bootstrap_servers, plain, partition_count=PARTITION_COUNT)
        self.sharer = ShareReader(bootstrap_servers, tasks)
        self._topics = {plain: PARTITION_COUNT, copies: PARTITION_COUNT, tasks: 1}
        self.workers: Sequence[Worker] = (self.producer, self.copier, self.committer, self.sharer)

    def start(self) -> None:
        """Create the topics, and start the clients."""
        admin = AdminClient({"bootstrap.servers": self._bootstrap_servers, "log_level": 0})
        created = admin.create_topics([NewTopic(name, count, 1) for name, count in self._topics.items()])
        for future in created.values():
            future.result(_CREATION_S)
        for worker in self.workers:
            worker.start()

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
        plain = read_topic(self._bootstrap_servers, self.producer.topic, PARTITION_COUNT, isolation="read_uncommitted")
        yield from find_lost_records(self.producer, plain)
        copies = read_topic(self._bootstrap_servers, self.copier.topic, PARTITION_COUNT, isolation="read_committed")
        yield from find_broken_transactions(self.copier, copies)
        yield from find_uncopied_records(self.copier, plain, copies, self.copier.committed_positions())
        yield from self.committer.verify()
        yield from self.sharer.verify()

    def progress(self) -> str:
        """What was promised, in one line."""
        return "; ".join(worker.progress() for worker in self.workers)


def play_kills(
    broker: BrokerProcess | KafkaProcess, *, kills: int, seed: int, run_max_s: float = _RUN_MAX_S
) -> list[str]:
    """Play rounds until there were so many kills, each at most `run_max_s` after a start but for some long runs.

    Returns: the violations, none if every promise was held.
    """
    chance = random.Random(seed)
    violations: list[str] = []
    starts = [broker.start()]
    rounds: list[Round] = []
    for number in range(-(-kills // _ROUND_KILLS)):
        present = Round(broker.bootstrap_servers, number, seed)
        present.start()
        for _ in range(min(_ROUND_KILLS, kills - number * _ROUND_KILLS)):
            wait(_LONG_RUN_S if chance.random() < _LONG_RUN_SHARE else chance.uniform(0, run_max_s))
            broker.kill()
            starts.append(broker.start())
        found = present.finish()
        violations += found
        rounds.append(present)
        slowest_s = max(starts)
        print(f"round {number}: {present.progress()}; slowest start {slowest_s:.2f} s", flush=True)
        for problem in found:
            print(f"  VIOLATION {problem}", flush=True)
    for earlier in rounds[:-1]:
        violations += earlier.verify()
    code = broker.stop()
    if code not in broker.clean_codes:
        violations.append(f"the broker has ended with code {code}")
    return violations + broker.find_errors()


def wait(duration_s: float) -> None:
    """Let the load run for a while of real time."""
    threading.Event().wait(duration_s)


def _create_broker(folder: Path, data: Path | None, *, is_real: bool) -> BrokerProcess | KafkaProcess:
    if is_real:
        return KafkaProcess(folder, partition_count=PARTITION_COUNT)
    arguments = ["--data-dir", str(data or folder / "data"), "--profile", "quick"]
    arguments += ["--set", f"num.partitions={PARTITION_COUNT}"]
    return BrokerProcess(arguments, folder / "broker.log")


def main() -> int:
    """Returns 1 when a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.durability.kill", description=__doc__)
    parser.add_argument("--kills", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--run-max", type=float, default=_RUN_MAX_S, metavar="S", help="between a start and a kill")
    parser.add_argument("--data-dir", type=Path, help="default: a temporary folder")
    parser.add_argument("--real", action="store_true", help="kill a real Apache Kafka instead; needs Java and Maven")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        broker = _create_broker(Path(folder), args.data_dir, is_real=args.real)
        started_s = time.monotonic()
        try:
            violations = play_kills(broker, kills=args.kills, seed=args.seed, run_max_s=args.run_max)
        except Exception:
            print(broker.log_tail(), file=sys.stderr)
            raise
        finally:
            broker.kill()
    print(f"{args.kills} kills in {time.monotonic() - started_s:.0f} s, seed {args.seed}: {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
