"""Which requests of one flow are pending while its responses are found: a search for a response needs their ids."""

from __future__ import annotations

from operator import itemgetter

import numpy as np

from kwire.capture.index.arrays import Ints, concatenate_rows
from kwire.capture.index.flows.flow_pairing import FlowPairing, PairedMessage
from kwire.capture.index.flows.frame_columns import NO_ID, MessageTimes
from kwire.capture.index.streams.stream_pieces import END_MOMENT
from kwire.capture.kafka.exchange_pairing import DISORDER_NS, ORPHANS_MAX, PENDING_REQUESTS_MAX

_NEVER = END_MOMENT << 1


class PendingRequests:
    """The pending requests of one flow at ascending moments.

    Where no correlation id is repeated or missing, and few messages wait, the moment at which each request is answered
    is computed at once. Otherwise requests and responses are paired one by one up to each moment.
    """

    def __init__(self, requests: MessageTimes, orphans: MessageTimes, found: MessageTimes) -> None:
        """Args: requests: those that have a response, in order. orphans: responses of earlier spans without a request.
        found: responses of this span that are found for certain, in order; others are added.
        """
        responses = concatenate_rows(orphans, found)
        self._requests = requests
        self._answers = responses
        self._added: list[tuple[int, int, int]] = []
        self._added_ids: set[int] = set()
        self._pairing = FlowPairing()
        self._paired = [0, 0]
        self._open: list[int] = []
        self._reached = 0
        self._answered_at: Ints | None = None
        if not any(len(np.unique(each.ids)) < len(each.ids) for each in (requests, responses)):
            answered_at = _find_answers(requests, responses)
            if not _has_other_pairs(requests, responses, answered_at):
                self._answered_at = answered_at

    def add_response(self, moment: int, correlation_id: int, end_ts: int) -> None:
        """Another response was found."""
        self._added.append((moment, correlation_id, end_ts))
        self._added_ids.add(correlation_id)

    def at(self, moment: int) -> dict[int, int]:
        """By correlation id, the requests that are pending at a moment, in their order."""
        if self._answered_at is None:
            return self._pair_up_to(moment)
        reached = int(np.searchsorted(self._requests.moments, moment))
        candidates = np.append(np.array(self._open, dtype=np.int64), np.arange(self._reached, reached))
        is_open = self._answered_at[candidates] >= moment
        ids = self._requests.ids[candidates[is_open]].tolist()
        self._open, self._reached = candidates[is_open].tolist(), reached
        return {number: 1 for number in ids if number not in self._added_ids}

    def _pair_up_to(self, moment: int) -> dict[int, int]:
        """The same one by one."""
        pairing, events = self._pairing, list[tuple[int, bool, int, int]]()
        for place, columns in enumerate((self._answers, self._requests)):
            begin, end = self._paired[place], int(np.searchsorted(columns.moments, moment))
            rows = zip(*(column[begin:end].tolist() for column in columns), strict=True)
            events += [(when, bool(place), number, ts) for when, number, ts in rows]
            self._paired[place] = max(begin, end)
        events += [(when, False, number, ts) for when, number, ts in self._added]
        self._added.clear()
        # Those of one moment are of one side, and in their order.
        for when, is_request, number, ts in sorted(events, key=itemgetter(0)):
            add = pairing.add_request if is_request else pairing.add_response
            add(PairedMessage(0, number, ts, when, 0))
        pairing.rows.clear()
        return pairing.open_ids


def _has_other_pairs(requests: MessageTimes, responses: MessageTimes, answered_at: Ints) -> bool:
    """Whether not only the correlation ids decide what belongs together: there are tokens, or more than may wait."""
    if len(requests.ids) > PENDING_REQUESTS_MAX:
        answered = np.searchsorted(np.sort(answered_at), requests.moments)
        if bool((np.arange(len(answered)) - answered >= PENDING_REQUESTS_MAX).any()):
            return True
    is_early = answered_at < requests.moments
    early_max = len(responses.ids) - int(((answered_at < _NEVER) & ~is_early).sum())
    return bool((requests.ids == NO_ID).any()) or (early_max > ORPHANS_MAX and bool(is_early.any()))


def _find_answers(requests: MessageTimes, responses: MessageTimes) -> Ints:
    """By request, the moment of its response."""
    answered_at = np.full(len(requests.ids), _NEVER, dtype=np.int64)
    if not len(responses.ids):
        return answered_at
    order = np.argsort(responses.ids)
    place = order[np.minimum(np.searchsorted(responses.ids[order], requests.ids), len(order) - 1)]
    moments = responses.moments[place]
    is_answer = responses.ids[place] == requests.ids
    is_answer &= (moments >= requests.moments) | (responses.ts[place] >= requests.ts - DISORDER_NS)
    answered_at[is_answer] = moments[is_answer]
    return answered_at
