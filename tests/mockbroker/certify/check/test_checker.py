"""The check of drivers: what it says about wrong ones."""

from __future__ import annotations

import pytest

from mockbroker.certify import command as certify
from mockbroker.certify.check.checker import CHECKS, Outcome, check_driver
from mockbroker.certify.driver.names import CAPABILITIES
from tests.support.certify.scripted_driver import command

#: Capabilities that only change what other checks look at, or that settings cover.
_WITHOUT_OWN_CHECK = {
    "producer.idempotence",
    "consumer.classic.cooperative",
    "consumer.classic.static",
    "consumer.kip848.regex",
    "consumer.rebalance_events",
    "share.delivery_count",
    "sasl.oauthbearer",
}


def test_every_capability_has_a_check() -> None:
    checked = {name for check in CHECKS for name in check.needs}

    assert CAPABILITIES - checked == _WITHOUT_OWN_CHECK


def test_a_driver_without_a_client_is_wrong_in_what_it_claims() -> None:
    lines = {line.name: line for line in check_driver(command())}

    assert lines["hello"].outcome is Outcome.OK
    assert lines["unknown method"].outcome is Outcome.OK
    assert lines["unknown setting"].outcome is Outcome.WRONG
    assert "error LOCAL_UNSUPPORTED is expected; the answer has a result" in lines["unknown setting"].text
    assert "deliveries in order of the records are" in lines["send"].text
    assert lines["subscribe, poll (share)"].outcome is Outcome.LEFT_OUT
    assert str(lines["subscribe, poll (share)"]).startswith(
        "left out subscribe, poll (share): hello does not list share"
    )
    assert lines["end of stdin"].outcome is Outcome.OK


def test_a_method_that_the_client_does_not_have_is_lacking_and_not_wrong() -> None:
    lines = {line.name: line for line in check_driver(command("partial"))}

    classic = lines["subscribe, assignment, close (classic)"]
    assert classic.outcome is Outcome.LACKS
    assert str(classic).startswith("lacks    subscribe, assignment, close (classic): subscribe: LOCAL_UNSUPPORTED")


def test_a_listed_setting_may_be_refused_for_one_kind_of_client() -> None:
    lines = {line.name: line for line in check_driver(command("partial"))}

    assert str(lines["settings"]) == "ok       settings: open refuses metadata_max_age_ms for consumer"


def test_producers_of_checks_wait_for_acknowledgements_where_the_driver_has_the_setting() -> None:
    lines = {line.name: line for line in check_driver(command("asks-acks"))}

    assert "deliveries in order of the records are" in lines["send"].text


def test_the_last_output_of_a_driver_is_that_of_the_check() -> None:
    lines = {line.name: line for line in check_driver(command("logs"))}

    assert "call of send" in lines["send"].text
    assert "call of no_such_method" not in lines["send"].text


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ("exits", "hello: the driver ended with exit code 1"),
        ("future", "version 2 of the driver protocol"),
        ("crash", "the driver ended with exit code 3"),
        ("rubbish", "'DEBUG opening the client'"),
    ],
)
def test_a_driver_that_breaks_the_protocol_is_shown_with_its_output(
    behaviour: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert certify.main(["--check-driver", "--driver", command(behaviour)]) == 1

    assert message in capsys.readouterr().out
