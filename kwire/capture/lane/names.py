"""The names of topics that a capture tells anywhere, found by the index: only messages that teach are decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kwire.capture.bodies import Decoder
from kwire.capture.exchange import Exchange
from kwire.capture.index.segments import segments_of
from kwire.capture.lane.objects import Objects
from kwire.capture.lane.reading import Lane
from kwire.capture.pipeline import outcomes_of
from kwire.capture.topic_map import for_names, learn_from, teachers
from kwire.capture.topic_names import TopicNames

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.capture.exchange import Outcome
    from kwire.capture.index import Index
    from kwire.capture.options import Options


def names_told(index: Index, options: Options) -> dict[str, str]:
    """Names by id, those of the options included: what `topic_map.names_decoded` finds, by a look at fewer bodies."""
    names = TopicNames(options.topics)
    wanted = for_names(options)
    lane = Lane(index, None, wanted)
    try:
        for exchange in _exchanges(lane, index, wanted):
            learn_from(exchange, names, options.edition)
    finally:
        lane.close()
    return names.known()


def _exchanges(lane: Lane, index: Index, options: Options) -> Iterator[Exchange]:
    decoder = Decoder(options.edition, teachers(options.edition))
    objects = Objects(index, decoder, lane.bodies, lane.clients)
    keys = decoder.api_keys()
    for _, found in lane.parts():
        # What has no plain header is looked at too: nobody knows yet what it is.
        chosen = np.isin(found.request.api_key, keys) | (found.request.body < 0)
        yield from (exchange for _, exchange in objects.exchanges(found.of(np.nonzero(chosen)[0])))
    keys_of_tls = index.keys(options.tls_keylog)
    slow: Iterator[Outcome] = outcomes_of(segments_of([index], lane.slow), options, keys_of_tls)
    yield from (outcome for outcome in slow if isinstance(outcome, Exchange))
