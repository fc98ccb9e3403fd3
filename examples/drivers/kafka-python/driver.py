"""A driver of `mockbroker certify` for kafka-python: JSON lines on stdin and stdout (docs/certify-drivers.md)."""

import importlib.util
import json
import logging
import sys
import time

import kafka
from kafka import errors
from kafka.admin import KafkaAdminClient, NewPartitions, NewTopic
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.structs import OffsetAndMetadata, TopicPartition

CAPABILITIES = """producer producer.idempotence producer.transactions consumer.assign consumer.classic
consumer.classic.cooperative consumer.classic.static consumer.pattern consumer.rebalance_events consumer.seek
consumer.pause consumer.offsets admin.topics admin.cluster admin.offsets sasl.plain sasl.scram tls compression.gzip""".split()
for codec, module in (("snappy", "snappy"), ("lz4", "lz4"), ("zstd", "zstandard")):
    CAPABILITIES += [f"compression.{codec}"] if importlib.util.find_spec(module) else []
#: Neutral settings by the names of kafka-python.
COMMON = {
    "request_timeout_ms": "request_timeout_ms", "metadata_max_age_ms": "metadata_max_age_ms",
    "retry_backoff_ms": "retry_backoff_ms", "reconnect_backoff_ms": "reconnect_backoff_ms",
    "reconnect_backoff_max_ms": "reconnect_backoff_max_ms", "connections_max_idle_ms": "connections_max_idle_ms",
    "bootstrap_servers": "bootstrap_servers", "client_id": "client_id", "security_protocol": "security_protocol",
    "sasl_mechanism": "sasl_mechanism", "username": "sasl_plain_username", "password": "sasl_plain_password",
    "tls_ca_file": "ssl_cafile",
}  # fmt: skip
PRODUCER = {
    "acks": "acks", "idempotence": "enable_idempotence", "linger_ms": "linger_ms", "batch_size": "batch_size",
    "compression": "compression_type", "max_in_flight": "max_in_flight_requests_per_connection", "retries": "retries",
    "delivery_timeout_ms": "delivery_timeout_ms", "max_request_size": "max_request_size", "max_block_ms": "max_block_ms",
    "transactional_id": "transactional_id", "transaction_timeout_ms": "transaction_timeout_ms",
}  # fmt: skip
CONSUMER = {
    "group_id": "group_id", "group_instance_id": "group_instance_id", "assignors": "partition_assignment_strategy",
    "session_timeout_ms": "session_timeout_ms", "heartbeat_interval_ms": "heartbeat_interval_ms",
    "max_poll_interval_ms": "max_poll_interval_ms", "auto_offset_reset": "auto_offset_reset",
    "enable_auto_commit": "enable_auto_commit", "auto_commit_interval_ms": "auto_commit_interval_ms",
    "isolation_level": "isolation_level", "fetch_min_bytes": "fetch_min_bytes", "fetch_max_wait_ms": "fetch_max_wait_ms",
    "fetch_max_bytes": "fetch_max_bytes", "max_partition_fetch_bytes": "max_partition_fetch_bytes",
    "max_poll_records": "max_poll_records", "client_rack": "client_rack", "check_crcs": "check_crcs",
}  # fmt: skip
SETTINGS = {"producer": COMMON | PRODUCER, "consumer": COMMON | CONSUMER, "admin": COMMON}
ASSIGNORS = {
    "range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}  # fmt: skip
KAFKA_NAMES = {
    "UNKNOWN": "UNKNOWN_SERVER_ERROR", "NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER",
    "MESSAGE_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE", "INVALID_TOPIC": "INVALID_TOPIC_EXCEPTION",
    "INVALID_REPLICATION_ASSIGNMENT": "INVALID_REPLICA_ASSIGNMENT",
}  # fmt: skip
BOOTSTRAP_MS = 4000  # The constructor waits so long for a broker; by default 30 s, longer than `open` may take.
OPEN, EVENTS = {}, {}  # By the name of the client.


class Unsupported(Exception):
    pass


LOCAL_NAMES = [
    (Unsupported, "LOCAL_UNSUPPORTED"), (errors.KafkaTimeoutError, "LOCAL_TIMEOUT"), (TimeoutError, "LOCAL_TIMEOUT"),
    (errors.NoOffsetForPartitionError, "LOCAL_NO_OFFSET"), (errors.CommitFailedError, "REBALANCE_IN_PROGRESS"),
    (errors.IllegalStateError, "LOCAL_ILLEGAL_STATE"), (errors.KafkaConnectionError, "LOCAL_TRANSPORT"),
    (errors.NodeNotReadyError, "LOCAL_TRANSPORT"), (errors.IllegalArgumentError, "LOCAL_ILLEGAL_STATE"),
    (errors.UnsupportedCodecError, "LOCAL_UNSUPPORTED"), (errors.KafkaConfigurationError, "LOCAL_UNSUPPORTED"),
    (AssertionError, "LOCAL_ILLEGAL_STATE"), (ValueError, "LOCAL_ILLEGAL_STATE"),
]  # fmt: skip


def describe(error):
    name = next((local for kind, local in LOCAL_NAMES if isinstance(error, kind)), "LOCAL_OTHER")
    if isinstance(error, errors.BrokerResponseError) and type(error).__name__ not in ("CommitFailedError", "BrokerResponseError"):
        name = KAFKA_NAMES.get(error.message, error.message)
    text = f"{type(error).__name__}: {error}"
    return {"name": name, "message": text, "retriable": bool(getattr(error, "retriable", False))}


def open_client(client, kind, settings):
    if kind not in SETTINGS:
        raise Unsupported(kind)
    config = {}
    for name, value in settings.items():
        if name not in SETTINGS[kind]:
            raise Unsupported(f"setting {name} of a {kind}")
        if name == "assignors":
            value = [ASSIGNORS[each] for each in value]
        config[SETTINGS[kind][name]] = None if (name, value) == ("compression", "none") else value
    if kind == "consumer":
        config.setdefault("group_id", None)
    config["bootstrap_timeout_ms"] = BOOTSTRAP_MS
    EVENTS[client] = []
    OPEN[client] = {"producer": kafka.KafkaProducer, "consumer": kafka.KafkaConsumer, "admin": KafkaAdminClient}[kind](**config)
    return {}


def close(client, timeout_ms):
    opened = OPEN.pop(client)
    if isinstance(opened, kafka.KafkaProducer):
        opened.close(timeout=timeout_ms / 1000)
    elif isinstance(opened, kafka.KafkaConsumer):
        opened.close(timeout_ms=timeout_ms)
    else:
        opened.close()
    return {"events": EVENTS.pop(client)}


def send(client, topic, records, timeout_ms, partition=None):
    deadline, futures, results = time.monotonic() + timeout_ms / 1000, [], []
    for record in records:
        headers = [(name, None if value is None else value.encode()) for name, value in record.get("headers", [])]
        key, value = (None if text is None else text.encode() for text in (record.get("key"), record["value"]))
        try:
            where = record.get("partition", partition)
            futures.append(OPEN[client].send(topic, value, key, headers, where, record.get("timestamp")))
        except (errors.KafkaError, AssertionError) as error:
            futures.append(error)
    for future in futures:
        try:
            if isinstance(future, Exception):
                raise future
            found = future.get(timeout=max(deadline - time.monotonic(), 0.001))
            offset = -1 if found.offset is None else found.offset
            results.append({"topic": found.topic, "partition": found.partition, "offset": offset, "timestamp": found.timestamp})
        except Exception as error:
            results.append({"error": describe(error)})
    return {"deliveries": results}


def transaction(method):
    def run(client, timeout_ms):
        getattr(OPEN[client], method)()
        return {}

    return run


def send_offsets(client, offsets, consumer, timeout_ms):
    OPEN[client].send_offsets_to_transaction(with_metadata(offsets), OPEN[consumer].group_metadata())
    return {}


class Listener(kafka.ConsumerRebalanceListener):
    def __init__(self, events):
        self.events = events

    def on_partitions_assigned(self, assigned):
        self.events.append({"type": "assigned", "partitions": [place(each) for each in assigned]})

    def on_partitions_revoked(self, revoked):
        self.events.append({"type": "revoked", "partitions": [place(each) for each in revoked]})

    def on_partitions_lost(self, lost):
        self.events.append({"type": "lost", "partitions": [place(each) for each in lost]})


def subscribe(client, timeout_ms, topics=(), pattern=None):
    OPEN[client].subscribe(topics=list(topics), pattern=pattern, listener=Listener(EVENTS[client]))
    return {}


def poll(client, timeout_ms, max_records=None, wakeup_after_ms=None):
    if wakeup_after_ms is not None:
        raise Unsupported("wakeup")
    deadline, records, events = time.monotonic() + timeout_ms / 1000, [], EVENTS[client]
    while not records and not events:
        left_ms = max(int((deadline - time.monotonic()) * 1000), 0)
        for batch in OPEN[client].poll(timeout_ms=min(left_ms, 100), max_records=max_records).values():
            records += [consumed(record) for record in batch]
        if left_ms == 0:
            break
    found = list(events)
    events.clear()
    return {"records": records, "events": found}


def consumed(record):
    key, value = (None if data is None else data.decode("utf-8", "replace") for data in (record.key, record.value))
    headers = [[name, None if data is None else data.decode("utf-8", "replace")] for name, data in record.headers]
    where = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
    return {**where, "key": key, "value": value, "headers": headers, "timestamp": record.timestamp}


def commit(client, timeout_ms, offsets=None):
    OPEN[client].commit(with_metadata(offsets) if offsets else None, timeout_ms=timeout_ms)
    return {}


def commit_async(client, timeout_ms):
    def done(_, result):
        error = describe(result) if isinstance(result, Exception) else None
        EVENTS[client].append({"type": "committed", "error": error})

    OPEN[client].commit_async(callback=done)
    return {}


def committed(client, partitions, timeout_ms):
    found = [OPEN[client].committed(each, timeout_ms=timeout_ms) for each in places(partitions)]
    return {"offsets": [{**each, "offset": offset} for each, offset in zip(partitions, found, strict=True)]}


def position(client, partitions, timeout_ms):
    found = [OPEN[client].position(each, timeout_ms=timeout_ms) for each in places(partitions)]
    return {"offsets": [{**each, "offset": offset} for each, offset in zip(partitions, found, strict=True)]}


def assign(client, partitions, timeout_ms):
    consumer = OPEN[client]
    consumer.assign(places(partitions))
    for each, where in zip(partitions, places(partitions), strict=True):
        offset = each.get("offset")
        if isinstance(offset, int):
            consumer.seek(where, offset)
        elif offset is not None:
            (consumer.seek_to_beginning if offset == "earliest" else consumer.seek_to_end)(where)
    return {}


def seek(client, topic, partition, offset, timeout_ms):
    OPEN[client].seek(TopicPartition(topic, partition), offset)
    return {}


def on_partitions(method):
    def run(client, partitions, timeout_ms):
        getattr(OPEN[client], method)(*places(partitions))
        return {}

    return run


def unsubscribe(client, timeout_ms):
    OPEN[client].unsubscribe()
    return {}


def create_topics(client, topics, timeout_ms):
    made = [NewTopic(each["name"], each["partitions"], each["replication_factor"]) for each in topics]
    OPEN[client].create_topics(made, timeout_ms=timeout_ms)
    return {}


def delete_topics(client, topics, timeout_ms):
    OPEN[client].delete_topics(topics, timeout_ms=timeout_ms)
    return {}


def create_partitions(client, topics, timeout_ms):
    OPEN[client].create_partitions({each["name"]: NewPartitions(each["count"]) for each in topics}, timeout_ms=timeout_ms)
    return {}


def describe_cluster(client, timeout_ms):
    found = OPEN[client].describe_cluster()
    nodes = [{"id": each["broker_id"], "host": each["host"], "port": each["port"]} for each in found["brokers"]]
    return {"cluster_id": found["cluster_id"], "controller": found["controller_id"], "nodes": nodes}


def list_offsets(client, partitions, timeout_ms):
    specs = {"earliest": kafka.OffsetSpec.EARLIEST, "latest": kafka.OffsetSpec.LATEST}
    wanted = {TopicPartition(p["topic"], p["partition"]): specs.get(p["spec"], p["spec"]) for p in partitions}
    found = OPEN[client].list_partition_offsets(wanted)
    offsets = [(each, found[where].offset) for each, where in zip(partitions, places(partitions), strict=True)]
    return {"offsets": [{**place_of(each), "offset": offset if offset >= 0 else None} for each, offset in offsets]}


def place(partition):
    return {"topic": partition.topic, "partition": partition.partition}


def place_of(given):
    return {"topic": given["topic"], "partition": given["partition"]}


def places(given):
    return [TopicPartition(each["topic"], each["partition"]) for each in given]


def with_metadata(offsets):
    return {TopicPartition(each["topic"], each["partition"]): OffsetAndMetadata(each["offset"], "", -1) for each in offsets}


def hello(protocol):
    settings = sorted(COMMON | PRODUCER | CONSUMER)
    name = {"protocol": 1, "name": "kafka-python", "version": kafka.__version__, "language": "Python"}
    return {**name, "capabilities": CAPABILITIES, "settings": settings}


METHODS = {
    "hello": hello, "open": open_client, "close": close, "send": send, "send_offsets": send_offsets, "subscribe": subscribe,
    "unsubscribe": unsubscribe, "assign": assign, "poll": poll, "commit": commit, "commit_async": commit_async, "seek": seek,
    "init_transactions": transaction("init_transactions"), "begin": transaction("begin_transaction"),
    "commit_transaction": transaction("commit_transaction"), "abort_transaction": transaction("abort_transaction"),
    "committed": committed, "position": position, "pause": on_partitions("pause"), "resume": on_partitions("resume"),
    "assignment": lambda client, timeout_ms: {"partitions": [place(each) for each in OPEN[client].assignment()]},
    "create_topics": create_topics, "delete_topics": delete_topics, "create_partitions": create_partitions,
    "list_topics": lambda client, timeout_ms: {"topics": sorted(OPEN[client].list_topics())},
    "describe_cluster": describe_cluster, "list_offsets": list_offsets,
}  # fmt: skip


def main():
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["method"] not in METHODS:
                raise Unsupported(f"method {request['method']}")
            answer = {"result": METHODS[request["method"]](**request["params"])}
        except Exception as error:
            answer = {"error": describe(error)}
        print(json.dumps({"id": request["id"], **answer}), flush=True)


if __name__ == "__main__":
    main()
