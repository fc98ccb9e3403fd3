"""Subjects of certificates, named in the form of Java."""

from __future__ import annotations

import pytest

from mockbroker.security.distinguished_name import read_subject


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

    assert read_subject(certificate) == name
