"""SCRAM at the broker: the example of RFC 7677, and what is refused."""

from __future__ import annotations

import base64

import pytest

from kwire.client.scram import ScramClient
from kwire.scram import ScramMechanism
from mockbroker.state.login import BadCredentials, LoggedIn, PlainLogin, Refused
from mockbroker.state.scram import Known, ScramCredential, ScramLogin, credential_for

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
PENCIL = credential_for(ScramMechanism.SHA_256, "pencil", SALT, 4096)


def _login(
    credential: ScramCredential = PENCIL, mechanism: ScramMechanism = ScramMechanism.SHA_256, user: str = "user"
) -> ScramLogin:
    known = Known(credential, user)
    return ScramLogin(mechanism, lambda name, is_token: known if name == user and not is_token else None, SERVER_NONCE)


def test_the_example_of_rfc_7677() -> None:
    login = _login()

    challenge, nobody = login.step(f"n,,n=user,r={CLIENT_NONCE}".encode())
    assert challenge.decode() == f"r={CLIENT_NONCE}{SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert nobody is None
    proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    answer, known = login.step(f"c=biws,r={CLIENT_NONCE}{SERVER_NONCE},p={proof}".encode())
    assert answer == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert known == LoggedIn("User:user")


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_the_raw_client_and_the_broker_prove_each_other_what_they_know(mechanism: ScramMechanism) -> None:
    user = "a,b=c"
    client = ScramClient(mechanism.mechanism_name, user, "päss")
    login = _login(credential_for(mechanism, "päss", b"salt", 5000), mechanism, user)

    challenge, _ = login.step(client.first())
    answer, known = login.step(client.final(challenge))

    client.verify(answer)
    assert known == LoggedIn("User:a,b=c")


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
def test_a_first_message_that_is_none_or_of_nobody_is_refused_without_words(first: str) -> None:
    with pytest.raises(BadCredentials):
        _login().step(first.encode())


def test_another_identity_is_refused_with_words() -> None:
    with pytest.raises(Refused, match="authorization id"):
        _login().step(b"n,a=other,n=user,r=x")


@pytest.mark.parametrize(
    "final", ["c=biws,r=x,p=AAAA", f"c=biws,r=x{SERVER_NONCE},p=AAAA", f"r=x{SERVER_NONCE},p=AAAA"]
)
def test_a_final_message_that_proves_nothing_is_refused(final: str) -> None:
    login = _login()
    login.step(b"n,,n=user,r=x")

    with pytest.raises(BadCredentials):
        login.step(final.encode())


def test_a_credential_is_not_shown() -> None:
    assert str(PENCIL.stored_key) not in repr(PENCIL)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"alice", "has 3 parts, this one 1"),
        (b"\0alice\0secret\0", "has 3 parts, this one 4"),
        (b"\0\0secret", "no user name"),
        (b"\0alice\0", "no password"),
        (b"\0alice\0wrong", "wrong user name or password"),
        (b"bob\0alice\0secret", "authorization id"),
    ],
)
def test_plain_says_why_it_refuses(message: bytes, why: str) -> None:
    with pytest.raises(Refused, match=why):
        PlainLogin({"alice": "secret"}).step(message)
