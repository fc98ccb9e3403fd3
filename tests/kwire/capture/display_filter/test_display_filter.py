"""Display filters have the same results as equivalent Python code, and errors have a position."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.capture.display_filter.display_filter import DisplayFilter
from kwire.capture.display_filter.fields import TOPICS, WIRESHARK, filter_fields
from kwire.capture.display_filter.tokenizer import FilterError
from kwire.capture.rows.columns import LEVELS, level_columns
from kwire.error_codes import ErrorCode

Row = dict[str, object]
EMPTY: Row = {**{column.name: None for column in level_columns("messages")}, TOPICS: []}


def row(**values: object) -> Row:
    return {**EMPTY, **values}


def passes(text: str, level: str = "messages", **values: object) -> bool:
    empty: Row = EMPTY if level == "messages" else {column.name: None for column in level_columns(level)}
    return DisplayFilter(text, level).matches({**empty, **values})


class Sample(NamedTuple):
    """A filter and the equivalent Python function."""

    text: str
    holds: Callable[[Row], bool]


_CLIENTS = ("a", "b", "and", "c d", 'q"')
_ROWS = st.fixed_dictionaries(
    {
        "client_id": st.sampled_from([None, *_CLIENTS]),
        "error_code": st.sampled_from([None, 0, 3, 6]),
        "latency_us": st.sampled_from([None, 0, 1_500, 20_000, 20_001]),
        "tls": st.sampled_from([None, True, False]),
        TOPICS: st.lists(st.sampled_from(["t", "u"]), max_size=2, unique=True),
    }
)


def _topics(row: Row) -> list[str]:
    return cast("list[str]", row[TOPICS])


def _quote(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _compare(sign: str, value: object, wanted: object) -> bool:
    """A comparison with null is false."""
    if value is None:
        return False
    if sign in {"=", "!="}:
        return (value == wanted) == (sign == "=")
    assert isinstance(value, int)
    assert isinstance(wanted, int)
    return {"<": value < wanted, "<=": value <= wanted, ">": value > wanted, ">=": value >= wanted}[sign]


def _sample(sign: str, text: str, column: str, wanted: object) -> Sample:
    return Sample(text, lambda each: _compare(sign, each[column], wanted))


_ORDERS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
_SIMPLE = st.one_of(
    st.builds(
        lambda sign, name: _sample(sign, f"client {sign} {_quote(name)}", "client_id", name),
        st.sampled_from(["=", "!="]),
        st.sampled_from(_CLIENTS),
    ),
    st.builds(
        lambda sign, code, by_name: _sample(
            sign, f"error{sign}{ErrorCode(code).name.lower() if by_name else code}", "error_code", code
        ),
        _ORDERS,
        st.sampled_from([0, 3, 6]),
        st.booleans(),
    ),
    st.builds(
        lambda sign, span: _sample(sign, f"latency {sign}{span[0]}", "latency_us", span[1]),
        _ORDERS,
        st.sampled_from([("0", 0), ("1.5ms", 1_500), ("20ms", 20_000), ("0.02s", 20_000), ("20001us", 20_001)]),
    ),
    st.builds(
        lambda names: Sample(f"client in ({', '.join(map(_quote, names))})", lambda each: each["client_id"] in names),
        st.lists(st.sampled_from(_CLIENTS), min_size=1, max_size=3),
    ),
    st.builds(
        lambda names: Sample(
            f"client not in ({','.join(map(_quote, names))})",
            lambda each: each["client_id"] is not None and each["client_id"] not in names,
        ),
        st.lists(st.sampled_from(_CLIENTS), min_size=1, max_size=3),
    ),
    st.builds(lambda name: Sample(f"topic={name}", lambda each: name in _topics(each)), st.sampled_from("tu")),
    st.builds(
        lambda name: Sample(f"topic!={name}", lambda each: bool(_topics(each)) and name not in _topics(each)),
        st.sampled_from("tu"),
    ),
    st.just(Sample("tls", lambda each: bool(each["tls"]))),
    st.just(Sample("error", lambda each: bool(each["error_code"]))),
    st.just(Sample("latency = null", lambda each: each["latency_us"] is None)),
    st.just(Sample("CLIENT != NULL", lambda each: each["client_id"] is not None)),
)


def _both(left: Sample, right: Sample, word: str) -> Sample:
    is_and = word.lower() in {"and", "&&"}
    combine = all if is_and else any
    return Sample(f"({left.text}) {word} ({right.text})", lambda each: combine((left.holds(each), right.holds(each))))


_FILTERS = st.recursive(
    _SIMPLE,
    lambda inner: st.one_of(
        st.builds(_both, inner, inner, st.sampled_from(["and", "or", "AND", "&&", "||"])),
        st.builds(
            lambda each, sign: Sample(f"{sign} ({each.text})", lambda one: not each.holds(one)),
            inner,
            st.sampled_from(["not", "!", "NOT"]),
        ),
    ),
    max_leaves=6,
)


@given(_FILTERS, st.lists(_ROWS, min_size=1, max_size=8))
def test_a_filter_has_the_result_of_python(sample: Sample, found: list[Row]) -> None:
    where = DisplayFilter(sample.text)

    for each in found:
        each["error_name"] = None if each["error_code"] is None else ErrorCode(int(str(each["error_code"]))).name
    assert [where.matches(row(**each)) for each in found] == [sample.holds(each) for each in found]


@given(st.lists(st.sampled_from(["tls", "error", "latency"]), min_size=2, max_size=5), st.data())
def test_precedence_is_not_and_or(names: list[str], data: st.DataObject) -> None:
    words = [data.draw(st.sampled_from(["and", "or"])) for _ in names[1:]]
    nots = [data.draw(st.booleans()) for _ in names]
    terms = [f"{'not ' if flag else ''}{name}" for name, flag in zip(names, nots, strict=True)]
    text = " ".join(part for pair in zip(terms, [*words, ""], strict=True) for part in pair).strip()
    values = {name: data.draw(st.booleans(), label=name) for name in set(names)}

    code, latency_us = int(values.get("error", 0)), int(values.get("latency", 0))
    expected = eval(text, {}, values)
    assert passes(text, tls=values.get("tls"), error_code=code, latency_us=latency_us) == expected


def test_fields_are_compared_by_their_kind() -> None:
    assert passes("api=sharefetch", api_name="ShareFetch", api_key=78)
    assert passes("api = 78 and api_key >= 76", api_name="ShareFetch", api_key=78)
    assert passes("api ~ ^Share", api_name="ShareFetch", api_key=78)
    assert passes("api=SaslToken", api_name="SaslToken")
    name = "NOT_LEADER_OR_FOLLOWER"
    assert passes("error = not_leader_or_follower and error=6 and error ~ LEADER", error_code=6, error_name=name)
    assert passes("req_bytes > 64KiB and req_bytes < 1mb", req_bytes=70_000)
    assert passes("latency_us = 20000 and latency=20ms and throttle_ms >= 1s", latency_us=20_000, throttle_ms=1_000)
    assert passes("status != OK", status="gap")
    assert passes("issue = gap and issues", issues=[{"kind": "gap", "detail": ""}])
    assert passes("packet = 7", req_packet=3, resp_packet=7)
    assert passes("tls = false", tls=False)
    assert not passes("tls", tls=False)


def test_a_connection_matches_its_id_its_endpoints_and_its_addresses() -> None:
    conn = "127.0.0.1:40000>[::1]:9092"

    assert passes(f'conn="{conn}" and conn=127.0.0.1 and conn=::1 and conn=127.0.0.1:40000', conn_id=conn)
    assert passes("conn=[::1]:9092 and conn ~ :9092$", conn_id=conn)
    assert not passes("conn=127.0.0.1:9092 or conn=127.0.0", conn_id=conn)


def test_times_have_a_date_or_are_of_any_day() -> None:
    ts = 1_795_251_564_987_332_000  # 2026-11-21T08:59:24.987332Z

    for text in ("time>08:59", "time>=08:59:24.987332", "time<=2026-11-21T08:59:24.987332Z", "time>2026-11-21"):
        assert passes(text, req_ts=ts), text
    for text in ("time<08:59:24.98", "time>2026-11-22", "time>'2026-11-21 09:59:25+01:00'"):
        assert not passes(text, req_ts=ts), text
    assert passes("time>08:59", req_ts=None, resp_ts=ts)


@pytest.mark.parametrize("level", LEVELS)
def test_every_column_of_every_level_is_a_field(level: str) -> None:
    for column in level_columns(level):
        assert not passes(f"{column.name} != null", level)
        assert passes(f"not {column.name}", level)
    assert {column.name for column in level_columns(level)} <= set(filter_fields(level))


def test_columns_are_those_that_the_filter_reads() -> None:
    assert DisplayFilter("api=Fetch and not latency>1s").columns == {"api_name", "api_key", "latency_us"}
    assert DisplayFilter("topic=t or body_request ~ x").columns == {TOPICS, "body_request"}


@pytest.mark.parametrize(
    ("text", "at", "what"),
    [
        ("", 0, "expected a field"),
        ("   ", 3, "expected a field"),
        ("latncy>20ms", 0, "did you mean latency?"),
        ("api=Fetch and zebra=1", 14, "there are api, error"),
        ("latency>20", 8, "needs a unit"),
        ("latency>20parsec", 8, "a duration"),
        ("latency > fast", 10, "a duration"),
        ("api=ShareFtch", 4, "did you mean ShareFetch?"),
        ("error=not_leader", 6, "did you mean NOT_LEADER_OR_FOLLOWER?"),
        ("status=fine", 7, "is not a status"),
        ("req_bytes>1XB", 10, "a size"),
        ("n_topics=x", 9, "a number"),
        ("tls=maybe", 4, "with true or false"),
        ("time>25:00", 5, "with a time"),
        ("time>2026-13-01", 5, "with a time"),
        ("client<a", 6, "compares numbers and times"),
        ("latency~2", 7, "searches text"),
        ("client>=null", 8, "null is compared by = and !="),
        ("client in (a, null)", 14, "null is not allowed in a list"),
        ("client ~ 'a['", 11, "the pattern: missing ]: ["),
        ("(api=Fetch", 10, "'and', 'or' or ), found the end"),
        ("api=Fetch)", 9, "expected 'and', 'or' or the end, found ')'"),
        ("api Fetch", 4, "expected 'and', 'or' or the end, found 'Fetch'"),
        ("api in Fetch", 7, "( and a list"),
        ("api in (Fetch", 13, ", or )"),
        ("api=", 4, "expected a value, found the end"),
        ("api==and", 5, "expected a value"),
        ("client='x", 7, "is not closed"),
        ("client=a & tls", 9, "'and' is &&"),
        ("not " * 150 + "tls", 400, "levels of nesting"),
        ("x" * 10_001, 10_000, "no more than 10000"),
    ],
)
def test_a_syntax_error_has_a_position(text: str, at: int, what: str) -> None:
    with pytest.raises(FilterError) as refused:
        DisplayFilter(text)

    assert what in str(refused.value)
    assert str(refused.value).startswith(f"character {at + 1}: ")
    assert refused.value.at == at


@given(st.text(max_size=40))
def test_any_text_is_a_filter_or_an_error_with_a_position(text: str) -> None:
    place = 0
    try:
        DisplayFilter(text)
    except FilterError as error:
        place = error.at

    assert 0 <= place <= len(text)


def test_the_documentation_lists_all_fields() -> None:
    page = (Path(__file__).parents[4] / "docs" / "captures.md").read_text("utf-8")
    tables = page.partition("| field | meaning | compared with |")[2].partition("<!-- End -->")[0]
    fields = [line.split("|")[1] for line in tables.splitlines() if line.startswith("| `")]
    named = {name for field in fields for name in re.findall(r"`(\w+)`", field)}
    there = {name for level in LEVELS for name in filter_fields(level)}
    of_columns = {column.name for level in LEVELS for column in level_columns(level)}

    # Some are columns of other levels.
    assert there - of_columns <= named <= there


@pytest.mark.parametrize(
    ("text", "is_met"),
    [
        ("client contains k-s", True),
        ("client contains K", False),
        ("client contains .", False),
        ("not client contains .", True),
        ('client matches "^ck-"', True),
        ("latency gt 1ms && latency le 2ms", True),
        ("latency ge 3ms or version ne 2 or version lt 2", False),
        ("version eq 2", True),
    ],
)
def test_operators_of_wireshark_are_accepted(text: str, is_met: bool) -> None:
    assert passes(text, client_id="ck-share", latency_us=2_000, api_version=2) is is_met


def test_the_error_for_a_wireshark_field_has_the_field_of_kwire() -> None:
    with pytest.raises(FilterError, match=r"'kafka\.topic_name' is no field of the level messages; here it is topic"):
        DisplayFilter("kafka.topic_name == t")
    with pytest.raises(FilterError, match="contains searches text; latency is a duration"):
        DisplayFilter("latency contains 2")
    for meant in set(WIRESHARK.values()):
        assert any(meant in filter_fields(level) for level in LEVELS)
