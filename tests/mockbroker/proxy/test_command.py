"""`mockbroker proxy`: the line that it prints, and wrong usage."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kwire.client import Client
from kwire.messages.metadata import MetadataRequest
from mockbroker import Cluster
from mockbroker.cli import main
from mockbroker.proxy.control_api import PROXY_API
from tests.support.brokers.control_client import ControlClient

Capsys = pytest.CaptureFixture[str]


def test_the_command_prints_its_address_and_ends_by_a_signal(tmp_path: Path) -> None:
    capture = tmp_path / "traffic.pcapng"
    with Cluster() as cluster:
        words = ["proxy", "--upstream", cluster.bootstrap_servers, "--port", "0", "--capture", str(capture)]
        started = subprocess.Popen(
            [sys.executable, "-m", "mockbroker", *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        with started:
            try:
                assert started.stdout is not None
                address = started.stdout.readline().strip()
                with Client(address) as client:
                    brokers = client.send(MetadataRequest(topics=[])).brokers
            finally:
                started.terminate()

    assert [f"{broker.host}:{broker.port}" for broker in brokers] == [address]
    assert started.returncode == 0
    assert capture.stat().st_size > 1000


def test_the_control_is_the_second_line_and_ends_the_command() -> None:
    with Cluster() as cluster:
        words = ["proxy", "--upstream", cluster.bootstrap_servers, "--port", "0", "--control", "0"]
        started = subprocess.Popen(
            [sys.executable, "-m", "mockbroker", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            assert started.stdout is not None
            bootstrap, url = (started.stdout.readline().strip() for _ in range(2))
            client = ControlClient(url, PROXY_API)
            shown = client.get("/v1/cluster")
            client.ask("POST", "/v1/cluster/shutdown", status=202)
            rest, log = started.communicate(timeout=30)
        finally:
            started.kill()
            started.communicate()

    assert (shown["bootstrapServers"], shown["upstream"]) == (bootstrap, words[2])
    assert (started.returncode, rest) == (0, "")
    assert "Traceback" not in log


def test_it_ends_well_when_its_standard_input_is_closed() -> None:
    with Cluster() as cluster:
        words = ["proxy", "--upstream", cluster.bootstrap_servers, "--port", "0", "--exit-with-stdin"]
        command = [sys.executable, "-m", "mockbroker", *words]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
            try:
                assert started.stdout is not None
                with Client(started.stdout.readline().strip()) as client:
                    assert client.send(MetadataRequest(topics=[])).brokers
                    rest, _ = started.communicate("what is read is dropped", timeout=30)
            finally:
                started.kill()

    assert (started.returncode, rest) == (0, "")


def test_wrong_usage_is_named(tmp_path: Path, capsys: Capsys) -> None:
    faults = tmp_path / "faults.json"
    faults.write_text('{"faults": [{"when": {"api": "Produced"}, "then": {"drop": "close"}}]}', encoding="utf-8")
    codes = [
        main(["proxy", "--upstream", "127.0.0.1"]),
        main(["proxy", "--upstream", "127.0.0.1:1", "--faults", str(faults)]),
        main(["proxy", "--upstream", "127.0.0.1:1", "--upstream-tls-ca", str(tmp_path / "none.pem")]),
        main(["proxy", "--upstream", "127.0.0.1:1", "--port", "0"]),
        main(["proxy", "--upstream", "127.0.0.1:1", "--control", "0.0.0.0:0"]),
    ]

    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("mockbroker proxy: ")]
    assert codes == [2, 2, 2, 1, 2]
    assert "upstream: " in errors[0]
    assert "Produce" in errors[1]
    assert "No such file" in errors[2]
    assert "no connection to 127.0.0.1:1" in errors[3]
    assert "set a token by --control-token" in errors[4]
