"""The second opinion: on everything Kafka wrote, the layouts and the generated code must read the same."""

from __future__ import annotations

from collections import defaultdict

import pytest

import kwire
from kwire.layout import describe_bytes
from kwire.schema import EDITIONS, load, own_names
from tests.kwire.codec.golden import WITHOUT_VECTORS
from tests.kwire.layout.agreement import Vector, disagreements, vectors


def by_message() -> dict[tuple[str, str], list[Vector]]:
    found: dict[tuple[str, str], list[Vector]] = defaultdict(list)
    for vector in vectors():
        found[vector.edition, vector.message].append(vector)
    return found


@pytest.mark.parametrize(("edition", "name"), sorted(by_message()))
def test_values_agree_with_the_generated_code_and_ranges_cover_every_byte_once(edition: str, name: str) -> None:
    for vector in by_message()[edition, name]:
        tree = describe_bytes(name, vector.version, vector.data, edition=edition)

        assert disagreements(tree, kwire.decode(name, vector.version, vector.data, edition=edition)) == []
        end = 0
        for leaf in tree.root.leaves():
            assert leaf.start == end, leaf.path
            end = leaf.end
        assert end == len(vector.data)


@pytest.mark.parametrize(("edition", "name"), sorted(by_message()))
def test_a_node_covers_exactly_its_children(edition: str, name: str) -> None:
    for vector in by_message()[edition, name]:
        for node in describe_bytes(name, vector.version, vector.data, edition=edition).root.walk():
            if node.children:
                assert (node.start, node.end) == (node.children[0].start, node.children[-1].end), node.path


def test_there_are_vectors_for_every_message_and_version_but_those_named_here() -> None:
    have = {(vector.edition, vector.message, vector.version) for vector in vectors()}
    # Nobody but the pages of KIP-932 has ever written its drafts.
    want = {
        (edition, name, version)
        for edition in EDITIONS
        if not edition.startswith("kip932-")
        for name in own_names(edition)
        for version in load(name, edition).versions.each()
    }

    # What a version that Kafka reads and never writes, and the records of 4.0.0, stand on is said there.
    without = {(edition, *one) for edition, some in WITHOUT_VECTORS.items() for one in some}
    assert want - have == without
