"""Reading the names of a certificate: the subject in the form of RFC 2253, as Java prints it, and alternative names.

Source: java.security's X500Principal.getName; RFC 5280, 4.2.1.6. Only the parts of DER that names need are decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

#: The attributes with a name in RFC 2253; others are written as their number, with the bytes of their value.
_ATTRIBUTE_NAMES = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
#: Character encodings of string types, by DER tag.
_ENCODINGS = {
    0x0C: "utf-8",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1B: "latin-1",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
_ESCAPED = frozenset(',=+<>#;"\\')
_EXPLICIT_VERSION = 0xA0
_EXPLICIT_EXTENSIONS = 0xA3
_ALTERNATIVE_NAMES_OID = bytes.fromhex("551d11")


class _Value(NamedTuple):
    tag: int
    content: bytes
    whole: bytes


def read_subject(certificate: bytes) -> str:
    """The subject of a certificate in DER, the most specific part first: CN=alice,O=Orders.

    The certificate must have been verified by TLS.
    """
    _serial, _signature, _issuer, _validity, subject = _read_fields(certificate)[:5]
    parts = [_read_values(part.content) for part in _read_values(subject.content)]
    return ",".join("+".join(map(_format_attribute, pairs)) for pairs in reversed(parts))


def read_alternative_names(certificate: bytes) -> frozenset[tuple[int, bytes]]:
    """The alternative names of the subject of a certificate in DER: the kind, 2 for DNS and 7 for IP, and its bytes.

    The certificate must have been read by TLS.
    """
    for field in _read_fields(certificate):
        if field.tag != _EXPLICIT_EXTENSIONS:
            continue
        for extension in _read_values(next(_read_values(field.content)).content):
            oid, *_critical, value = _read_values(extension.content)
            if oid.content == _ALTERNATIVE_NAMES_OID:
                names = _read_values(next(_read_values(value.content)).content)
                return frozenset((name.tag & 0x1F, name.content) for name in names)
    return frozenset()


def _read_fields(certificate: bytes) -> list[_Value]:
    """The fields of a certificate from its serial number on."""
    fields = list(_read_values(next(_read_values(next(_read_values(certificate)).content)).content))
    return fields[1:] if fields[0].tag == _EXPLICIT_VERSION else fields


def _format_attribute(pair: _Value) -> str:
    oid, value = _read_values(pair.content)
    dotted = _decode_oid(oid.content)
    name, encoding = _ATTRIBUTE_NAMES.get(dotted), _ENCODINGS.get(value.tag)
    if name is None or encoding is None:
        return f"{name or dotted}=#{value.whole.hex()}"
    return f"{name}={_escape(value.content.decode(encoding, 'replace'))}"


def _escape(text: str) -> str:
    lead, rest = len(text) - len(text.lstrip(" ")), text.strip(" ")
    trail = len(text) - lead - len(rest)
    middle = "".join(f"\\{char}" if char in _ESCAPED else "\\00" if char == "\0" else char for char in rest)
    return "\\ " * lead + middle + "\\ " * trail


def _decode_oid(content: bytes) -> str:
    numbers = [0]
    for byte in content:
        numbers[-1] = numbers[-1] << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(0)
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:-1]]))


def _read_values(data: bytes) -> Iterator[_Value]:
    at = 0
    while at < len(data):
        size, content = data[at + 1], at + 2
        if size & 0x80:
            content += size & 0x7F
            size = int.from_bytes(data[at + 2 : content], "big")
        yield _Value(data[at], data[content : content + size], data[at : content + size])
        at = content + size
