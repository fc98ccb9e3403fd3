"""Acknowledge types of early revisions, before gaps could be reported."""

from __future__ import annotations

from typing import Any

from mockbroker.editions.edition_route import RequestTranslator

#: Accept, release and reject: the numbers up to the third revision, and the later ones.
_RELEASED = {0: 1, 1: 2, 2: 3}
#: No valid type in any edition; it is refused like an unknown type.
_UNKNOWN = -1


def with_early_acknowledge_types(translate: RequestTranslator) -> RequestTranslator:
    """A translator of requests with early numbers, around one for the later numbers."""

    def translate_request(request: Any) -> Any:
        translated = translate(request)
        for topic in translated.topics:
            for partition in topic.partitions:
                for batch in partition.acknowledgement_batches:
                    batch.acknowledge_types = tuple(_RELEASED.get(each, _UNKNOWN) for each in batch.acknowledge_types)
        return translated

    return translate_request
