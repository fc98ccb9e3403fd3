"""The start and the end of the control: in Python, by the command, and where it cannot start."""

from __future__ import annotations

import re
import socket
import subprocess
import sys

import pytest

from mockbroker import Cluster, ConfigError, cli
from tests.support.brokers.control_client import ControlClient
from tests.support.brokers.threads import cluster_threads
from tests.support.stubborn_clients import OF_CONTROL, OpenClient, stop_within_limit


def test_a_cluster_has_a_control_while_it_runs() -> None:
    before = cluster_threads()
    cluster = Cluster(control=0)
    with cluster:
        url = cluster.control_url
        assert ControlClient(url).get("/v1/cluster")["bootstrapServers"] == cluster.bootstrap_servers

    with pytest.raises(RuntimeError, match="control=0"):
        _ = cluster.control_url
    with pytest.raises(ConnectionRefusedError):
        ControlClient(url).send("GET", "/v1/cluster")
    assert cluster_threads() <= before


@pytest.mark.parametrize(
    ("address", "url"), [("[::1]:0", r"http://\[::1\]:\d+"), ("0.0.0.0:0", r"http://127\.0\.0\.1:\d+")]
)
def test_the_url_is_one_that_programs_on_this_machine_can_use(address: str, url: str) -> None:
    if address.startswith("[") and not socket.has_dualstack_ipv6():
        pytest.skip("needs IPv6, which this machine does not have")
    with Cluster(control=address, control_token="s3cret") as cluster:
        answer = ControlClient(cluster.control_url).send("GET", "/v1/clock", headers={"Authorization": "bearer s3cret"})

        assert re.fullmatch(url, cluster.control_url)
    assert answer.status == 200


def test_an_address_that_is_in_use_starts_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"control: cannot listen on 127.0.0.1:{port}: Address already in use"):
            Cluster(control=port).start()
        assert cli.main(["--port", "0", "--control", str(port)]) == 2

    with pytest.raises(ConfigError, match="control-token: given without control"):
        Cluster(control_token="s3cret")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--control", "nine"], "control: 'nine'; expected PORT or HOST:PORT"),
        (["--control", "0.0.0.0:0"], "control: others can connect to 0.0.0.0: set a token"),
        (["--control-token", "s3cret"], "control-token: given without control"),
    ],
)
def test_wrong_options_of_the_command_are_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["--port", "0", *arguments]) == 2

    written = capsys.readouterr()
    assert message in written.err
    assert written.err.count("\n") == 1


def test_the_command_prints_the_url_as_its_second_line_and_is_ended_over_it() -> None:
    command = [sys.executable, "-m", "mockbroker.cli", "--port", "0", "--control", "0", "--topic", "orders:2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        bootstrap, url = (process.stdout.readline().strip() for _ in range(2))
        client = ControlClient(url)
        topics = client.get("/v1/topics")["topics"]
        client.ask("POST", "/v1/topics/orders/records", {"records": [{"value": "x"}]}, status=201)
        client.ask("POST", "/v1/cluster/reset", status=204)
        cluster = client.get("/v1/cluster")
        client.ask("POST", "/v1/cluster/shutdown", status=202)
        rest, log = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()

    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", url)
    assert cluster["bootstrapServers"] == bootstrap
    assert [(topic["name"], len(topic["partitions"])) for topic in topics] == [("orders", 2)]
    assert (process.returncode, rest) == (0, "")
    assert "Traceback" not in log


def test_without_its_packages_the_error_has_the_command_that_installs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    before = cluster_threads()
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "mockbroker.control.control_server", raising=False)
    cluster = Cluster(control=0)

    with pytest.raises(ImportError, match=r"pip install 'kwire\[control\]'"):
        cluster.start()
    assert cluster_threads() <= before


@pytest.mark.parametrize("open_client", OF_CONTROL)
def test_a_cluster_stops_though_a_client_of_its_control_does_not_end_its_connection(open_client: OpenClient) -> None:
    before = cluster_threads()
    with Cluster(control=0, stop_grace_ms=100) as cluster, open_client(cluster):
        stop_within_limit(cluster)

    assert cluster_threads() <= before
