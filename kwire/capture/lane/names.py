"""The names of topics that a capture tells anywhere, found by the index: only messages that teach are decoded."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kwire import registry
from kwire.capture.bodies import Decoder
from kwire.capture.exchange import Exchange
from kwire.capture.index.segments import segments_of
from kwire.capture.lane.objects import Objects
from kwire.capture.lane.reading import Lane
from kwire.capture.pipeline import outcomes_of
from kwire.capture.topic_map import teachers
from kwire.capture.topic_names import TopicNames

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.capture.exchange import Outcome
    from kwire.capture.index import Index
    from kwire.capture.options import Options


def names_told(index: Index, options: Options) -> dict[str, str]:
    """Names by id, those of the options included: what `topic_map.names_in` finds, without a look at other bodies."""
    names = TopicNames(options.topics)
    lane = Lane(index, None, replace(options, sessions=False, bodies=False))
    try:
        taught = teachers(options.edition)
        for exchange in _exchanges(lane, index, options):
            for side in (exchange.request, exchange.response):
                if side is not None and side.name in taught and side.body is not None:
                    names.learn(side.body)
    finally:
        lane.close()
    return names.known()


def _exchanges(lane: Lane, index: Index, options: Options) -> Iterator[Exchange]:
    taught = teachers(options.edition)
    keys = [key for key in registry.API_KEYS if {f"{_name(key)}Request", f"{_name(key)}Response"} & taught]
    objects = Objects(index, Decoder(options.edition), lane.bodies, lane.clients)
    for _, found in lane.parts():
        # What has no plain header is looked at too: nobody knows yet what it is.
        chosen = np.isin(found.request.api_key, keys) | (found.request.body < 0)
        yield from (exchange for _, exchange in objects.exchanges(found.of(np.nonzero(chosen)[0])))
    slow: Iterator[Outcome] = outcomes_of(
        segments_of([index], lane.slow), replace(options, sessions=False), index.keys(options.tls_keylog)
    )
    yield from (outcome for outcome in slow if isinstance(outcome, Exchange))


def _name(key: int) -> str:
    return registry.api_name(key)
