"""Responses that the capture shows before their requests: what they answer is known once that has come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kwire.capture.exchange import DISORDER_NS, ORPHANS_MAX
from kwire.capture.index.building.beginning import TELLING
from kwire.capture.index.building.flows import Flows
from kwire.capture.index.building.pairing import Answered, Asked, Met, joined_answered, no_answers

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]


class Early:
    """The responses that wait for their requests."""

    def __init__(self) -> None:
        """None wait."""
        self._waiting = no_answers(0)

    def sift(self, flows: Flows, waiting: Asked, asked: Asked, answered: Answered) -> Met:
        """Find them among what a span has. Args: waiting: the requests of earlier spans."""
        own = len(self._waiting.correlation_id)
        both = joined_answered(self._waiting, answered) if own else answered
        nobody = Met(np.zeros(0, dtype=np.int64), no_answers(0), answered)
        if not len(both.correlation_id):
            return nobody
        wanting = np.nonzero(asked.wants_answer)[0]
        requests = np.concatenate([_keys(waiting), _keys(asked)[wanting]])
        responses = _keys(both)
        done = np.concatenate([waiting.frame.done, asked.frame.done[wanting]])
        order = np.argsort(requests, kind="stable")
        first = np.searchsorted(requests[order], responses, "left")
        count = np.searchsorted(requests[order], responses, "right") - first
        # Where an id comes once, the place of its request tells; where it comes again, pairing has to look.
        place = order[np.minimum(first, max(len(order) - 1, 0))] if len(order) else np.zeros(len(first), dtype=np.int64)
        is_open = count == 0
        is_early = count == 1
        is_early[is_early] = done[place[is_early]] > both.frame.done[is_early]
        if not own and not bool((is_open | is_early).any()):
            return nobody
        self._spoil_odd(flows, responses, is_open | is_early, np.arange(len(responses)) < own)
        met = np.nonzero(is_early)[0]
        early = wanting[np.maximum(place[met] - len(waiting.number), 0)]
        # The generators forget a response that came so long before.
        is_late = both.frame.end_ts[met] < asked.frame.ts[early] - DISORDER_NS
        # Who the client is, a request tells before its answer is taken: among rows of one moment that would matter.
        is_telling = np.isin(asked.api_key[early], TELLING) | (place[met] < len(waiting.number))
        flows.spoil((asked.frame.side >> 1)[early[is_late | is_telling]], "pairing")
        self._waiting = both.of(np.nonzero(is_open)[0])
        kept = np.nonzero(flows.is_clean(self._waiting.frame.side >> 1))[0]
        self._waiting = self._waiting.of(kept)
        rest = np.nonzero(~is_open & ~is_early & (np.arange(len(responses)) >= own))[0]
        return Met(early, both.of(met), both.of(rest))

    def close(self, flows: Flows) -> None:
        """The end: what waits, nobody has asked for."""
        flows.spoil(self._waiting.frame.side >> 1, "pairing")

    def _spoil_odd(self, flows: Flows, keys: Ints, is_alone: Bools, is_old: Bools) -> None:
        """Flows with two responses of one id, or so many that wait: only the generators know what comes of them."""
        some = keys[is_alone | is_old]
        found, count = np.unique(some, return_counts=True)
        flows.spoil(found[count > 1] >> 32, "pairing")
        is_met_again = np.isin(keys[~(is_alone | is_old)], found)
        flows.spoil(keys[~(is_alone | is_old)][is_met_again] >> 32, "pairing")
        flows.spoil(keys[is_old & ~is_alone] >> 32, "pairing")
        flow, many = np.unique(some >> 32, return_counts=True)
        flows.spoil(flow[many > ORPHANS_MAX // 2], "pairing")


def _keys(found: Asked | Answered) -> Ints:
    keys: Ints = (found.frame.side >> 1) << 32 | (found.correlation_id & 0xFFFFFFFF)
    return keys
