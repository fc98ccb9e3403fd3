"""Acknowledgements as they were numbered before gaps could be reported."""

from __future__ import annotations

from typing import Any

from mockbroker.editions.dialect import Arrive

#: Accept, release, reject, by what they were numbered up to the third revision, and are since.
_RELEASED = {0: 1, 1: 2, 2: 3}
#: What no edition takes for a type; it is refused where an unknown one is.
_UNKNOWN = -1


def with_early_types(arrive: Arrive) -> Arrive:
    """A request with the early numbers, as `arrive` makes it of the later ones."""

    def arrived(request: Any) -> Any:
        asked = arrive(request)
        for topic in asked.topics:
            for partition in topic.partitions:
                for batch in partition.acknowledgement_batches:
                    batch.acknowledge_types = tuple(_RELEASED.get(each, _UNKNOWN) for each in batch.acknowledge_types)
        return asked

    return arrived
