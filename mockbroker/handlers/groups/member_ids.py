"""Member ids that the broker generates."""

from __future__ import annotations

import random
from uuid import UUID

from kwire import uuids


def random_uuid(rng: random.Random) -> str:
    """A random UUID as Java writes it, with dashes; from the cluster's seed."""
    return str(UUID(int=rng.getrandbits(128), version=4))


def random_kafka_uuid(rng: random.Random) -> str:
    """A random UUID as Kafka writes it, 22 characters; like Kafka's, none begins with a dash."""
    while True:
        text = uuids.to_text(UUID(int=rng.getrandbits(128), version=4).bytes)
        if not text.startswith("-"):
            return text
