"""``kwire request`` against brokers that follow a script."""

from __future__ import annotations

import io
import json
import sys

import pytest

from kwire.cli.main import main
from kwire.messages.create_delegation_token import CreateDelegationTokenResponse
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.messages.produce import ProduceRequest
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kwire.messages.sasl_handshake import SaslHandshakeResponse
from tests.support.cli.commands import Capsys
from tests.support.messages.scripted_broker import Peer, ScriptedBroker

SECRET = "battery staple"


def answer_metadata(peer: Peer) -> None:
    peer.welcome()
    assert isinstance(peer.request(), MetadataRequest)
    peer.answer(MetadataResponse(cluster_id="the \x1b cluster"))


def test_the_response_is_printed_in_kafkas_json_form(capsys: Capsys) -> None:
    with ScriptedBroker(answer_metadata) as broker:
        code = main(["request", "--bootstrap", broker.bootstrap, "Metadata", '{"topics": null}'])

    output = capsys.readouterr().out
    tree = json.loads(output)
    assert code == 0
    assert tree["clusterId"] == "the \x1b cluster"
    assert "\x1b" not in output


def test_the_request_may_come_from_stdin_and_in_a_chosen_version(
    capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def script(peer: Peer) -> None:
        seen.append((peer.request(), peer.last.request_api_version))
        peer.answer(MetadataResponse())

    monkeypatch.setattr(sys, "stdin", io.StringIO('{"topics": [{"name": "t"}]}'))
    with ScriptedBroker(script) as broker:
        code = main(["request", "--bootstrap", broker.bootstrap, "--version", "1", "metadatarequest", "-"])

    (request, version) = seen[0]
    assert code == 0
    assert version == 1
    assert isinstance(request, MetadataRequest)
    assert request.topics is not None
    assert request.topics[0].name == "t"
    assert json.loads(capsys.readouterr().out)["brokers"] == []


def test_a_request_without_a_response_prints_nothing(capsys: Capsys) -> None:
    def script(peer: Peer) -> None:
        assert peer.request() == ProduceRequest(acks=0)
        assert peer.until_closed()

    with ScriptedBroker(script) as broker:
        code = main(["request", "--bootstrap", broker.bootstrap, "--version", "3", "Produce", '{"acks": 0}'])

    assert code == 0
    assert capsys.readouterr().out == ""


def test_the_password_comes_from_the_environment_and_is_never_printed(
    capsys: Capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def script(peer: Peer) -> None:
        peer.welcome()
        peer.request()
        peer.answer(SaslHandshakeResponse(mechanisms=("PLAIN",)))
        seen.append(peer.request())
        peer.answer(SaslAuthenticateResponse(error_code=58, error_message="no"))

    monkeypatch.setenv("KAFKA_PASSWORD", SECRET)
    login = ["--user", "u", "--password-env", "KAFKA_PASSWORD"]
    with ScriptedBroker(script) as broker:
        code = main(["request", "--bootstrap", broker.bootstrap, *login, "Metadata"])

    assert code == 1
    assert seen == [SaslAuthenticateRequest(auth_bytes=f"\0u\0{SECRET}".encode())]
    captured = capsys.readouterr()
    assert "SASL_AUTHENTICATION_FAILED" in captured.err
    assert SECRET not in captured.out + captured.err


@pytest.mark.parametrize(("option", "shown"), [([], "***"), (["--show-secrets"], "c2VjcmV0")])
def test_a_secret_in_the_response_is_masked_unless_requested(option: list[str], shown: str, capsys: Capsys) -> None:
    def script(peer: Peer) -> None:
        peer.request()
        peer.answer(CreateDelegationTokenResponse(hmac=b"secret"))

    with ScriptedBroker(script) as broker:
        argv = ["request", "--bootstrap", broker.bootstrap, *option, "--version", "3", "CreateDelegationToken"]
        assert main(argv) == 0

    assert json.loads(capsys.readouterr().out)["hmac"] == shown


def test_an_unreachable_broker_is_exit_code_1(capsys: Capsys) -> None:
    assert main(["request", "--bootstrap", "127.0.0.1:1", "Metadata"]) == 1
    assert "127.0.0.1:1: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["Metadata"], "--bootstrap"),
        (["--bootstrap", "nowhere", "Metadata"], "HOST:PORT"),
        (["--bootstrap", "127.0.0.1:1", "NoSuchApi"], "is not a message"),
        (["--bootstrap", "127.0.0.1:1", "Metadata", "{"], "not JSON"),
        (["--bootstrap", "127.0.0.1:1", "Metadata", "--edition", "1.0"], "edition"),
        (["--bootstrap", "127.0.0.1:1", "Metadata", "--timeout", "0"], "--timeout 0"),
        (["--bootstrap", "127.0.0.1:1", "Metadata", "--timeout", "nan"], "--timeout nan"),
        (["--bootstrap", "127.0.0.1:1", "Metadata", "--user", "u"], "must be given together"),
        (["--bootstrap", "127.0.0.1:1", "Metadata", "--password-env", "X"], "must be given together"),
        (["--bootstrap", "127.0.0.1:1", "Metadata", "--user", "u", "--password-env", "NO_SUCH"], "NO_SUCH"),
        (["--bootstrap", "127.0.0.1:1", "Metadata", "--ca", "x", "--insecure"], "--insecure"),
        (["--bootstrap", "127.0.0.1:1", "Metadata", "--ca", "no-such-file"], "No such file"),
    ],
)
def test_usage_errors_are_exit_code_2(argv: list[str], complaint: str, capsys: Capsys) -> None:
    assert main(["request", *argv]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("tree", ['{"topicz": 1}', '{"topics": 5}', "[]", '{"allowAutoTopicCreation": null}'])
def test_json_of_another_form_is_exit_code_2(tree: str, capsys: Capsys) -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        assert peer.until_closed()

    with ScriptedBroker(script) as broker:
        assert main(["request", "--bootstrap", broker.bootstrap, "Metadata", tree]) == 2
    assert "Metadata" in capsys.readouterr().err
