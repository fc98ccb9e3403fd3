"""Limits of messages that wait for their other half: of each flow those of `exchange_pairing`, and of all flows."""

from __future__ import annotations

import numpy as np

from kwire.capture.index.arrays import NO_NUMBERS, Bools, Ints, find_groups
from kwire.capture.index.flows.frame_columns import NO_ID, FrameColumns
from kwire.capture.index.flows.matching import Matches, Pairs
from kwire.capture.index.flows.message_columns import RequestColumns, ResponseColumns
from kwire.capture.index.flows.request_numbers import RequestNumbers, find_early_pairs, running_sums
from kwire.capture.kafka.exchange_pairing import FRAME_COST, ORPHANS_MAX, PENDING_REQUESTS_MAX, PENDING_SIZE_MAX

# Limit of the requests and responses of all flows that wait at the end of a span; the oldest ones wait no more. Only
# columns are held, so their bytes do not count. A capture with more is above the limit of the streaming pipeline, too.
WAITING_MAX = PENDING_SIZE_MAX // FRAME_COST


def find_flows_over_limits(
    requests: RequestColumns, responses: ResponseColumns, matches: Matches, numbers: RequestNumbers
) -> Ints:
    """The flows in which a limit changes what was matched."""
    sides = requests.frame.side[numbers.row]
    is_over = (numbers.in_flight >= PENDING_REQUESTS_MAX) & (requests.expects_response[numbers.row] > 0)
    return np.union1d(sides[is_over] >> 1, _find_crowded_flows(requests, responses, matches))


def _find_crowded_flows(requests: RequestColumns, responses: ResponseColumns, matches: Matches) -> Ints:
    """The flows of which too many responses wait at some time, where not all of these wait to the end."""
    pairs = matches.pairs
    early, alone = np.nonzero(find_early_pairs(requests, responses, pairs))[0], np.nonzero(pairs.request < 0)[0]
    # One that was replaced by another of its id.
    replaced = alone[responses.correlation_id[pairs.response[alone]] != NO_ID]
    brief = np.append(early, replaced)
    came = np.append(pairs.response[brief], matches.waiting)
    if not len(brief) or len(came) <= ORPHANS_MAX:
        return NO_NUMBERS
    frame = responses.frame
    flow = np.concatenate([frame.side[came] >> 1, frame.side[pairs.response[brief]] >> 1])
    moment = np.concatenate([frame.completed_by[came], pairs.moment[brief]])
    offset = np.concatenate([frame.offset[came], pairs.offset[brief]])
    # One that is replaced goes before the other one comes.
    is_end = np.arange(len(flow)) >= len(came)
    order = np.lexsort((~is_end, offset, moment, flow))
    flow, step = flow[order], np.where(is_end, -1, 1)[order]
    firsts = find_groups(flow)
    counts = np.diff(np.append(firsts, len(flow)))
    is_crowded = running_sums(step, firsts, counts) > ORPHANS_MAX
    crowded = np.unique(flow[is_crowded])
    return crowded[np.isin(crowded, frame.side[pairs.response[brief]] >> 1)]


def limit_responses(responses: ResponseColumns, waiting: Ints) -> tuple[Ints, Pairs]:
    """The responses that wait for a request, in order; and the oldest ones of flows in which too many wait."""
    flow, moment = responses.frame.side[waiting] >> 1, responses.frame.completed_by[waiting]
    waiting = waiting[np.lexsort((responses.frame.offset[waiting], moment, flow))]
    if len(waiting) <= ORPHANS_MAX:
        return waiting, Pairs.of_responses(NO_NUMBERS, NO_NUMBERS, NO_NUMBERS)
    flow = responses.frame.side[waiting] >> 1
    # Each is dropped when the one that comes so many places behind it in the same flow arrives.
    is_dropped = np.append(flow[ORPHANS_MAX:] == flow[:-ORPHANS_MAX], np.zeros(ORPHANS_MAX, dtype=np.bool_))
    dropped = np.nonzero(is_dropped)[0]
    last = waiting[dropped + ORPHANS_MAX]
    pairs = Pairs.of_responses(waiting[dropped], responses.frame.completed_by[last], responses.frame.offset[last])
    return waiting[~is_dropped], pairs


def find_oldest(asked: FrameColumns, answered: FrameColumns, size_max: int | None) -> tuple[Bools, Bools]:
    """Which requests and responses are the oldest ones beyond `WAITING_MAX`, or beyond a size.

    Args: size_max: of all that wait, with what each takes in memory; None where their bytes are not held.
    """
    moments = np.append(asked.completed_by, answered.completed_by)
    newest_first = np.argsort(moments, kind="stable")[::-1]
    is_oldest = np.zeros(len(moments), dtype=np.bool_)
    is_oldest[newest_first[WAITING_MAX:]] = True
    if size_max is not None:
        size = np.append(asked.size, answered.size)[newest_first] + FRAME_COST
        is_oldest[newest_first[np.cumsum(size) > size_max]] = True
    return is_oldest[: len(asked.side)], is_oldest[len(asked.side) :]
