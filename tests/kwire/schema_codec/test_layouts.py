"""The layouts and the generated code read all golden vectors of Kafka alike."""

from __future__ import annotations

from collections import defaultdict

import pytest

import kwire
from kwire.layout import describe_bytes
from kwire.schema import EDITIONS, RELEASES, load_schema, message_names, own_message_names
from tests.support.messages.golden_vectors import WITHOUT_VECTORS, Vector, all_vectors
from tests.support.messages.layout_agreement import disagreements

pytestmark = pytest.mark.slow


def by_message() -> dict[tuple[str, str], list[Vector]]:
    found: dict[tuple[str, str], list[Vector]] = defaultdict(list)
    for vector in all_vectors():
        found[vector.edition, vector.message].append(vector)
    return found


@pytest.mark.parametrize(("edition", "name"), sorted(by_message()))
def test_values_agree_with_the_generated_code_and_ranges_cover_every_byte_once(edition: str, name: str) -> None:
    for vector in by_message()[edition, name]:
        tree = describe_bytes(name, vector.version, vector.raw, edition=edition)

        assert disagreements(tree, kwire.decode(name, vector.version, vector.raw, edition=edition)) == []
        end = 0
        for leaf in tree.root.leaves():
            assert leaf.start == end, leaf.path
            end = leaf.end
        assert end == len(vector.raw)


@pytest.mark.parametrize(("edition", "name"), sorted(by_message()))
def test_a_node_covers_exactly_its_children(edition: str, name: str) -> None:
    for vector in by_message()[edition, name]:
        for node in describe_bytes(name, vector.version, vector.raw, edition=edition).root.walk():
            if node.children:
                assert (node.start, node.end) == (node.children[0].start, node.children[-1].end), node.path


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
