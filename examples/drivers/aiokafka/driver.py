"""A driver of `mockbroker certify` for aiokafka: JSON lines on stdin and stdout (docs/certify-drivers.md)."""

import asyncio
import contextlib
import importlib.util
import json
import logging
import os
import ssl
import sys

import aiokafka
from aiokafka import errors
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.helpers import create_ssl_context

CAPABILITIES = [
    *("producer", "producer.idempotence", "producer.transactions", "consumer.assign", "consumer.classic"),
    *("consumer.classic.static", "consumer.pattern", "consumer.rebalance_events", "consumer.wakeup", "consumer.seek"),
    *("consumer.pause", "consumer.offsets", "admin.topics", "admin.cluster", "sasl.plain", "sasl.scram", "tls"),
    "compression.gzip",
]
if importlib.util.find_spec("cramjam"):
    CAPABILITIES += ["compression.snappy", "compression.lz4", "compression.zstd"]

#: Settings by the names of aiokafka, where it has another one.
COMMON = {
    **{name: name for name in ("bootstrap_servers", "client_id", "request_timeout_ms", "metadata_max_age_ms")},
    **{name: name for name in ("retry_backoff_ms", "connections_max_idle_ms", "security_protocol", "sasl_mechanism")},
    "username": "sasl_plain_username",
    "password": "sasl_plain_password",
    "tls_ca_file": "ssl_context",
}
PRODUCER = {
    **{name: name for name in ("acks", "linger_ms", "max_request_size", "transactional_id")},
    "idempotence": "enable_idempotence",
    "batch_size": "max_batch_size",
    "compression": "compression_type",
    "transaction_timeout_ms": "transaction_timeout_ms",
}
CONSUMER = {
    **{name: name for name in ("group_id", "group_instance_id", "session_timeout_ms", "heartbeat_interval_ms")},
    **{name: name for name in ("max_poll_interval_ms", "auto_offset_reset", "enable_auto_commit", "isolation_level")},
    **{name: name for name in ("auto_commit_interval_ms", "fetch_min_bytes", "fetch_max_wait_ms", "fetch_max_bytes")},
    **{name: name for name in ("max_partition_fetch_bytes", "max_poll_records", "client_rack", "check_crcs")},
    "assignors": "partition_assignment_strategy",
}
SETTINGS = {"producer": COMMON | PRODUCER, "consumer": COMMON | CONSUMER, "admin": COMMON}
CLASSES = {
    "producer": aiokafka.AIOKafkaProducer,
    "consumer": aiokafka.AIOKafkaConsumer,
    "admin": AIOKafkaAdminClient,
}
ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
#: Names of errors that Kafka has changed since.
KAFKA_NAMES = {
    "UNKNOWN": "UNKNOWN_SERVER_ERROR",
    "NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER",
    "MESSAGE_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE",
    "STALE_LEADER_EPOCH_CODE": "NETWORK_EXCEPTION",
    "INVALID_TOPIC": "INVALID_TOPIC_EXCEPTION",
    "INVALID_REPLICATION_ASSIGNMENT": "INVALID_REPLICA_ASSIGNMENT",
}


class Unsupported(Exception):
    """Something that the client does not have."""


LOCAL_NAMES = (
    (Unsupported, "LOCAL_UNSUPPORTED"),
    ((errors.KafkaTimeoutError, asyncio.TimeoutError, TimeoutError), "LOCAL_TIMEOUT"),
    (errors.NoOffsetForPartitionError, "LOCAL_NO_OFFSET"),
    ((errors.AuthenticationFailedError, errors.AuthenticationMethodNotSupported, ssl.SSLError), "LOCAL_AUTHENTICATION"),
    ((errors.UnsupportedCodecError, errors.IncompatibleBrokerVersion), "LOCAL_UNSUPPORTED"),
    ((errors.KafkaConnectionError, errors.NodeNotReadyError, errors.NoBrokersAvailable, OSError), "LOCAL_TRANSPORT"),
    ((errors.IllegalStateError, errors.IllegalArgumentError, errors.KafkaConfigurationError), "LOCAL_ILLEGAL_STATE"),
    ((errors.ProducerClosed, ValueError, TypeError, AssertionError), "LOCAL_ILLEGAL_STATE"),
)


