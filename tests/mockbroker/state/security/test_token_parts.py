"""Parts of tokens: base64url and JSON."""

from __future__ import annotations

import pytest

from mockbroker.state.security.oauthbearer import TokenRejected
from mockbroker.state.security.token_parts import decode_base64url, is_number, parse_json


@pytest.mark.parametrize(("part", "data"), [("YQ", b"a"), ("YQ==", b"a"), ("-_8", b"\xfb\xff"), ("", b"")])
def test_base64url_may_be_padded(part: str, data: bytes) -> None:
    assert decode_base64url(part, "header") == data


@pytest.mark.parametrize("part", ["Y", "YQ=", "Y+Q", "YQ==YQ", "\xe9\xe9", "YWI=="])
def test_other_texts_are_rejected(part: str) -> None:
    with pytest.raises(TokenRejected, match="the header is not base64url"):
        decode_base64url(part, "header")


@pytest.mark.parametrize("data", [b"{", b"NaN", b"\xff", b"{} {}", b'{"a":{"b":1,"b":2}}', b"9" * 5_000])
def test_what_is_no_json_is_rejected_without_its_content(data: bytes) -> None:
    with pytest.raises(TokenRejected) as rejected:
        parse_json(data, "claims", unique_names=True)
    assert str(rejected.value) == "the claims is not JSON"


def test_the_last_of_two_names_counts_where_names_may_repeat() -> None:
    assert parse_json(b'{"a":1,"a":2}', "claims", unique_names=False) == {"a": 2}


def test_a_truth_value_is_no_number() -> None:
    assert [is_number(value) for value in (1, 1.5, True, "1", None)] == [True, True, False, False, False]
