"""Make captures for benchmarks: real clients (confluent-kafka) against mockbroker, which writes the capture.

`python -m tools.bench.capture_traffic small OUT.pcapng --messages 20000` makes packets of about 200 bytes: every
message is one Produce request, awaited, and fetched at once; a group commits after each poll, a share group
acknowledges. `old` is the same with aiokafka, which uses versions of 2019, and no share groups. `large` makes packets
of 32 KB on average: batches of 64 KB, produced and fetched, and a short packet for each. `pipelined` has producers that
do not wait, with several requests in a packet, and a group that reads at the end. `connections` has many short
connections, each with a few requests. `share` has share consumers that release and reject some of the messages.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import AcknowledgeType, Consumer, KafkaException, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, NewTopic

from kwire.client import Client
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.records import Record
from kwire.records.writer import write_batch

_TIMEOUT_S = 120.0
_QUIET = {"log_level": 0}
_SMALL_VALUE, _LARGE_VALUE = 40, 16_200
_BATCH_SIZE = 65_100
_PARTITIONS = 4
_SHARE_CONSUMERS = 3


def main() -> None:
    """Write one capture."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.capture_traffic", description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("out", type=Path, metavar="OUT.pcapng")
    parser.add_argument("--messages", type=int, default=20_000, help="messages to produce (default: %(default)s)")
    args = parser.parse_args()
    write_capture(args.kind, args.out, messages=args.messages)


def write_capture(kind: str, out: Path, *, messages: int) -> int:
    """Run the clients of one kind against a broker that writes `out`; return the broker's port."""
    with _broker(out) as bootstrap:
        admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})
        admin.create_topics([NewTopic("bench", _PARTITIONS, 1)])["bench"].result(_TIMEOUT_S)
        KINDS[kind](bootstrap, messages)
    return int(bootstrap.rpartition(":")[2])


def _small(bootstrap: str, messages: int) -> None:
    """Producers that wait for each message, and a group and a share group that read the messages."""
    is_over = threading.Event()
    is_ready = [threading.Event() for _ in range(2)]
    readers = [
        threading.Thread(target=read, args=(bootstrap, is_over, ready))
        for read, ready in zip((_consume, _share_consume), is_ready, strict=True)
    ]
    share = messages // _PARTITIONS
    writers = [threading.Thread(target=_produce_each, args=(bootstrap, share, index)) for index in range(_PARTITIONS)]
    for thread in readers:
        thread.start()
    while not all(ready.is_set() for ready in is_ready):
        # Both groups get their partitions after some seconds; a share group starts with the messages after that.
        _produce_each(bootstrap, 1, 0)
        is_ready[-1].wait(0.1)
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    is_over.set()
    for thread in readers:
        thread.join()


def _old(bootstrap: str, messages: int) -> None:
    """The same without a share group, with a client whose versions older readers support."""
    asyncio.run(_old_clients(bootstrap, messages))


