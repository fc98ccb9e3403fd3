"""The start and the end of the control: in Python, by the command, and where it cannot start."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from kwire import MissingExtra
from mockbroker import Cluster, ConfigError, cli
from mockbroker.control import options
from tests.support.brokers.control_client import ControlClient
from tests.support.brokers.threads import cluster_threads, threads_that_stay
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
    assert threads_that_stay(before) == set()


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


@pytest.mark.parametrize("package", ["uvicorn", "starlette"])
def test_without_its_packages_nothing_starts_and_the_error_has_the_command_that_installs_them(
    package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(options, "find_spec", lambda name: None if name == package else find_spec(name))

    with pytest.raises(MissingExtra, match=r"the control over HTTP needs .*pip install .*\[control\]"):
        Cluster(control=0, data_dir=tmp_path / "data")
    assert cli.main(["--port", "0", "--control", "0", "--data-dir", str(tmp_path / "data")]) == 2
    assert cli.main(["proxy", "--upstream", "127.0.0.1:1", "--control", "0"]) == 2
    assert capsys.readouterr().err.count("pip install") == 2
    assert list(tmp_path.iterdir()) == []


_LOADED = """
import sys, mockbroker
with mockbroker.Cluster(control=0) as cluster:
    before = {name for name in ("uvicorn", "starlette", "mockbroker.control.routes") if name in sys.modules}
    assert before == set(), before
    import urllib.request
    assert urllib.request.urlopen(cluster.control_url + "/v1/clock").status == 200
    assert "uvicorn" in sys.modules
"""


def test_the_http_server_is_loaded_with_the_first_connection() -> None:
    done = subprocess.run([sys.executable, "-c", _LOADED], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_a_control_that_nobody_uses_ends_with_its_cluster() -> None:
    before = cluster_threads()
    with Cluster(control=0) as cluster:
        url = cluster.control_url
        assert cluster_threads() - before

    assert threads_that_stay(before) == set()
    with pytest.raises(ConnectionRefusedError):
        ControlClient(url).send("GET", "/v1/cluster")


def test_a_control_that_cannot_be_loaded_closes_its_socket_and_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Cluster(control=0) as cluster:
        monkeypatch.setitem(sys.modules, "uvicorn", None)
        monkeypatch.delitem(sys.modules, "mockbroker.control.control_server", raising=False)
        with pytest.raises(OSError):  # noqa: PT011 - refused or reset.
            ControlClient(cluster.control_url).send("GET", "/v1/cluster")

    assert "cannot be served" in caplog.text
    assert "uvicorn" in caplog.text


@pytest.mark.parametrize("open_client", OF_CONTROL)
def test_a_cluster_stops_though_a_client_of_its_control_does_not_end_its_connection(open_client: OpenClient) -> None:
    before = cluster_threads()
    with Cluster(control=0, stop_grace_ms=100) as cluster, open_client(cluster):
        stop_within_limit(cluster)

    assert threads_that_stay(before) == set()
