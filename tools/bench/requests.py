"""`python -m tools.bench.requests`: the broker's CPU time for one small request of each of five kinds."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from kwire import Client
from kwire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kwire.messages.share_fetch import FetchPartition as SharePartition
from kwire.messages.share_fetch import FetchTopic as ShareTopic
from kwire.messages.share_fetch import ShareFetchRequest
from kwire.records import Record, write_batch
from tools.bench.brokers import stop_process
from tools.bench.history import summarize
from tools.bench.page import describe_machine, markdown_table, publish_section, spread_text

GOAL_US = 60
_TOPIC, _EMPTY, _GROUP, _MEMBER = "requests", "empty", "bench", "AAAAAAAAAAAAAAAAAAAAAQ"
_VALUE = b"v" * 100
#: Requests of each kind that are not measured.
_WARM_UP = 50


class RequestSender:
    """A client of one broker process that sends requests one at a time, and reads the CPU time of the broker's thread.

    Linux only: the time is that of the process's main thread in /proc, in nanoseconds.
    """

    def __init__(self, process: subprocess.Popen[str], bootstrap: str) -> None:
        self._thread = Path(f"/proc/{process.pid}/task/{process.pid}/schedstat")
        self._client = Client(bootstrap)
        topics = self._client.send(
            MetadataRequest([MetadataRequestTopic(name=name) for name in (_TOPIC, _EMPTY)])
        ).topics
        ids = {topic.name: topic.topic_id for topic in topics}
        self._topic_id: bytes = ids[_TOPIC]
        self._empty_id: bytes = ids[_EMPTY]
        self._epoch = count(1)
        self._acquired: list[int] = []

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def measure(self, send: Callable[[], object], request_count: int) -> float:
        """The CPU time of the broker for one request, microseconds: the mean of `request_count` in sequence."""
        before = self._spent_ns()
        for _ in range(request_count):
            send()
        return (self._spent_ns() - before) / request_count / 1_000

    def _spent_ns(self) -> int:
        time.sleep(0.002)  # The broker's work after its last answer belongs to that request.
        return int(self._thread.read_text(encoding="ascii").split()[0])

    def start_share_session(self) -> None:
        """Let the share group start at the beginning of the topic, and open the session of its member."""
        partitions = [AlterShareGroupOffsetsRequestPartition(0, 0)]
        topics = [AlterShareGroupOffsetsRequestTopic(_TOPIC, partitions)]
        _expect(self._client.send(AlterShareGroupOffsetsRequest(_GROUP, topics)).error_code)
        answer = self._fetch_shared(0, max_records=1, topics=[ShareTopic(self._topic_id, [SharePartition(0)])])
        self._acquired += _acquired_offsets(answer)

    def ask_metadata(self) -> None:
        """Metadata of one topic."""
        self._client.send(MetadataRequest([MetadataRequestTopic(name=_TOPIC)]))

    def produce_record(self) -> None:
        """Produce with a batch of one record of 100 bytes, acks all."""
        batch = write_batch([Record(0, time.time_ns() // 1_000_000, None, _VALUE, ())])
        data = TopicProduceData(topic_id=self._topic_id, partition_data=[PartitionProduceData(0, batch)])
        answer = self._client.send(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[data]))
        _expect(answer.responses[0].partition_responses[0].error_code)

    def fetch_nothing(self) -> None:
        """Fetch from an empty partition, without a wait."""
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic_id=self._empty_id, partitions=[partition])]
        answer = self._client.send(FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics))
        _expect(answer.responses[0].partitions[0].error_code)

    def fetch_shared_record(self) -> None:
        """ShareFetch of one record, which it acquires."""
        self._acquired += _acquired_offsets(self._fetch_shared(next(self._epoch), max_records=1, topics=[]))

    def acknowledge_record(self) -> None:
        """ShareAcknowledge: accept one record."""
        offset = self._acquired.pop(0)
        partition = AcknowledgePartition(0, [AcknowledgementBatch(offset, offset, (1,))])
        topics = [AcknowledgeTopic(self._topic_id, [partition])]
        answer = self._client.send(ShareAcknowledgeRequest(_GROUP, _MEMBER, next(self._epoch), topics=topics))
        _expect(answer.responses[0].partitions[0].error_code)

    def _fetch_shared(self, epoch: int, *, max_records: int, topics: list[ShareTopic]) -> Any:
        request = ShareFetchRequest(_GROUP, _MEMBER, epoch, 1_000, 1, 1 << 20, max_records, 1, topics=topics)
        answer = self._client.send(request)
        _expect(answer.error_code)
        return answer


def _acquired_offsets(answer: Any) -> list[int]:
    runs = [run for topic in answer.responses for row in topic.partitions for run in row.acquired_records]
    return [offset for run in runs for offset in range(run.first_offset, run.last_offset + 1)]


def _expect(code: int) -> None:
    if code:
        raise RuntimeError(f"the broker answered with error {code}")


@contextmanager
def run_sender(checkout: Path | None) -> Iterator[RequestSender]:
    """A client of a new broker process; of the code in another checkout, if one is given."""
    command = [sys.executable, "-m", "mockbroker", "--port", "0", "--log-level", "error"]
    command += [word for name in (_TOPIC, _EMPTY) for word in ("--topic", f"{name}:1")]
    environment = dict(os.environ) if checkout is None else {**os.environ, "PYTHONPATH": str(checkout)}
    with ExitStack() as stack:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=checkout)
        stack.callback(stop_process, process)
        assert process.stdout is not None
        sender = RequestSender(process, process.stdout.readline().strip())
        stack.callback(sender.close)
        yield sender


def measure_requests(checkout: Path | None, request_count: int) -> dict[str, float]:
    """Microseconds of the broker for each kind of request."""
    with run_sender(checkout) as sender:
        for _ in range(request_count + _WARM_UP):
            sender.produce_record()
        sender.start_share_session()
        kinds: Mapping[str, Callable[[], object]] = {
            "Metadata, one topic": sender.ask_metadata,
            "Produce, one record": sender.produce_record,
            "Fetch, empty": sender.fetch_nothing,
            "ShareFetch, one record": sender.fetch_shared_record,
            "ShareAcknowledge, one record": sender.acknowledge_record,
        }
        # The modules of a handler are loaded by its first request.
        for send in kinds.values():
            for _ in range(_WARM_UP):
                send()
        return {name: sender.measure(send, request_count) for name, send in kinds.items()}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.requests", description=__doc__)
    parser.add_argument("--count", type=int, default=1_500, help="requests of each kind in a run, up to 1,800")
    parser.add_argument("--rounds", type=int, default=7, help="runs, each with a new broker")
    parser.add_argument("--against", type=Path, metavar="DIR", help="measure another checkout in turns; print only")
    parser.add_argument("--one-cpu", action="store_true", help="client and broker on one CPU, which varies less")
    parser.add_argument("--dry-run", action="store_true", help="print only")
    args = parser.parse_args()
    if args.one_cpu:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    checkouts = [None] if args.against is None else [None, args.against]
    measured: list[list[dict[str, float]]] = [[] for _ in checkouts]
    for _ in range(args.rounds):
        for results, checkout in zip(measured, checkouts, strict=True):
            results.append(measure_requests(checkout, args.count))
    text = _render_section(measured[0], measured[1] if args.against else None, args.count)
    summaries = [summarize(name, "mockbroker", "us", [run[name] for run in measured[0]]) for name in measured[0][0]]
    publish_section("requests", text, summaries, write=not args.dry_run and args.against is None)


def _render_section(ours: Sequence[dict[str, float]], others: Sequence[dict[str, float]] | None, count: int) -> str:
    rows = []
    for name in ours[0]:
        values = [run[name] for run in ours]
        row = [name, spread_text(values), "yes" if median(values) <= GOAL_US else "no"]
        if others is not None:
            theirs = [run[name] for run in others]
            row += [spread_text(theirs), f"{median(values) / median(theirs):.2f}"]
        rows.append(row)
    head = ["request", "broker CPU, us", f"at most {GOAL_US} us"]
    head += [] if others is None else ["other checkout, us", "ratio"]
    return (
        "## The cost of a request\n\nCPU time of the broker's thread for one small request, sockets included: "
        f"{count:,} in sequence from\none client, in the newest version of each API. Median [least … most] of "
        f"{len(ours)} runs, journal and all\nchecks on; {describe_machine()}.\n\n{markdown_table(head, rows)}"
    )


if __name__ == "__main__":
    main()