async def _old_clients(bootstrap: str, messages: int) -> None:
    settings = {"auto_offset_reset": "earliest", "group_id": "readers", "fetch_max_wait_ms": 10}
    async with (
        AIOKafkaConsumer("bench", bootstrap_servers=bootstrap, client_id="reader", **settings) as consumer,
        AIOKafkaProducer(bootstrap_servers=bootstrap, client_id="writer") as producer,
    ):

        async def write(partition: int) -> None:
            for _ in range(messages // _PARTITIONS):
                await producer.send_and_wait("bench", os.urandom(_SMALL_VALUE), key=b"key", partition=partition)

        async def read() -> None:
            left = messages
            while left > 0:
                left -= sum(map(len, (await consumer.getmany(timeout_ms=100)).values()))
                await consumer.commit()

        await asyncio.gather(read(), *(write(partition) for partition in range(_PARTITIONS)))


def _large(bootstrap: str, messages: int) -> None:
    """A producer of full batches, then a consumer that reads all of them."""
    settings = {"linger.ms": 50, "batch.size": _BATCH_SIZE, "client.id": "bulk", **_QUIET}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    value = os.urandom(_LARGE_VALUE)
    for number in range(messages):
        while True:
            try:
                producer.produce("bench", value, partition=number % _PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(_TIMEOUT_S):
        raise RuntimeError("some messages were not produced")
    limits = dict.fromkeys(("fetch.message.max.bytes", "fetch.max.bytes", "message.max.bytes"), _BATCH_SIZE)
    with closing(_consumer(bootstrap, **limits)) as consumer:
        consumer.subscribe(["bench"])
        _consume_messages(lambda: len(consumer.consume(1000, 1.0)), messages)


def _pipelined(bootstrap: str, messages: int) -> None:
    """Producers that send a request for each message and wait for none, then a consumer that reads all messages."""
    # A socket that is written to seldom sends several requests together.
    settings = {"linger.ms": 0, "batch.num.messages": 1, "max.in.flight": 100, "socket.nagle.disable": False, **_QUIET}
    producers = [
        Producer({"bootstrap.servers": bootstrap, "client.id": f"writer-{number}", **settings})
        for number in range(_PARTITIONS)
    ]
    for number in range(messages):
        partition = number % _PARTITIONS
        while True:
            try:
                producers[partition].produce("bench", os.urandom(_SMALL_VALUE), partition=partition)
                break
            except BufferError:
                producers[partition].poll(0.1)
    if any(producer.flush(_TIMEOUT_S) for producer in producers):
        raise RuntimeError("some messages were not produced")
    with closing(_consumer(bootstrap)) as consumer:
        consumer.subscribe(["bench"])
        _consume_messages(lambda: len(consumer.consume(100, 1.0)), messages)


def _connections(bootstrap: str, messages: int) -> None:
    """Connections that ask for versions and metadata, produce and fetch one message, and close."""
    for number in range(messages):
        with Client(bootstrap, client_id=f"client-{number % 50}") as client:
            named: MetadataResponse = client.send(MetadataRequest([MetadataRequestTopic(name="bench")]))
            topic_id, partition = named.topics[0].topic_id, number % _PARTITIONS
            batch = write_batch([Record(value=os.urandom(_SMALL_VALUE))])
            written = TopicProduceData("bench", topic_id, [PartitionProduceData(partition, batch)])
            client.send(ProduceRequest(acks=1, timeout_ms=1000, topic_data=[written]))
            offset = max(number // _PARTITIONS - 1, 0)
            read = FetchTopic(
                "bench", topic_id, [FetchPartition(partition, fetch_offset=offset, partition_max_bytes=500)]
            )
            client.send(FetchRequest(max_wait_ms=0, topics=[read]))


def _share(bootstrap: str, messages: int) -> None:
    """Share consumers that accept most messages, release some and reject a few, until all were settled."""
    settled: set[bytes] = set()
    is_over = threading.Event()
    is_ready = [threading.Event() for _ in range(_SHARE_CONSUMERS)]
    readers = [threading.Thread(target=_settle, args=(bootstrap, settled, is_over, ready)) for ready in is_ready]
    for thread in readers:
        thread.start()
    while not all(ready.is_set() for ready in is_ready):
        # A share group starts with the messages that are produced after its first assignment.
        for index in range(_PARTITIONS):
            _produce_each(bootstrap, 1, index)
        is_ready[-1].wait(0.1)
    with_keys = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1, "client.id": "writer", **_QUIET})
    for number in range(messages):
        with_keys.produce("bench", os.urandom(_SMALL_VALUE), key=f"m{number}", partition=number % _PARTITIONS)
        with_keys.poll(0)
    if with_keys.flush(_TIMEOUT_S):
        raise RuntimeError("some messages were not produced")
    deadline = time.monotonic() + _TIMEOUT_S
    while len(settled) < messages and time.monotonic() < deadline:
        is_over.wait(0.1)
    is_over.set()
    for thread in readers:
        thread.join()
    if len(settled) < messages:
        raise TimeoutError(f"{messages - len(settled)} messages were not settled")


def _settle(bootstrap: str, settled: set[bytes], is_over: threading.Event, is_ready: threading.Event) -> None:
    settings = {"bootstrap.servers": bootstrap, "group.id": "sharers", "share.acknowledgement.mode": "explicit"}
    with closing(ShareConsumer({**settings, "client.id": "sharer", **_QUIET})) as consumer:
        consumer.subscribe(["bench"])
        while not is_over.is_set():
            for message in consumer.poll(0.05):
                if message.error() is not None:
                    raise KafkaException(message.error())
                is_ready.set()
                number, key = message.offset() or 0, message.key() or b""
                is_released = number % 10 == 0 and message.delivery_count() == 1
                kind = AcknowledgeType.REJECT if number % 100 == 1 else AcknowledgeType.ACCEPT
                consumer.acknowledge(message, AcknowledgeType.RELEASE if is_released else kind)
                if key.startswith(b"m") and not is_released:
                    settled.add(key)
            consumer.commit_sync(_TIMEOUT_S)


def _consumer(bootstrap: str, **limits: int) -> Consumer:
    settings = {"group.id": "bulk", "auto.offset.reset": "earliest", "fetch.wait.max.ms": 100, **_QUIET}
    return Consumer({"bootstrap.servers": bootstrap, **settings, **limits})


KINDS: dict[str, Callable[[str, int], None]] = {
    "small": _small,
    "old": _old,
    "large": _large,
    "pipelined": _pipelined,
    "connections": _connections,
    "share": _share,
}


def _consume_messages(consume: Callable[[], int], count: int) -> None:
    idle = 0
    while count > 0:
        received = consume()
        count -= received
        idle = 0 if received else idle + 1
        if idle > _TIMEOUT_S:
            raise TimeoutError(f"{count} messages were not received")


def _produce_each(bootstrap: str, messages: int, index: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "client.id": f"writer-{index}", **_QUIET})
    for _ in range(messages):
        producer.produce("bench", os.urandom(_SMALL_VALUE), key=f"key-{index}", partition=index)
        if producer.flush(_TIMEOUT_S):
            raise RuntimeError("a message was not produced")


