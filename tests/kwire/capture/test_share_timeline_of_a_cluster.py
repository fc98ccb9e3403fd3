"""`share_timeline` where leaders move, nodes come and go, and the state is changed by administrators."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from kwire.capture.pipeline import rows
from kwire.capture.rows import Row
from kwire.capture.share_timeline import share_timeline
from kwire.uuids import to_text
from mockbroker import Cluster
from mockbroker.inside import Happening, State
from mockbroker.server import Server
from mockbroker.state.share_history import NO_END, Note
from tests.kwire.capture.cluster_play import (
    CHANGES,
    CUTS,
    GROUPS,
    MOVES,
    NODES,
    PARTITIONS,
    TOPIC,
    TRANSACTIONS,
    ClusterPlay,
)
from tests.kwire.capture.cluster_stages import MockClusterStage
from tests.kwire.capture.share_lives import Lives, lives_of_notes, lives_of_timeline, whole_number
from tests.kwire.capture.share_play import LOCK_MS

STEPS = 120
Place = tuple[str, str, int]


def histories_of(server: Server, play: ClusterPlay) -> dict[Place, Lives]:
    """What happened to the records of every share partition, those of topics that are gone too."""
    by_key: dict[tuple[str, bytes, int], list[Note]] = defaultdict(list)
    for note in server.core.state.kept.share_history:
        group, topic, index = cast(tuple[str, bytes, int], note.key)
        by_key[group, topic, index].append(note)
    found = {}
    for (group, topic, index), notes in by_key.items():
        topic_id = to_text(topic)
        until_ms = play.gone.get(topic_id, NO_END)
        if lives := lives_of_notes(of_leaders(note for note in notes if note.at_ms <= until_ms)):
            found[group, topic_id, index] = lives
    return found


def of_leaders(notes: Iterable[Note]) -> Iterator[Note]:
    """Without what goes on in the memory of a leader behind the next one's back: its locks still run out there."""
    held: dict[int, tuple[str, int]] = {}
    for note in notes:
        offsets = range(note.first, note.last + 1) if note.last < NO_END else ()
        if note.happening is Happening.LOADED:
            held = {} if note.last == NO_END else held
        elif note.happening is Happening.EXPIRED:
            member_id, since_ms = held.get(note.first, ("", 0))
            if member_id != note.member_id or note.at_ms < since_ms + LOCK_MS:
                continue
        for offset in offsets:
            held[offset] = (note.member_id, note.at_ms) if note.state is State.ACQUIRED else ("", 0)
        yield note


def timelines_of(path: Path, stage: MockClusterStage) -> dict[Place, list[Row]]:
    messages, flows = ([stage.told(row) for row in rows(path, level)] for level in ("messages", "flows"))
    found: dict[Place, list[Row]] = defaultdict(list)
    for row in share_timeline(messages, flows):
        found[str(row["group_id"]), str(row["topic_id"]), whole_number(row["partition"])].append(row)
    return found


class Played(NamedTuple):
    """What the mock knows of its share partitions at the end, and what a capture tells of them."""

    histories: dict[Place, Lives]
    timelines: dict[Place, list[Row]]
    described: dict[Place, int]
    """Start offsets, by DescribeShareGroupOffsets."""
    cuts: dict[tuple[str, int], int]
    """The highest log start that was asked for."""


def played(path: Path, seed: int, deeds: tuple[str, ...]) -> Played:
    properties = {"group.share.record.lock.duration.ms": LOCK_MS, "default.replication.factor": NODES}
    cluster = Cluster(nodes=NODES, topics={TOPIC: PARTITIONS}, properties=properties, seed=seed, capture=path)
    with cluster, ClusterPlay(stage := MockClusterStage(cluster), seed, deeds) as play:
        play.go(STEPS)
        described = {
            (group, topic["topicId"], row["partitionIndex"]): row["startOffset"]
            for group in GROUPS
            for topic in play.describe(group)["groups"][0]["topics"]
            for row in topic["partitions"]
        }
        histories = cluster.run(lambda server: histories_of(server, play))
        return Played(histories, timelines_of(path, stage), described, play.cuts)


def compare(one: Played) -> None:
    """What lies below a log start nobody asks for again: when it goes, no message shows."""
    for place, expected in one.histories.items():
        found = lives_of_timeline(one.timelines[place])
        cut = one.cuts.get(place[1:], 0)
        for offset in sorted(expected.keys() | found.keys()):
            assert offset < cut or found.get(offset) == expected.get(offset), f"{place}, offset {offset}"
    assert one.histories


@pytest.mark.parametrize("seed", range(8))
def test_where_leaders_move_the_timeline_is_the_history(seed: int, tmp_path: Path) -> None:
    compare(played(tmp_path / "share.pcapng", seed, MOVES))


@pytest.mark.parametrize("seed", range(8))
def test_where_state_is_changed_the_timeline_is_the_history(seed: int, tmp_path: Path) -> None:
    one = played(tmp_path / "share.pcapng", seed, CHANGES)

    compare(one)
    assert {place: one.timelines[place][-1]["stored_start_offset"] for place in one.described} == one.described


@pytest.mark.parametrize("seed", range(4))
def test_above_what_the_log_has_cut_off_the_timeline_is_the_history(seed: int, tmp_path: Path) -> None:
    compare(played(tmp_path / "share.pcapng", seed, CUTS))


@pytest.mark.client
@pytest.mark.parametrize("seed", range(3))
def test_where_transactions_are_aborted_the_timeline_tells_what_is_given(seed: int, tmp_path: Path) -> None:
    compare(played(tmp_path / "share.pcapng", seed, TRANSACTIONS))