def describe(error):
    """The error as the protocol has it: Kafka's name if the client has the code, otherwise by the exception's class."""
    if isinstance(error, errors.BrokerResponseError) and error.errno is not None:
        name = KAFKA_NAMES.get(error.message, error.message)
    elif isinstance(error, errors.RecordTooLargeError):
        name = "MESSAGE_TOO_LARGE"
    elif isinstance(error, errors.ProducerFenced):
        name = "PRODUCER_FENCED"
    else:
        name = next((local for kinds, local in LOCAL_NAMES if isinstance(error, kinds)), "LOCAL_OTHER")
    described = {"name": name, "message": f"{type(error).__name__}: {error}"}
    return {**described, "retriable": error.retriable} if isinstance(error, errors.KafkaError) else described


class Client:
    """One client. It connects with its first call: `start` of aiokafka fails without a broker."""

    def __init__(self, kind, settings):
        self.kind = kind
        self.config = translate(kind, settings)
        self.group_id = settings.get("group_id")
        self.client = CLASSES[kind](**self.config)
        self.started = False
        self.events = []
        self.has_events = asyncio.Event()

    async def start(self):
        if self.started:
            return
        try:
            await self.client.start()
        except BaseException:
            failed, self.client = self.client, CLASSES[self.kind](**self.config)
            await stop(failed)
            raise
        self.started = True

    def add_event(self, event):
        self.events.append(event)
        self.has_events.set()

    def take_events(self):
        taken, self.events = self.events, []
        self.has_events.clear()
        return taken


class Listener(aiokafka.ConsumerRebalanceListener):
    """Keeps the callbacks of rebalances as events. The client has none for partitions that were lost."""

    def __init__(self, client):
        self.client = client

    def on_partitions_assigned(self, assigned):
        self.client.add_event({"type": "assigned", "partitions": [place(each) for each in assigned]})

    def on_partitions_revoked(self, revoked):
        if revoked:
            self.client.add_event({"type": "revoked", "partitions": [place(each) for each in revoked]})


def translate(kind, settings):
    """The arguments of a client; what is not set keeps its default."""
    if kind not in SETTINGS:
        raise Unsupported(f"a client of kind {kind}")
    config = {}
    for name, value in settings.items():
        if name not in SETTINGS[kind]:
            raise Unsupported(f"setting {name} of a {kind}")
        if name == "assignors":
            unknown = [each for each in value if each not in ASSIGNORS]
            if unknown:
                raise Unsupported(f"assignor {unknown[0]}")
            value = [ASSIGNORS[each] for each in value]
        elif name == "tls_ca_file":
            value = create_ssl_context(cafile=value)
        elif (name, value) == ("compression", "none"):
            value = None
        config[SETTINGS[kind][name]] = value
    if settings.get("security_protocol") in ("SSL", "SASL_SSL"):
        config.setdefault("ssl_context", create_ssl_context())
    return config


async def stop(client):
    await (client.close() if isinstance(client, AIOKafkaAdminClient) else client.stop())


async def close(client, params):
    if client.started:
        await stop(client.client)
    return {"events": client.take_events()}