def _consume(bootstrap: str, is_over: threading.Event, is_ready: threading.Event) -> None:
    names = {"bootstrap.servers": bootstrap, "group.id": "readers", "client.id": "reader", **_QUIET}
    settings = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "fetch.wait.max.ms": 10}
    with closing(Consumer({**names, **settings})) as consumer:
        consumer.subscribe(["bench"])
        while not is_over.is_set():
            if consumer.consume(50, 0.05):
                is_ready.set()
                consumer.commit(asynchronous=True)


def _share_consume(bootstrap: str, is_over: threading.Event, is_ready: threading.Event) -> None:
    settings = {"bootstrap.servers": bootstrap, "group.id": "sharers", "client.id": "sharer"}
    with closing(ShareConsumer({**settings, "share.acknowledgement.mode": "implicit", **_QUIET})) as consumer:
        consumer.subscribe(["bench"])
        while not is_over.is_set():
            for message in consumer.poll(0.05):
                if message.error() is not None:
                    raise KafkaException(message.error())
                is_ready.set()


@contextmanager
def _broker(out: Path) -> Iterator[str]:
    """mockbroker in another process, which writes a capture; yields its bootstrap address."""
    command = [sys.executable, "-m", "mockbroker.cli", "--port", "0", "--log-level", "error", "--capture", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        try:
            line = broker.stdout.readline()
            yield next(word for word in line.replace(",", " ").split() if ":" in word).split("//")[-1]
        finally:
            broker.terminate()
            broker.wait(_TIMEOUT_S)


if __name__ == "__main__":
    main()
