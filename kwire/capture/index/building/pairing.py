"""Requests and responses, paired for all flows at once: by flow and correlation id, in the order of the capture."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kwire.capture.index.building.flows import Flows
from kwire.capture.index.building.hop import Frames

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]


class Asked(NamedTuple):
    """Requests: their frames, and what their headers say. client_id: a number of the index's list, -1 for null.

    body: where the message begins in the frame; -1 where the header is odd, and the exact decoder must look.
    number: which request of its flow; in_flight: how many of them waited for an answer when it was sent.
    """

    frame: Frames
    api_key: Ints
    api_version: Ints
    correlation_id: Ints
    client_id: Ints
    body: Ints
    wants_answer: Ints
    number: Ints
    in_flight: Ints

    def of(self, chosen: Ints) -> Asked:
        """Some of them."""
        return Asked(self.frame.of(chosen), *(column[chosen] for column in self[1:]))


class Answered(NamedTuple):
    """Responses. order_ok: whether no later request was answered before."""

    frame: Frames
    correlation_id: Ints
    order_ok: Ints

    def of(self, chosen: Ints) -> Answered:
        """Some of them."""
        return Answered(self.frame.of(chosen), *(column[chosen] for column in self[1:]))


class Exchanges(NamedTuple):
    """Exchanges in the order in which they were complete. `response` has size -1 where none is expected or came."""

    request: Asked
    response: Answered
    done: Ints

    def __len__(self) -> int:
        return len(self.done)

    def of(self, chosen: Ints) -> Exchanges:
        """Some of them."""
        return Exchanges(self.request.of(chosen), self.response.of(chosen), self.done[chosen])

    @property
    def flow(self) -> Ints:
        """The flow of each."""
        return self.request.frame.side >> 1


def no_answers(count: int) -> Answered:
    """Responses that there are not."""
    frame = Frames(*(np.full(count, -1, dtype=np.int64) for _ in Frames._fields))
    return Answered(frame, np.full(count, -1, dtype=np.int64), np.full(count, -1, dtype=np.int64))


def no_requests(side: Ints) -> Asked:
    """Requests that nobody saw, by these sides."""
    nothing = np.full(len(side), -1, dtype=np.int64)
    asked = Asked(Frames(side, *[nothing] * 8), *[nothing] * 8)
    return asked._replace(wants_answer=np.zeros(len(side), dtype=np.int64))


def joined_asked(*parts: Asked) -> Asked:
    """All of them, in the order given."""
    frame = Frames(*map(np.concatenate, zip(*(each.frame for each in parts), strict=True)))
    return Asked(frame, *map(np.concatenate, zip(*(each[1:] for each in parts), strict=True)))


def joined_answered(*parts: Answered) -> Answered:
    """All of them, in the order given."""
    frame = Frames(*map(np.concatenate, zip(*(each.frame for each in parts), strict=True)))
    return Answered(frame, *map(np.concatenate, zip(*(each[1:] for each in parts), strict=True)))


def joined(parts: Sequence[Exchanges]) -> Exchanges:
    """All of them, in the order given."""
    asked = joined_asked(*(each.request for each in parts))
    answered = joined_answered(*(each.response for each in parts))
    return Exchanges(asked, answered, np.concatenate([each.done for each in parts]))


class Met(NamedTuple):
    """Responses: those that came before their requests, and all others.

    early: the places of the requests that are answered already when they come, by `answers` in the same order.
    """

    early: Ints
    answers: Answered
    answered: Answered


def exchanges(flows: Flows, waiting: Asked, asked: Asked, met: Met) -> tuple[Exchanges, Asked]:
    """The exchanges that are complete now, and the requests that wait on.

    Flows in which anything but one answer follows one request are spoiled.
    """
    answered = met.answered
    silent, early = asked.of(np.nonzero(asked.wants_answer == 0)[0]), asked.of(met.early)
    asked = joined_asked(waiting, asked.of(np.nonzero(_waits(asked, met))[0]))
    own = len(asked.number)
    key = np.concatenate(
        [
            (asked.frame.side >> 1) << 32 | (asked.correlation_id & 0xFFFFFFFF),
            (answered.frame.side >> 1) << 32 | (answered.correlation_id & 0xFFFFFFFF),
        ]
    )
    done = np.concatenate([asked.frame.done, answered.frame.done])
    # Where no id comes twice, the request is in front as it is; else their places tell who answers whom.
    order = np.argsort(key, kind="stable")
    is_wrong = _out_of_turn(key[order], order < own) | _too_early(done[order], order < own)
    if bool(is_wrong.any()):
        offset = np.concatenate([asked.frame.offset, answered.frame.offset])
        order = np.lexsort((offset, done, key))
        is_wrong = _out_of_turn(key[order], order < own)
    key, is_request = key[order], order < own
    flows.spoil(key[is_wrong] >> 32, "pairing")
    clean = flows.is_clean(key >> 32)
    closes = np.nonzero(~is_request & clean)[0]
    # What a wrong key has is of spoiled flows; so in front of each answer is its request.
    requests, responses = order[closes - 1], order[closes] - own
    is_open = np.zeros(own, dtype=np.bool_)
    is_open[order[is_request & clean]] = True
    is_open[requests] = False
    some = np.nonzero(flows.is_clean(early.frame.side >> 1))[0]
    pairs = (
        joined_asked(asked.of(requests), early.of(some)),
        joined_answered(answered.of(responses), met.answers.of(some)),
    )
    pairs = pairs[0], _with_order(flows, *pairs)
    silent = silent.of(np.nonzero(flows.is_clean(silent.frame.side >> 1))[0])
    return _complete(pairs, silent), asked.of(np.nonzero(is_open)[0])


def _out_of_turn(key: Ints, is_request: Bools) -> Bools:
    """One answer after each request: so each key begins with a request, and then they take turns."""
    is_first = np.append(True, key[1:] != key[:-1])[: len(key)]
    before = np.append(False, is_request[:-1])[: len(key)]
    return np.where(is_first, ~is_request, is_request == before)


def _too_early(done: Ints, is_request: Bools) -> Bools:
    """Whether an answer was complete before the request in front of it."""
    before = np.append(0, done[:-1])[: len(done)]
    return ~is_request & (done < before)


def unanswered(left: Asked) -> Exchanges:
    """What waits when nothing more comes: their places are behind all packets."""
    order = np.lexsort((left.number, left.frame.side))
    left = left.of(order)
    return Exchanges(left, no_answers(len(order)), np.full(len(order), 2**62, dtype=np.int64))


def given_up(flows: Flows, found: Exchanges, waiting: Asked) -> tuple[Exchanges, Asked]:
    """The exchanges with those whose connections have ended before an answer came; and the requests that wait on."""
    flow = waiting.frame.side >> 1
    is_left = (flows.ended[flow] > 0) & flows.is_clean(flow)
    if not bool(is_left.any()):
        return found, waiting
    left = unanswered(waiting.of(np.nonzero(is_left)[0]))
    done = np.concatenate([found.done, flows.ended_number[left.flow]])
    # What a connection's last packet still answers comes in front.
    order = np.argsort(done, kind="stable")
    request = joined_asked(found.request, left.request)
    response = joined_answered(found.response, left.response)
    return Exchanges(request, response, done).of(order), waiting.of(np.nonzero(~is_left)[0])


def events(asked: Asked, answered: Answered) -> tuple[Ints, Ints]:
    """All of them flow by flow in the order of the capture: indexes (answers behind requests), and the flows."""
    flow = np.concatenate([asked.frame.side >> 1, answered.frame.side >> 1])
    done = np.concatenate([asked.frame.done, answered.frame.done])
    # A packet is of one side: what it completes stands here by its place in the stream already.
    order = np.argsort((flow << 40) | done, kind="stable")
    return order, flow[order]


def _waits(asked: Asked, met: Met) -> Ints:
    """Whether requests wait for an answer when they come."""
    waits = asked.wants_answer.copy()
    waits[met.early] = 0
    return waits


def numbered(flows: Flows, asked: Asked, met: Met) -> Asked:
    """The requests with their numbers, and how many were in flight."""
    order, flow = events(asked, met.answered)
    if not len(order):
        return asked
    own = len(asked.number)
    is_request = order < own
    wants = np.zeros(len(order), dtype=np.int64)
    wants[is_request] = _waits(asked, met)[order[is_request]]
    firsts = np.nonzero(np.append(True, flow[1:] != flow[:-1]))[0]
    counts = np.diff(np.append(firsts, len(flow)))
    rank = _running(is_request.astype(np.int64), firsts, counts)
    step = np.where(is_request, wants, -1)
    flying = _running(step, firsts, counts)
    mine = order[is_request]
    number, in_flight = np.empty(own, dtype=np.int64), np.empty(own, dtype=np.int64)
    number[mine] = (rank - 1 + flows.count[flow])[is_request]
    in_flight[mine] = (flying - step + flows.open[flow])[is_request]
    last = firsts + counts - 1
    flows.count[flow[firsts]] += rank[last]
    flows.open[flow[firsts]] += flying[last]
    return asked._replace(number=number, in_flight=in_flight)


def _running(values: Ints, firsts: Ints, counts: Ints) -> Ints:
    """Running sums within groups."""
    total = np.cumsum(values)
    before = (total - values)[firsts]
    return total - np.repeat(before, counts)


def _with_order(flows: Flows, asked: Asked, answered: Answered) -> Answered:
    """Whether each answer came in the order of the requests."""
    flow = asked.frame.side >> 1
    if not len(flow):
        return answered
    done, place = _completion(asked, answered)
    order = np.lexsort((place, done, flow))
    number, own = asked.number[order], flow[order]
    is_first = np.append(True, own[1:] != own[:-1])
    group = np.cumsum(is_first)
    apart = 1 << 40
    highest = np.maximum.accumulate(number + group * apart) - group * apart
    before = np.append(-1, highest[:-1])
    before[is_first] = -1
    before = np.maximum(before, flows.answered[own])
    is_last = np.append(is_first[1:], True)
    flows.answered[own[is_last]] = np.maximum(flows.answered[own[is_last]], highest[is_last])
    order_ok = np.empty(len(flow), dtype=np.int64)
    order_ok[order] = number > before
    return answered._replace(order_ok=order_ok)


def _completion(asked: Asked, answered: Answered) -> tuple[Ints, Ints]:
    """With which packet pairs were complete, and where in its stream that began which came last."""
    is_late = asked.frame.done > answered.frame.done
    done = np.where(is_late, asked.frame.done, answered.frame.done)
    return done, np.where(is_late, asked.frame.offset, answered.frame.offset)


def _complete(pairs: tuple[Asked, Answered], silent: Asked) -> Exchanges:
    """Pairs and requests without an answer, in the order in which they were complete."""
    asked, answered = pairs
    done, place = (
        np.concatenate(columns)
        for columns in zip(_completion(asked, answered), (silent.frame.done, silent.frame.offset), strict=True)
    )
    order = np.lexsort((place, done))
    both = joined_answered(answered, no_answers(len(silent.number)))
    return Exchanges(joined_asked(asked, silent).of(order), both.of(order), done[order])
