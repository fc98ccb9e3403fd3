"""`mockbroker replay`: its output and exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.client import Client
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from mockbroker import Cluster
from mockbroker.cli import main
from tests.support.captures.capture_files import CAPTURES

Capsys = pytest.CaptureFixture[str]


@pytest.fixture
def captured(tmp_path: Path) -> str:
    path = tmp_path / "traffic.pcapng"
    with Cluster(topics={"orders": 1}, capture=path) as cluster, Client(cluster.bootstrap_servers) as client:
        client.send(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]))
    return str(path)


def test_equal_responses_are_a_success(captured: str, capsys: Capsys) -> None:
    with Cluster(topics={"orders": 1}) as cluster:
        code = main(["replay", captured, "--to", cluster.bootstrap_servers])

    assert (code, capsys.readouterr().out) == (0, "2 of 2 requests compared, 0 different\n")


def test_differences_are_printed_by_path(captured: str, capsys: Capsys) -> None:
    with Cluster(topics={"orders": 2}) as cluster:
        code = main(["replay", captured, "--to", cluster.bootstrap_servers])

    assert code == 1
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()] == [
        "packet 6 Metadata v13 (kwire):",
        "  /topics/0/partitions/1: captured (nothing)",
        "2 of 2 requests compared",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["small_tlskey.pcap", "--to", "127.0.0.1:1"], "the connection speaks TLS"),
        (["small_ck.pcap", "--to", "127.0.0.1"], "127.0.0.1"),
        (["README.md", "--to", "127.0.0.1:1"], "README.md"),
        (["none.pcap", "--to", "127.0.0.1:1"], "No such file"),
    ],
)
def test_what_cannot_be_replayed_is_wrong_usage(words: list[str], message: str, capsys: Capsys) -> None:
    assert main(["replay", str(CAPTURES / words[0]), *words[1:]]) == 2
    assert message in capsys.readouterr().err


def test_without_a_broker_nothing_is_compared(captured: str, capsys: Capsys) -> None:
    with Cluster() as cluster:
        address = cluster.bootstrap_servers

    assert main(["replay", captured, "--to", address, "--timeout", "2"]) == 2
    assert "no broker responds" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["replay", captured, "--to", address, "--timeout", "0"])


def test_the_rest_of_a_capture_is_replayed_on_request(captured: str, capsys: Capsys) -> None:
    path = str(CAPTURES / "small_tlskey.pcap")
    with Cluster() as cluster:
        refused = main(["replay", path, "--to", cluster.bootstrap_servers, "--partial"])

    assert refused == 2
    assert "no request that can be sent; 2 times the connection speaks TLS" in capsys.readouterr().err


def test_a_capture_with_too_much_is_refused(captured: str, capsys: Capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mockbroker.replay.captured.REQUESTS_MAX", 1)

    assert main(["replay", captured, "--to", "127.0.0.1:1"]) == 2
    assert "more than 1 requests or 1 GiB" in capsys.readouterr().err
