"""The command `mockbroker`, as a process."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kwire import Client
from kwire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.messages.metadata import MetadataRequest
from mockbroker import cli


@contextmanager
def _running(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "mockbroker.cli", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def test_the_first_line_is_the_bootstrap_list_and_a_signal_ends_it_well() -> None:
    with _running("--port", "0", "--nodes", "3", "--topic", "orders:6") as (process, bootstrap):
        assert len(bootstrap.split(",")) == 3
        with Client(bootstrap) as client:
            topics = client.send(MetadataRequest(topics=None)).topics
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=15)

    assert [(topic.name, len(topic.partitions)) for topic in topics] == [("orders", 6)]
    assert rest == ""
    assert process.returncode == 0


def test_a_properties_file_and_settings_reach_the_broker(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("node.id=7\nmessage.max.bytes=2000\nnum.partitions=5\nnum.io.threads=3\n")
    with _running("--port", "0", "--properties", str(file), "--set", "num.partitions=4") as (process, bootstrap):
        with Client(bootstrap) as client:
            nodes = [broker.node_id for broker in client.send(MetadataRequest(topics=None)).brokers]
            resource = DescribeConfigsResource(
                resource_type=4, resource_name="7", configuration_keys=("num.partitions", "message.max.bytes")
            )
            result = client.send(DescribeConfigsRequest(resources=[resource])).results[0]
        process.send_signal(signal.SIGINT)
        _, log = process.communicate(timeout=15)

    assert nodes == [7]
    assert {config.name: config.value for config in result.configs} == {
        "num.partitions": "4",
        "message.max.bytes": "2000",
    }
    assert "accepted, without a meaning here: num.io.threads" in log


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--set", "num.partitions=none"], "num.partitions"),
        (["--set", "group.share.delivery.count.limit=99"], "group.share.delivery.count.limit"),
        (["--set", "nonsense"], "'nonsense'"),
        (["--topic", "orders:x"], "orders:x"),
        (["--topic", "a b"], "a b"),
        (["--feature", "share.version=9"], "share.version"),
        (["--share-edition", "kip932-r9"], "share-edition: 'kip932-r9' is not one of 4.3, 4.0-early-access"),
        (["--share-persister", "paper"], "share-persister: 'paper' is not one of default, no-op, control-records"),
        (["--set", "group.share.persister.class.name=Mine"], "group.share.persister.class.name: 'Mine'"),
        (["--control", "1"], "control: 1 is not supported yet"),
        (["--data-dir", "d"], "data-dir: 'd' is not supported yet"),
        (["--properties", "does-not-exist"], "does-not-exist"),
        (["--add-scram", "alice"], "add-scram: a user has the form SCRAM-SHA-256=[name=NAME"),
        (["--set", "listeners=SASL_SSL://127.0.0.1:0"], "sasl.enabled.mechanisms: GSSAPI of the listener SASL_SSL"),
    ],
)
def test_wrong_use_is_one_line_and_exit_2(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--port", "0", *arguments]) == 2

    written = capsys.readouterr()
    assert told in written.err
    assert written.err.count("\n") == 1
    assert written.out == ""
