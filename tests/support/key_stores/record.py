"""Record what Apache Kafka answers to other key stores: python -m tests.support.key_stores.record.

Needs Java and Maven. The answers are written beside the test that compares them with ours.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from kwire import Client
from kwire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.registry import RELEASES
from tests.support.key_stores.cases import KeyStoreBroker
from tools.oracle.broker import run_broker
from tools.oracle.conversations.socket_brokers import wait_real_time
from tools.oracle.jars import KAFKA_VERSIONS

ANSWERS = Path(__file__).parents[2] / "mockbroker" / "net" / "key_store_answers.json"
_TOPIC_KIND, _TOPIC, _POLL_S = 2, "barrier", 0.05


def wait_for_broker(client: Client) -> None:
    """Return when the broker has applied the changes of configuration that were answered.

    It does so in order, and shows a change before it has applied it: two changes of a topic are seen.
    """
    if not client.send(MetadataRequest([MetadataRequestTopic(name=_TOPIC)]), 12).topics[0].partitions:
        client.send(CreateTopicsRequest([CreatableTopic(_TOPIC, 1, 1)], timeout_ms=30_000), 7)
    for value in ("1000", "2000"):
        change = AlterConfigsResource(_TOPIC_KIND, _TOPIC, [AlterableConfig("retention.ms", 0, value)])
        client.send(IncrementalAlterConfigsRequest([change]))
        question = DescribeConfigsRequest([DescribeConfigsResource(_TOPIC_KIND, _TOPIC, ("retention.ms",))])
        while [row.value for row in client.send(question).results[0].configs] != [value]:
            wait_real_time(_POLL_S)


def main() -> None:
    """Record all releases. Raises: SystemExit if they differ: then the test needs answers for each."""
    texts = set()
    for release in RELEASES:
        with tempfile.TemporaryDirectory() as folder:
            broker = KeyStoreBroker(Path(folder), wait_for_broker)
            with run_broker(broker.properties, version=KAFKA_VERSIONS[release]) as addresses:
                answers = broker.play(addresses)
        lines = ",\n".join(f" {json.dumps(name)}: {json.dumps(seen)}" for name, seen in answers.items())
        texts.add(f"{{\n{lines}\n}}\n")
    if len(texts) > 1:
        raise SystemExit(f"the releases {', '.join(RELEASES)} differ")
    ANSWERS.write_text(texts.pop(), "utf-8")
    print(ANSWERS.name)


if __name__ == "__main__":
    main()
