"""The command `mockbroker`, as a process."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from kwire import Client
from kwire.messages.describe_cluster import DescribeClusterRequest
from kwire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.messages.metadata import MetadataRequest
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.package_version import version_line
from mockbroker import cli
from tests.support.brokers.producer import record_batch
from tests.support.stubborn_clients import LARGE_TOPIC, leave_answer_unread_at

#: Of which the second has a port for two nodes.
TWO_LISTENERS = (
    *("--set", "listeners=PLAINTEXT://127.0.0.1:0,B://127.0.0.1:65534"),
    *("--set", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,B:PLAINTEXT"),
)


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


def _large_record(topic_id: bytes) -> TopicProduceData:
    partition = PartitionProduceData(index=0, records=record_batch(size=900_000))
    return TopicProduceData(topic_id=topic_id, partition_data=[partition])


def _wait_until_refused(address: str) -> None:
    """Wait until nothing listens at HOST:PORT."""
    host, port = address.rsplit(":", 1)
    until_s = time.monotonic() + 15
    while time.monotonic() < until_s:
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
        except ConnectionError:
            return
    raise AssertionError(f"{address} still accepts connections")


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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_other_signals_of_a_terminal_end_it_well(number: signal.Signals) -> None:
    with _running("--port", "0") as (process, _):
        process.send_signal(number)
        _, log = process.communicate(timeout=15)

    assert process.returncode == 0
    assert "ended" in log


def test_a_hangup_that_its_parent_ignores_is_ignored() -> None:
    command = ["nohup", sys.executable, "-m", "mockbroker.cli", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            bootstrap = process.stdout.readline().strip()
            process.send_signal(signal.SIGHUP)
            with Client(bootstrap) as client:
                client.send(MetadataRequest(topics=None))
            process.send_signal(signal.SIGTERM)

            assert process.wait(timeout=15) == 0
        finally:
            process.kill()


def test_a_second_signal_ends_it_at_once_while_it_waits_for_a_client() -> None:
    arguments = ("--port", "0", "--topic", LARGE_TOPIC, "--control", "0", "--stop-grace", "3600")
    with _running(*arguments) as (process, bootstrap), Client(bootstrap) as client:
        topic = client.send(MetadataRequest(topics=None)).topics[0]
        for _ in range(12):
            client.send(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[_large_record(topic.topic_id)]))
        with leave_answer_unread_at(bootstrap, topic.topic_id) as waiting:
            waiting.recv(1, socket.MSG_PEEK)
            process.send_signal(signal.SIGTERM)
            _wait_until_refused(bootstrap)
            assert process.poll() is None
            process.send_signal(signal.SIGTERM)

            assert process.wait(timeout=15) == -signal.SIGTERM


def test_a_signal_ends_it_while_its_clock_moves_over_very_many_deadlines() -> None:
    settings = ("--set", "mockbroker.replication=real", "--set", "default.replication.factor=3")
    with _running("--port", "0", "--nodes", "3", "--topic", "orders", "--control", "0", *settings) as (process, _):
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        body = json.dumps({"durationMs": 100 * 365 * 24 * 3_600_000, "timeoutMs": 600_000}).encode()
        request = urllib.request.Request(f"{url}/v1/clock/advance", body, {"Content-Type": "application/json"})
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(urllib.request.urlopen, request, timeout=60)
            _wait_until_moved(url)
            process.send_signal(signal.SIGTERM)

            assert process.wait(timeout=15) == 0
            with pytest.raises(urllib.error.HTTPError) as stopped:
                answer.result()
            assert stopped.value.code == 503
            assert b"the cluster was stopped after its clock was moved by" in stopped.value.read()


def _wait_until_moved(url: str) -> None:
    """Wait until the clock of a cluster is a minute ahead."""
    until_s = time.monotonic() + 30
    while time.monotonic() < until_s:
        with urllib.request.urlopen(f"{url}/v1/clock", timeout=10) as answer:
            if json.load(answer)["nowMs"] > (time.time() + 60) * 1000:
                return
    raise AssertionError("the clock does not move")


def test_the_grace_of_its_end_has_limits(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--port", "0", "--stop-grace", "-1"]) == 2
    assert cli.main(["--port", "0", "--stop-grace", "nan"]) == 2

    assert "stop-grace: -1000 ms; expected a number from 0 to 3600000" in capsys.readouterr().err


def test_the_last_line_is_the_address_of_the_controller() -> None:
    with _running("--port", "0", "--controller-port", "0") as (process, bootstrap):
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        with Client(address) as client:
            response = client.send(DescribeClusterRequest(endpoint_type=2), 1)

    (controller,) = response.brokers
    assert f"{controller.host}:{controller.port}" == address != bootstrap


def test_listeners_are_printed_after_all_other_lines() -> None:
    words = ("--port", "0", "--nodes", "2", "--advertised", "kafka.test", "--controller-port", "0")
    with _running(*words, "--print-listeners") as (process, first):
        assert process.stdout is not None
        controller, *lines = (process.stdout.readline().strip() for _ in range(4))

        assert [address.split(":")[0] for address in first.split(",")] == ["kafka.test", "kafka.test"]
        assert [line.split()[:3] for line in lines] == [
            ["listener", "node=0", "name=PLAINTEXT"],
            ["listener", "node=0", "name=CONTROLLER"],
            ["listener", "node=1", "name=PLAINTEXT"],
        ]
        assert f"bound=127.0.0.1:{controller.rsplit(':')[1]}" in lines[1].split()
        host, port = lines[0].split()[4].removeprefix("bound=").split(":")
        socket.create_connection((host, int(port)), 10).close()


def test_the_second_line_is_the_token_endpoint_of_oauthbearer() -> None:
    with _running("--port", "0", "--sasl", "OAUTHBEARER alice:secret") as (process, _):
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        form = b"grant_type=client_credentials&client_id=alice&client_secret=secret"
        with urllib.request.urlopen(url, form, timeout=10) as answer:
            token = json.load(answer)["access_token"]
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=15)

    assert token.count(".") == 2
    assert "the token endpoint gives 'alice' a token" in log
    assert token not in log
    assert "secret" not in log


def test_it_ends_well_when_its_standard_input_is_closed() -> None:
    command = [sys.executable, "-m", "mockbroker.cli", "--port", "0", "--exit-with-stdin"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            with Client(process.stdout.readline().strip()) as client:
                process.stdin.write("what is read is dropped")
                process.stdin.flush()
                assert client.send(MetadataRequest(topics=None)).topics == []
            process.stdin.close()

            assert process.wait(timeout=15) == 0
        finally:
            process.kill()


def test_a_properties_file_and_settings_reach_the_broker(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("node.id=7\nmessage.max.bytes=2000\nnum.partitions=5\nnum.io.threads=3\n")
    with _running("--port", "0", "--properties", str(file), "--set", "num.partitions=4") as (process, bootstrap):
        with Client(bootstrap) as client:
            nodes = [broker.node_id for broker in client.send(MetadataRequest(topics=None)).brokers]
            resource = DescribeConfigsResource(4, "7", ("num.partitions", "message.max.bytes"))
            result = client.send(DescribeConfigsRequest(resources=[resource])).results[0]
        process.send_signal(signal.SIGINT)
        _, log = process.communicate(timeout=15)

    assert nodes == [7]
    values = {config.name: config.value for config in result.configs}
    assert values == {"num.partitions": "4", "message.max.bytes": "2000"}
    assert "configurations without effect: num.io.threads" in log


def _send_http(bootstrap: str, times: int) -> None:
    host, port = bootstrap.rsplit(":", 1)
    for _ in range(times):
        with socket.create_connection((host, int(port)), timeout=10) as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert client.recv(1) == b""


def test_the_log_in_json_has_one_object_a_line_with_the_fields_of_its_subject() -> None:
    arguments = ("--port", "0", "--topic", "orders:2", "--log-format", "json", "--log-level", "debug")
    with _running(*arguments) as (process, bootstrap):
        forged = 'a\n{"timestamp": "2026"}\x1b[2J'
        with Client(bootstrap, client_id=forged) as client:
            client.send(MetadataRequest(topics=None))
        _send_http(bootstrap, 60)
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=15)

    lines = [json.loads(line) for line in log.splitlines()]
    assert all(line.isprintable() for line in log.splitlines())
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["timestamp"]) for line in lines)
    assert {line["level"] for line in lines} == {"debug", "info", "warning"}
    listens = next(line for line in lines if "listener" in line)
    assert (listens["logger"], listens["address"], listens["node"]) == ("mockbroker.server", bootstrap, 0)
    made = next(line for line in lines if line["logger"] == "mockbroker.topics")
    assert (made["topic"], made["partition_count"]) == ("orders", 2)
    request = next(line for line in lines if line.get("api") == "Metadata")
    assert (request["logger"], request["client_id"]) == ("mockbroker.requests", forged)
    assert 0 < request["latency_ms"] < 10_000
    refused = [line for line in lines if line["logger"] == "mockbroker.connections"]
    assert len(refused) == 11
    assert (refused[-1]["omitted"], refused[-1]["level"]) == (50, "warning")
    assert refused[-1]["reason"].endswith("the client sent HTTP")
    assert lines[-1]["message"].startswith("cluster ")


@pytest.mark.parametrize(("level", "count"), [("error", 0), ("warning", 1)])
def test_a_higher_level_leaves_lines_out(level: str, count: int) -> None:
    with _running("--port", "0", "--log-level", level) as (process, bootstrap):
        _send_http(bootstrap, 1)
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=15)

    assert len(log.splitlines()) == count


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "num.partitions=none"], "num.partitions"),
        (["--set", "group.share.delivery.count.limit=99"], "group.share.delivery.count.limit"),
        (["--set", "nonsense"], "'nonsense'"),
        (["--topic", "orders:x"], "orders:x"),
        (["--topic", "a:1", "--topic", "a:2"], "--topic 'a:2': 'a' is given twice"),
        (["--port", "70000"], "port: 70000 is not between 0 and 65535"),
        (["--port", "-1"], "port: -1 is not between 0 and 65535"),
        (["--port", "65535", "--nodes", "2"], "port: node 1 of 2 would listen on 65536"),
        (["--nodes", "3", *TWO_LISTENERS], "port: node 2 of 3 would listen on 65536"),
        (["--topic", "a b"], "a b"),
        (["--feature", "share.version=9"], "share.version"),
        (["--share-edition", "kip932-r9"], "share-edition: 'kip932-r9' is not one of 4.0-early-access"),
        (["--profile", "slow"], "profile: 'slow' is not one of kafka, quick"),
        (["--share-persister", "paper"], "share-persister: 'paper' is not one of default, no-op, control-records"),
        (["--set", "group.share.persister.class.name=Mine"], "group.share.persister.class.name: 'Mine'"),
        (["--fsync"], "fsync: given without data-dir, which it is for"),
        (["--repair"], "repair: given without data-dir, which it is for"),
        (
            ["--data-dir", "d", "--share-edition", "kip932-r1"],
            "data-dir: the share edition 'kip932-r1' cannot be stored",
        ),
        (
            ["--data-dir", "d", "--share-persister", "control-records"],
            "data-dir: the share persister 'control-records'",
        ),
        (["--data-dir", ""], "data-dir: the path is empty"),
        (["--data-dir", __file__], "test_cli.py is not a directory"),
        (["--properties", "does-not-exist"], "does-not-exist"),
        (["--add-scram", "alice"], "add-scram: a user has the form SCRAM-SHA-256=[name=NAME"),
        (["--set", "listeners=SASL_SSL://127.0.0.1:0"], "sasl.enabled.mechanisms: GSSAPI of the listener SASL_SSL"),
    ],
)
def test_wrong_usage_prints_one_line_and_exits_with_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["--port", "0", *arguments]) == 2

    written = capsys.readouterr()
    assert message in written.err
    assert written.err.count("\n") == 1
    assert written.out == ""


@pytest.mark.parametrize("count", ["0", "101", "-1", "many"])
def test_a_wrong_number_of_nodes_is_named(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([f"--nodes={count}"])

    assert ended.value.code == 2
    assert f"argument --nodes: '{count}' is not a number of nodes from 1 to 100" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["mockbroker", "kwire"])
def test_the_commands_run_as_modules_and_print_their_version(command: str) -> None:
    result = subprocess.run([sys.executable, "-m", command, "--version"], capture_output=True, text=True, check=True)

    assert result.stdout.startswith(version_line(command))


def test_help_names_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])

    printed = capsys.readouterr().out
    assert "--release" in printed
    assert "--data-dir" in printed


def test_a_wrong_file_of_faults_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "faults.json"
    path.write_text('{"faults": [{"when": {"api": "Produce", "group": "g"}, "then": {"drop": "close"}}]}')

    assert cli.main(["--faults", str(path)]) == 2
    assert capsys.readouterr().err == (
        f"mockbroker: --faults {path}: fault 1: group: a Produce request names no group;"
        " it names partition, topic, transactional_id\n"
    )


def test_a_chaos_profile_is_started_with_its_seed_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--chaos", "rolling"]) == 2
    assert "mockbroker: --chaos: 'rolling' is not the name of a profile; did you mean" in capsys.readouterr().err
    with _running("--port", "0", "--nodes", "2", "--chaos", "slow-network", "--seed", "7") as (process, bootstrap):
        with Client(bootstrap.strip()) as client:
            client.send(MetadataRequest(topics=None))
        process.send_signal(signal.SIGINT)
        _, log = process.communicate(timeout=30)

    assert "chaos slow-network, seed 7: repeat it with --seed 7" in log
