"""Match responses that the capture shows before their requests."""

from __future__ import annotations

import numpy as np

from kwire.capture.index.arrays import NO_NUMBERS, Bools, Ints, concatenate_rows
from kwire.capture.index.flows import pairing
from kwire.capture.index.flows.flow_table import FlowTable
from kwire.capture.index.flows.midstream_flow import IDENTIFYING_API_KEYS
from kwire.capture.index.flows.pairing import EarlyMatches, RequestColumns, ResponseColumns
from kwire.capture.kafka.exchange_pairing import DISORDER_NS, ORPHANS_MAX


class EarlyResponses:
    """Responses whose requests have not been captured yet."""

    def __init__(self) -> None:
        """There are none yet."""
        self._waiting = pairing.missing_responses(0)

    def match_responses(
        self, flows: FlowTable, pending: RequestColumns, requests: RequestColumns, responses: ResponseColumns
    ) -> EarlyMatches:
        """Find early responses among those of a span. Args: pending: the requests of earlier spans."""
        old_count = len(self._waiting.correlation_id)
        candidates = concatenate_rows(self._waiting, responses) if old_count else responses
        no_match = EarlyMatches(NO_NUMBERS, pairing.missing_responses(0), responses)
        if not len(candidates.correlation_id):
            return no_match
        expecting = np.nonzero(requests.expects_response)[0]
        request_keys = np.append(pairing.correlation_keys(pending), pairing.correlation_keys(requests)[expecting])
        response_keys = pairing.correlation_keys(candidates)
        completed_by = np.append(pending.frame.completed_by, requests.frame.completed_by[expecting])
        order = np.argsort(request_keys, kind="stable")
        first = np.searchsorted(request_keys[order], response_keys, "left")
        count = np.searchsorted(request_keys[order], response_keys, "right") - first
        # A correlation id that occurs once identifies the request; repeated ids are left to the pairing.
        position = order[np.minimum(first, len(order) - 1)] if len(order) else np.zeros_like(first)
        is_open = count == 0
        is_early = count == 1
        is_early[is_early] = completed_by[position[is_early]] > candidates.frame.completed_by[is_early]
        is_old = np.arange(len(response_keys)) < old_count
        if not old_count and not bool((is_open | is_early).any()):
            return no_match
        self._mark_ambiguous_unclean(flows, response_keys, is_open | is_early, is_old)
        early_rows = np.nonzero(is_early)[0]
        from_pending = position[early_rows] - len(pending.number)
        request_rows = expecting[np.maximum(from_pending, 0)]
        # The streaming pipeline drops a response that came this long before its request.
        is_late = candidates.frame.end_ts[early_rows] < requests.frame.ts[request_rows] - DISORDER_NS
        # An identifying request sets the client before its response is processed; the columns do not keep that order.
        is_unsupported = np.isin(requests.api_key[request_rows], IDENTIFYING_API_KEYS) | (from_pending < 0)
        flows.mark_unclean((requests.frame.side >> 1)[request_rows[is_late | is_unsupported]], "pairing")
        self._waiting = candidates.select(np.nonzero(is_open & flows.is_clean(candidates.frame.side >> 1))[0])
        rest = np.nonzero(~is_open & ~is_early & ~is_old)[0]
        return EarlyMatches(request_rows, candidates.select(early_rows), candidates.select(rest))

    def close(self, flows: FlowTable) -> None:
        """Mark flows with responses that no request matched, at the end."""
        flows.mark_unclean(self._waiting.frame.side >> 1, "pairing")

    def _mark_ambiguous_unclean(self, flows: FlowTable, keys: Ints, is_alone: Bools, is_old: Bools) -> None:
        """Mark flows with two responses of one id, or with too many pending ones: only the pipeline can read them."""
        unmatched = keys[is_alone | is_old]
        matched = keys[~(is_alone | is_old)]
        unmatched_keys, count = np.unique(unmatched, return_counts=True)
        flows.mark_unclean(unmatched_keys[count > 1] >> 32, "pairing")
        flows.mark_unclean(matched[np.isin(matched, unmatched_keys)] >> 32, "pairing")
        flows.mark_unclean(keys[is_old & ~is_alone] >> 32, "pairing")
        flow, waiting_count = np.unique(unmatched >> 32, return_counts=True)
        flows.mark_unclean(flow[waiting_count > ORPHANS_MAX // 2], "pairing")