async def send(client, params):
    """Give all records to the client, then wait for each, within the time of the call."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + params["timeout_ms"] / 1000 - 0.05
    outcomes = []
    for record in params["records"]:
        try:
            outcomes.append(await asyncio.wait_for(send_one(client.client, params, record), deadline - loop.time()))
        except Exception as error:
            outcomes.append(error)
    futures = [outcome for outcome in outcomes if isinstance(outcome, asyncio.Future)]
    if futures:
        await asyncio.wait(futures, timeout=max(deadline - loop.time(), 0))
    return {"deliveries": [delivery(params["topic"], outcome) for outcome in outcomes]}


async def send_one(producer, params, record):
    headers = [(name, encode(value)) for name, value in record.get("headers") or []]
    partition = record.get("partition", params.get("partition"))
    key, value = encode(record.get("key")), encode(record["value"])
    return await producer.send(params["topic"], value, key, partition, record.get("timestamp"), headers)


def delivery(topic, outcome):
    if isinstance(outcome, asyncio.Future):
        if not outcome.done():
            outcome = TimeoutError("the record has not been delivered in time")
        else:
            outcome = outcome.exception() or outcome.result()
    if isinstance(outcome, BaseException):
        return {"error": describe(outcome)}
    if outcome is None:  # With acks=0 the client returns nothing; the record's place is not known.
        return {"topic": topic, "partition": -1, "offset": -1}
    return {
        **place(outcome),
        "offset": -1 if outcome.offset is None else outcome.offset,
        "timestamp": outcome.timestamp,
    }


def transaction(method):
    async def run(client, params):
        await getattr(client.client, method)()
        return {}

    return run


async def init_transactions(client, params):
    return {}  # `start`, which the driver calls before, has the producer id.


async def send_offsets(client, params):
    offsets = {partition_of(each): each["offset"] for each in params["offsets"]}
    await client.client.send_offsets_to_transaction(offsets, OPEN[params["consumer"]].group_id)
    return {}


async def subscribe(client, params):
    topics, pattern = params.get("topics") or (), params.get("pattern")
    client.client.subscribe(topics, pattern, Listener(client))
    return {}


async def assign(client, params):
    consumer = client.client
    consumer.assign([partition_of(each) for each in params["partitions"]])
    for each in params["partitions"]:
        offset = each.get("offset")
        if offset == "earliest":
            await consumer.seek_to_beginning(partition_of(each))
        elif offset == "latest":
            await consumer.seek_to_end(partition_of(each))
        elif offset is not None:
            consumer.seek(partition_of(each), offset)
    return {}


async def poll(client, params):
    """Wait for records or an event. A wakeup cancels the coroutine that waits."""
    limit = {"max_records": params["max_records"]} if params.get("max_records") else {}
    records = asyncio.ensure_future(client.client.getmany(timeout_ms=params["timeout_ms"], **limit))
    event = asyncio.ensure_future(client.has_events.wait())
    wakeup_ms = params.get("wakeup_after_ms")
    wait_ms = params["timeout_ms"] if wakeup_ms is None else min(wakeup_ms, params["timeout_ms"])
    await asyncio.wait({records, event}, timeout=wait_ms / 1000, return_when=asyncio.FIRST_COMPLETED)
    event.cancel()
    found = {}
    if not records.done():
        records.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        found = await records
    received = [consumed(record) for batch in found.values() for record in batch]
    return {"records": received, "events": client.take_events()}


def consumed(record):
    headers = [[name, decode(value)] for name, value in record.headers]
    received = {**place(record), "offset": record.offset, "key": decode(record.key), "value": decode(record.value)}
    return {**received, "headers": headers, "timestamp": record.timestamp}


async def commit(client, params):
    offsets = params.get("offsets")
    await client.client.commit(offsets and {partition_of(each): each["offset"] for each in offsets})
    return {}


def offsets_by(method):
    async def run(client, params):
        find = getattr(client.client, method)
        return {"offsets": [{**each, "offset": await find(partition_of(each))} for each in params["partitions"]]}

    return run


async def seek(client, params):
    client.client.seek(partition_of(params), params["offset"])
    return {}


async def pause(client, params):
    client.client.pause(*map(partition_of, params["partitions"]))
    return {}


async def resume(client, params):
    client.client.resume(*map(partition_of, params["partitions"]))
    return {}


async def unsubscribe(client, params):
    client.client.unsubscribe()
    return {}


async def assignment(client, params):
    return {"partitions": [place(each) for each in sorted(client.client.assignment())]}


async def create_topics(client, params):
    topics = [NewTopic(each["name"], each["partitions"], each["replication_factor"]) for each in params["topics"]]
    check(await client.client.create_topics(topics, timeout_ms=params["timeout_ms"]), "topic_errors")
    return {}


async def delete_topics(client, params):
    check(await client.client.delete_topics(params["topics"], timeout_ms=params["timeout_ms"]), "topic_error_codes")
    return {}


async def create_partitions(client, params):
    counts = {each["name"]: NewPartitions(each["count"]) for each in params["topics"]}
    check(await client.client.create_partitions(counts, timeout_ms=params["timeout_ms"]), "topic_errors")
    return {}


def check(response, field):
    """The admin client returns responses with errors inside. Raises: the first one."""
    for topic, code, *message in getattr(response, field):
        if code:
            raise errors.for_code(code)(f"{topic}: {message[0] if message else ''}")


async def list_topics(client, params):
    return {"topics": sorted(await client.client.list_topics())}


async def describe_cluster(client, params):
    found = await client.client.describe_cluster()
    nodes = [{"id": each["node_id"], "host": each["host"], "port": each["port"]} for each in found["brokers"]]
    return {"cluster_id": found.get("cluster_id"), "controller": found.get("controller_id"), "nodes": nodes}


def encode(text):
    return None if text is None else text.encode()


def decode(data):
    return None if data is None else data.decode("utf-8", "replace")


def place(at):
    return {"topic": at.topic, "partition": at.partition}


def partition_of(given):
    return aiokafka.TopicPartition(given["topic"], given["partition"])


OPEN = {}  # By the name of the client.
METHODS = {
    "producer": {
        "send": send,
        "init_transactions": init_transactions,
        "begin": transaction("begin_transaction"),
        "commit_transaction": transaction("commit_transaction"),
        "abort_transaction": transaction("abort_transaction"),
        "send_offsets": send_offsets,
    },
    "consumer": {
        "subscribe": subscribe,
        "unsubscribe": unsubscribe,
        "assign": assign,
        "poll": poll,
        "commit": commit,
        "committed": offsets_by("committed"),
        "position": offsets_by("position"),
        "seek": seek,
        "pause": pause,
        "resume": resume,
        "assignment": assignment,
    },
    "admin": {
        "create_topics": create_topics,
        "delete_topics": delete_topics,
        "create_partitions": create_partitions,
        "list_topics": list_topics,
        "describe_cluster": describe_cluster,
    },
}


def hello(params):
    if params.get("protocol") != 1:
        raise Unsupported(f"version {params.get('protocol')} of the protocol; this driver speaks version 1")
    about = {"protocol": 1, "name": "aiokafka", "version": aiokafka.__version__, "language": "Python"}
    return {**about, "capabilities": CAPABILITIES, "settings": sorted(COMMON | PRODUCER | CONSUMER)}


def open_client(params):
    if params["client"] in OPEN:
        raise errors.IllegalStateError(f"a client {params['client']} is open")
    OPEN[params["client"]] = Client(params["kind"], params["settings"])
    return {}


async def call(method, params):
    if method in ("hello", "open"):
        return hello(params) if method == "hello" else open_client(params)
    name = params.get("client")
    if name is not None and name not in OPEN:
        raise errors.IllegalStateError(f"no client {name} is open")
    client = OPEN.get(name)
    params.setdefault("timeout_ms", 10_000)
    timeout_s = params["timeout_ms"] / 1000
    if client is not None and method == "close":
        del OPEN[name]
        return await asyncio.wait_for(close(client, params), timeout_s)
    if client is None or method not in METHODS[client.kind]:
        raise Unsupported(f"method {method}")
    return await asyncio.wait_for(start_and_call(client, METHODS[client.kind][method], params), timeout_s + 1)


async def start_and_call(client, method, params):
    await asyncio.wait_for(client.start(), params["timeout_ms"] / 1000)
    return await method(client, params)


async def main():
    """Answer the requests of stdin, one after the other."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
    while line := await asyncio.to_thread(sys.stdin.readline):
        request = json.loads(line)
        try:
            answer = {"result": await call(request["method"], request["params"])}
        except Exception as error:
            answer = {"error": describe(error)}
        print(json.dumps({"id": request["id"], **answer}), flush=True)
    os._exit(0)  # The clients are left as a crash leaves them.


if __name__ == "__main__":
    asyncio.run(main())
