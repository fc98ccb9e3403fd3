"""Bootstrap addresses that cannot be used: a client that does not try them is not judged."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from mockbroker.certify import command as certify
from mockbroker.certify.cases.connecting.bootstrap import _dead_address
from tests.support.certify.scripted_driver import command


@pytest.mark.parametrize("case", ["dead-address", "dead-last-address", "silent-address"])
def test_a_client_that_does_not_try_the_address_is_not_judged(case: str, tmp_path: Path) -> None:
    chosen = ["--cases", f"connecting.bootstrap.{case}"]

    certify.main(["--driver", command("bounded"), *chosen, "-o", str(tmp_path)])

    [result] = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["results"]
    assert result["verdict"] == "NOT-EXERCISED", result
    assert "none of 12 producers has tried the address" in result["seen"]


def test_a_dead_address_resets_the_first_connection_and_refuses_later_ones() -> None:
    with _dead_address() as (address, is_tried):
        host, _, port = address.partition(":")
        assert not is_tried.is_set()
        with pytest.raises(ConnectionResetError), socket.create_connection((host, int(port)), timeout=5) as first:
            first.recv(1)

        assert is_tried.wait(5)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), timeout=5)


def test_a_look_up_that_the_log_of_the_driver_does_not_show_is_noted(tmp_path: Path) -> None:
    certify.main(["--driver", command(), "--cases", "connecting.bootstrap.unknown-host", "-o", str(tmp_path)])

    [result] = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["results"]
    assert (result["verdict"], result["notes"]) == (
        "OK",
        ["the log of the driver does not show whether the client looked up broker.invalid"],
    )
