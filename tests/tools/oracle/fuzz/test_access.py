"""Random access control lists of a sequence."""

from __future__ import annotations

import random

from tools.oracle.fuzz.access import make_creations
from tools.oracle.fuzz.script_names import TOPICS


def test_all_resources_belong_to_the_sequence() -> None:
    rng = random.Random(1)
    creations = [row for _ in range(50) for row in make_creations(rng, TOPICS)]

    assert {row["resourceType"] for row in creations} == {2, 3, 5}
    assert all(row["resourceName"].endswith("-${run}") for row in creations)
