"""The layouts and the generated code read all golden vectors of Kafka alike."""

from __future__ import annotations

from collections import defaultdict
from functools import cache

import pytest

import kwire
from kwire.layout import describe_bytes
from kwire.schema import EDITIONS, RELEASES, load_schema, message_names, own_message_names
from tests.support.cases import check_cases
from tests.support.messages.golden_vectors import WITHOUT_VECTORS, Vector, all_vectors
from tests.support.messages.layout_agreement import disagreements

pytestmark = pytest.mark.slow


@cache
def by_edition() -> dict[str, list[Vector]]:
    found: dict[str, list[Vector]] = defaultdict(list)
    for vector in all_vectors():
        found[vector.edition].append(vector)
    return found


@pytest.mark.parametrize("edition", sorted(by_edition()))
def test_values_agree_with_the_generated_code_and_ranges_cover_every_byte_once(edition: str) -> None:
    def check(vector: Vector) -> None:
        tree = describe_bytes(vector.message, vector.version, vector.raw, edition=edition)

        assert disagreements(tree, kwire.decode(vector.message, vector.version, vector.raw, edition=edition)) == []
        end = 0
        for leaf in tree.root.leaves():
            assert leaf.start == end, leaf.path
            end = leaf.end
        assert end == len(vector.raw)

    check_cases(by_edition()[edition], check)


@pytest.mark.parametrize("edition", sorted(by_edition()))
def test_a_node_covers_exactly_its_children(edition: str) -> None:
    def check(vector: Vector) -> None:
        for node in describe_bytes(vector.message, vector.version, vector.raw, edition=edition).root.walk():
            if node.children:
                assert (node.start, node.end) == (node.children[0].start, node.children[-1].end), node.path

    check_cases(by_edition()[edition], check)


def test_there_are_vectors_for_every_message_and_version_except_those_listed() -> None:
    have = {(vector.edition, vector.message, vector.version) for vector in all_vectors()}
    # The drafts of KIP-932 were never implemented, so there are no vectors.
    want = {
        (edition, name, version)
        for edition in EDITIONS
        if not edition.startswith("kip932-")
        for name in (message_names(edition) if edition in RELEASES else own_message_names(edition))
        for version in load_schema(name, edition).versions.to_range()
    }

    # golden_vectors documents what covers the others.
    without = {(edition, *one) for edition, some in WITHOUT_VECTORS.items() for one in some}
    assert want - have == without
