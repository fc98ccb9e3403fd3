"""Principals of certificates: names as Java spells them, and the rules for them."""

from __future__ import annotations

import pytest

from mockbroker.config import ConfigError
from mockbroker.security.distinguished_name import subject_of
from mockbroker.security.principal_rules import PrincipalRules

NAME = "CN=alice.smith,OU=A,O=Orders"


def _sequence(*parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content)
    return b"\x30" + (bytes([size]) if size < 0x80 else b"\x82" + size.to_bytes(2, "big")) + content


#: Subjects as java.security wrote them, and their names by X500Principal.getName().
NAMES = [
    (
        "3055310b3009060355040613024445310a30080603550408130153310d300b0603550407130448657265310f300d060355040a1306"
        "4f7264657273310a3008060355040b130141310e300c06035504031305616c696365",
        "CN=alice,OU=A,O=Orders,L=Here,ST=S,C=DE",
    ),
    (
        "3026310a3008060355040a1301783118301606035504030c0f6123622c633d642b655c66223c3e3b",
        'CN=a\\#b\\,c\\=d\\+e\\\\f\\"\\<\\>\\;,O=x',
    ),
    (
        "303731133011060a0992268993f22c6401191603636f6d310a300806035504031301783114301206092a864886f70d01090116056140"
        "622e63",
        "1.2.840.113549.1.9.1=#16056140622e63,CN=x,DC=com",
    ),
    ("3022310a3008060355040a1301633114300806035504031301613008060355040b130162", "CN=a+OU=b,O=c"),
    (
        "3039310b300906035504030c02c3bc310b3009060355040513023132310a300806035504091301733111300f060a0992268993f22c64"
        "0101130175",
        "UID=u,STREET=s,2.5.4.5=#13023132,CN=ü",
    ),
]


@pytest.mark.parametrize("version", [b"", b"\xa0\x03\x02\x01\x02"])
@pytest.mark.parametrize(("subject", "name"), NAMES)
def test_a_subject_is_named_as_java_names_it(subject: str, name: str, version: bytes) -> None:
    empty = _sequence()
    certificate = _sequence(_sequence(version, b"\x02\x01\x01", empty, empty, empty, bytes.fromhex(subject), empty))

    assert subject_of(certificate) == name


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        ("DEFAULT", f"User:{NAME}"),
        ("", None),
        ("RULE:^CN=(.*?),.*$/$1/", "User:alice.smith"),
        ("RULE:^CN=(.*?),.*$/$1/U", "User:ALICE.SMITH"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$2-$1/L, DEFAULT", "User:a-alice.smith"),
        ("RULE:^CN=nobody$/x/, DEFAULT", f"User:{NAME}"),
        ("RULE:^CN=nobody$/x/", None),
        (r"RULE:^CN=([^.]+)\.(.*?),.*$/$2\/$1$3/", "User:smith/alice$3"),
        ("RULE:^CN=(.*?),.*$/$12/", "User:alice.smith2"),
    ],
)
def test_the_first_rule_that_matches_names_the_principal(rules: str, principal: str | None) -> None:
    assert PrincipalRules(rules).principal(NAME) == principal


@pytest.mark.parametrize("rules", ["RULE:a", "RULE:a/b", "DEFAULTS", "RULE:(/x/", "DEFAULT RULE:a/b/"])
def test_what_is_no_rule_is_refused(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalRules(rules)
