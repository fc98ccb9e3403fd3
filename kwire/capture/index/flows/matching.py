"""Match responses to requests, for all flows at once: by flow and correlation id, in the order of the capture.

Nearly always a correlation id has one request, then one response. Others are matched one by one (`flow_pairing`), and
so is a whole flow where not only the correlation ids decide.
"""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import numpy as np

from kwire.capture.index.arrays import NO_NUMBERS, Bools, Ints, concatenate_rows, find_groups
from kwire.capture.index.flows.flow_pairing import FlowPairing, PairedMessage, PairRow
from kwire.capture.index.flows.frame_columns import NO_ID
from kwire.capture.index.flows.message_columns import RequestColumns, ResponseColumns, correlation_keys
from kwire.capture.kafka.exchange_pairing import DISORDER_NS


class Pairs(NamedTuple):
    """Rows of requests and of responses, -1 for none; moment and offset of the message that completed each pair."""

    request: Ints
    response: Ints
    moment: Ints
    offset: Ints

    @classmethod
    def of_requests(cls, rows: Ints, moment: Ints, offset: Ints) -> Pairs:
        """Requests without a response."""
        return cls(rows, np.full(len(rows), -1), moment, offset)

    @classmethod
    def of_responses(cls, rows: Ints, moment: Ints, offset: Ints) -> Pairs:
        """Responses without a request."""
        return cls(np.full(len(rows), -1), rows, moment, offset)


class Matches(NamedTuple):
    """What was found.

    pairs: requests without a response among them were dropped. open: rows of requests that stay open. waiting: rows of
    responses that wait for a request. duplicates: rows of requests that came while another of their id was open.
    """

    pairs: Pairs
    open: Ints
    waiting: Ints
    duplicates: Ints


class _Messages(NamedTuple):
    """Requests, then responses: the key by which they are matched, then the values of `PairedMessage`."""

    key: Ints
    row: Ints
    correlation_id: Ints
    ts: Ints
    moment: Ints
    offset: Ints


def match_messages(requests: RequestColumns, responses: ResponseColumns, walked: Ints) -> Matches:
    """Match messages.

    Args: requests, responses: those of earlier spans first. walked: the flows whose messages are matched one by one.
    """
    asked = np.nonzero(requests.expects_response > 0)[0]
    is_matched = responses.correlation_id != NO_ID
    if len(walked):
        is_matched |= np.isin(responses.frame.side >> 1, walked)
    answers, without_id = np.nonzero(is_matched)[0], np.nonzero(~is_matched)[0]
    messages = _join_messages(requests, responses, asked, answers)
    is_walked = np.isin(messages.key >> 32, walked) if len(walked) else np.zeros(len(messages.key), dtype=np.bool_)
    if len(walked):
        messages.key[is_walked] &= ~0xFFFFFFFF
    order = np.argsort(messages.key, kind="stable")
    is_request = order < len(asked)
    firsts = find_groups(messages.key[order])
    size = np.diff(np.append(firsts, len(order)))
    second = np.minimum(firsts + 1, max(len(order) - 1, 0))
    request, response = order[firsts], order[second]
    is_pair = (size == 2) & is_request[firsts] & ~is_request[second] & ~is_walked[request]
    # A response may come before its request, but not long before.
    is_early = is_pair & (messages.moment[response] < messages.moment[request])
    early = np.nonzero(is_early)[0]
    is_pair[early] = messages.ts[response[early]] >= messages.ts[request[early]] - DISORDER_NS
    is_alone = (size == 1) & ~is_walked[request]
    is_open, is_waiting = is_alone & is_request[firsts], is_alone & ~is_request[firsts]
    rows, completing = messages.row, np.where(is_early, request, response)[is_pair]
    ends = messages.moment[completing], messages.offset[completing]
    pairs = Pairs(rows[request[is_pair]], rows[response[is_pair]], *ends)
    frame = responses.frame
    unnumbered = Pairs.of_responses(without_id, frame.completed_by[without_id], frame.offset[without_id])
    found = Matches(
        concatenate_rows(pairs, unnumbered), rows[request[is_open]], rows[request[is_waiting]], duplicates=NO_NUMBERS
    )
    others = ~(is_pair | is_alone)
    if not bool(others.any()):
        return found
    rest = order[np.repeat(others, size)]
    one_by_one = _match_one_by_one(_Messages(*(column[rest] for column in messages)), rest < len(asked))
    return concatenate_rows(found, one_by_one)


def _join_messages(requests: RequestColumns, responses: ResponseColumns, asked: Ints, answers: Ints) -> _Messages:
    columns = (
        (correlation_keys(requests)[asked], correlation_keys(responses)[answers]),
        (asked, answers),
        (requests.correlation_id[asked], responses.correlation_id[answers]),
        (requests.frame.ts[asked], responses.frame.end_ts[answers]),
        (requests.frame.completed_by[asked], responses.frame.completed_by[answers]),
        (requests.frame.offset[asked], responses.frame.offset[answers]),
    )
    return _Messages(*map(np.concatenate, columns))


def _match_one_by_one(messages: _Messages, is_request: Bools) -> Matches:
    """Match messages of each key in their order."""
    pairings: list[FlowPairing] = []
    order, last = np.lexsort((messages.offset, messages.moment, messages.key)), -1
    columns = [column[order].tolist() for column in messages]
    for is_asked, key, *message in zip(is_request[order].tolist(), *columns, strict=True):
        if key != last:
            pairings.append(FlowPairing())
            last = key
        add = pairings[-1].add_request if is_asked else pairings[-1].add_response
        add(PairedMessage(*message))
    pairs: list[PairRow] = [row for pairing in pairings for row in pairing.rows]
    lists = (pairing.open_requests for pairing in pairings), (pairing.waiting for pairing in pairings)
    rows = [*lists, (pairing.duplicates for pairing in pairings)]
    found = (np.array(list(chain.from_iterable(each)), dtype=np.int64) for each in rows)
    return Matches(Pairs(*np.array(pairs, dtype=np.int64).reshape(-1, 4).T), *found)
