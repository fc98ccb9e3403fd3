"""SCRAM at the broker: the example of RFC 7677, and what is refused."""

from __future__ import annotations

import base64

import pytest

from kwire.client.scram import ScramClient
from kwire.scram import ScramMechanism
from mockbroker.state.security.login import (
    AuthenticatedPrincipal,
    DefectiveClient,
    InvalidCredentials,
    LoginRefused,
    PlainLogin,
)
from mockbroker.state.security.scram import ScramCredential, ScramLogin, ScramUser, credential_from_password

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
PENCIL = credential_from_password(ScramMechanism.SHA_256, "pencil", SALT, 4096)


def _login(
    credential: ScramCredential = PENCIL, mechanism: ScramMechanism = ScramMechanism.SHA_256, user: str = "user"
) -> ScramLogin:
    scram_user = ScramUser(credential, user)
    return ScramLogin(
        mechanism, lambda name, is_token: scram_user if name == user and not is_token else None, SERVER_NONCE
    )


def test_the_example_of_rfc_7677() -> None:
    login = _login()

    challenge, nobody, _ = login.handle_message(f"n,,n=user,r={CLIENT_NONCE}".encode(), now_ms=0)
    assert challenge.decode() == f"r={CLIENT_NONCE}{SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert nobody is None
    proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    answer, scram_user, _ = login.handle_message(f"c=biws,r={CLIENT_NONCE}{SERVER_NONCE},p={proof}".encode(), now_ms=0)
    assert answer == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert scram_user == AuthenticatedPrincipal("User:user")


@pytest.mark.parametrize(
    ("nonce", "defect"),
    [
        (f"{CLIENT_NONCE}{CLIENT_NONCE}{SERVER_NONCE}", "librdkafka before 2.6.1"),
        (CLIENT_NONCE, "lacks the nonce of the broker"),
        ("W22ZaJ0SNY7soEsUEjb6gQ==", "the salt instead of the nonce"),
    ],
)
def test_known_defects_of_clients_are_named(nonce: str, defect: str) -> None:
    login = _login()
    login.handle_message(f"n,,n=user,r={CLIENT_NONCE}".encode(), now_ms=0)

    with pytest.raises(DefectiveClient, match=defect):
        login.handle_message(f"c=biws,r={nonce},p=AAAA".encode(), now_ms=0)


def test_another_nonce_is_no_known_defect() -> None:
    login = _login()
    login.handle_message(f"n,,n=user,r={CLIENT_NONCE}".encode(), now_ms=0)

    with pytest.raises(InvalidCredentials, match="the nonce of another exchange") as refused:
        login.handle_message(f"c=biws,r={CLIENT_NONCE}x,p=AAAA".encode(), now_ms=0)
    assert type(refused.value) is InvalidCredentials


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_the_raw_client_and_the_broker_authenticate_each_other(mechanism: ScramMechanism) -> None:
    user = "a,b=c"
    client = ScramClient(mechanism.mechanism_name, user, "päss")
    login = _login(credential_from_password(mechanism, "päss", b"salt", 5000), mechanism, user)

    challenge, _, _ = login.handle_message(client.first_message(), now_ms=0)
    answer, scram_user, _ = login.handle_message(client.final_message(challenge), now_ms=0)

    client.verify(answer)
    assert scram_user == AuthenticatedPrincipal("User:a,b=c")


@pytest.mark.parametrize(
    "first",
    [
        "",
        "n,,n=user",
        "y,,n=user,r=x",
        "p=tls-unique,,n=user,r=x",
        "n,,n=us=er,r=x",
        "n,,n=user,r=a b",
        "n,,n=other,r=x",
    ],
)
def test_an_invalid_first_message_or_unknown_user_fails_without_a_message(first: str) -> None:
    with pytest.raises(InvalidCredentials):
        _login().handle_message(first.encode(), now_ms=0)


def test_another_authorization_id_fails_with_a_message() -> None:
    with pytest.raises(LoginRefused, match="authorization id"):
        _login().handle_message(b"n,a=other,n=user,r=x", now_ms=0)


@pytest.mark.parametrize(
    "final", ["c=biws,r=x,p=AAAA", f"c=biws,r=x{SERVER_NONCE},p=AAAA", f"r=x{SERVER_NONCE},p=AAAA"]
)
def test_a_final_message_with_a_wrong_proof_fails(final: str) -> None:
    login = _login()
    login.handle_message(b"n,,n=user,r=x", now_ms=0)

    with pytest.raises(InvalidCredentials):
        login.handle_message(final.encode(), now_ms=0)


def test_a_credential_is_not_shown() -> None:
    assert str(PENCIL.stored_key) not in repr(PENCIL)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"alice", "must have 3 parts, this one has 1"),
        (b"\0alice\0secret\0", "must have 3 parts, this one has 4"),
        (b"\0\0secret", "no user name"),
        (b"\0alice\0", "no password"),
        (b"\0alice\0wrong", "wrong user name or password"),
        (b"bob\0alice\0secret", "authorization id"),
    ],
)
def test_plain_failures_have_a_message(message: bytes, why: str) -> None:
    with pytest.raises(LoginRefused, match=why):
        PlainLogin({"alice": "secret"}).handle_message(message, now_ms=0)
