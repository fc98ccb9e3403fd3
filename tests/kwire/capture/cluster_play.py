"""A random workload of share groups on a cluster: leaders move, nodes come and go, administrators change state."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from kwire import Client, uuids
from kwire.messages.metadata import MetadataRequest
from tests.kwire.capture.cluster_stages import ClusterStage
from tests.kwire.capture.share_kit import Json, Member, Word, ask, produce, runs_of
from tests.kwire.capture.share_play import LOCK_MS

TOPIC, PARTITIONS, GROUPS, NODES = "orders", 2, ("g", "h"), 3
NOT_LEADER = 6
#: What a workload of another kind does beside fetching, settling and letting time pass.
MOVES = ("move", "stop", "kill", "limit")
CHANGES = ("alter", "forget_offsets", "delete_group", "make_anew", "limit")
CUTS = ("cut_log",)
TRANSACTIONS = ("transact",)


class Roamer:
    """A member that follows the leaders, as clients do: by Metadata, when a broker says that it leads no more."""

    def __init__(self, play: ClusterPlay, number: int, group: str) -> None:
        self.play, self.number, self.group = play, number, group
        self.sessions: dict[int, Member] = {}
        self.leaders: dict[int, int] = {}

    def look(self) -> None:
        """Ask who leads; sessions with brokers that lead nothing any more stay as they are."""
        self.leaders = self.play.leaders(f"member-{self.number}")

    def close(self) -> None:
        """Hang up everywhere."""
        for member in self.sessions.values():
            member.client.close()
        self.sessions = {}

    def member(self, node: int) -> Member | None:
        """The session with a node; None where it cannot be reached."""
        if node not in self.sessions:
            address = self.play.addresses[node]
            try:
                self.sessions[node] = Member(address, self.number, self.group, self.play.topic_id, ())
            except OSError:
                return None
        return self.sessions[node]

    def drop(self, node: int) -> None:
        """The connection is broken."""
        self.sessions.pop(node).client.close()
        self.look()

    def heard(self, answer: Json) -> None:
        """Look again where a broker leads no more; begin a session anew where it is gone."""
        rows = [row for topic in answer["responses"] for row in topic["partitions"]]
        if any(NOT_LEADER in (row["errorCode"], row.get("acknowledgeErrorCode")) for row in rows):
            self.look()

    def fetch(self, node: int, words: dict[int, list[Word]], **more: Any) -> None:
        """Fetch what a node is believed to lead."""
        member = self.member(node)
        if member is None:
            self.look()
            return
        mine = [number for number, leader in self.leaders.items() if leader == node]
        member.partitions = mine
        new = sorted(set(mine) - member.listed) if member.epoch else []
        listed = {**{number: [] for number in new}, **(words if member.epoch else {})}
        gone = sorted(member.listed - set(mine) - set(words)) if member.epoch else []
        if gone:
            more["forgottenTopicsData"] = [{"topicId": member.topic_id, "partitions": gone}]
        try:
            answer = member.fetch(listed, **more)
        except OSError:
            self.drop(node)
            return
        member.listed = (member.listed | set(mine) | set(words)) - set(gone) if member.epoch > 1 else set(mine)
        self._heard(member, answer)

    def settle(self, node: int, words: dict[int, list[Word]], *, renews: bool = False) -> None:
        """Acknowledge, if there is a session."""
        member = self.sessions.get(node)
        if member is None or not member.epoch:
            return
        try:
            self._heard(member, member.acknowledge(words, renews=renews))
        except OSError:
            self.drop(node)

    def leave(self, node: int, words: dict[int, list[Word]]) -> None:
        """End the session with a node."""
        member = self.sessions.get(node)
        if member is None or not member.epoch:
            return
        try:
            member.leave(words)
            member.listed = set()
        except OSError:
            self.drop(node)

    def _heard(self, member: Member, answer: Json) -> None:
        if answer["errorCode"]:
            member.epoch, member.held, member.listed = 0, set(), set()
        self.heard(answer)


class ClusterPlay:
    """Drawn from a seed; `deeds` names what is done beside the usual."""

    def __init__(self, stage: ClusterStage, seed: int, deeds: Iterable[str], *, lock_ms: int = LOCK_MS) -> None:
        self.stage, self.chance, self.lock_ms = stage, random.Random(seed), lock_ms
        self.addresses = stage.addresses
        self.down: set[int] = set()
        #: Topics that are gone, and when, by the cluster's clock.
        self.gone: dict[str, int] = {}
        #: The highest log start of each partition of each topic.
        self.cuts: dict[tuple[str, int], int] = {}
        self.topic_id = ""
        self.look_up()
        self.roamers = [Roamer(self, number, GROUPS[number % 2]) for number in range(4)]
        self.deeds = [getattr(self, name) for name in deeds]
        for group in GROUPS:
            self._administer("AlterShareGroupOffsets", 0, self._offsets(group, 0))
            if self.transact in self.deeds:
                self._configure(group, "share.isolation.level", "read_committed")
        for roamer in self.roamers:
            roamer.look()

    def __enter__(self) -> ClusterPlay:
        return self

    def __exit__(self, *_: object) -> None:
        for roamer in self.roamers:
            roamer.close()

    def go(self, steps: int) -> None:
        """So many things, one after the other."""
        for partition in range(PARTITIONS):
            self.write(partition)
        usual = [self.write, self.pass_time] * 2 + [self.fetch, self.settle] * 5 + [self.renew, self.err, self.leave]
        for _ in range(steps):
            self.chance.choice(usual if self.chance.random() < 0.85 else self.deeds or usual)()
        for node in sorted(self.down):
            self.start(node)
        for roamer in self.roamers:
            roamer.look()
        for _ in range(3):
            for roamer in self.roamers:
                for node in sorted(set(roamer.leaders.values())):
                    roamer.fetch(node, {})

    # What members do.

    def write(self, partition: int | None = None) -> None:
        """A batch, at the leader."""
        at = self.chance.randrange(PARTITIONS) if partition is None else partition
        leader = self.leader(at)
        if leader in self.addresses and leader not in self.down:
            with self.client(leader) as client:
                produce(client, self.topic_id, at, self.chance.randint(1, 8))

    def fetch(self) -> None:
        """From one of the believed leaders, often with words."""
        roamer = self.chance.choice(self.roamers)
        node = roamer.leaders[self.chance.randrange(PARTITIONS)]
        if node not in self.addresses:
            roamer.look()
            return
        words = self._words(roamer, node) if self.chance.random() < 0.5 else {}
        roamer.fetch(node, words, maxRecords=self.chance.choice([1, 3, 500]), batchSize=self.chance.choice([1, 500]))

    def settle(self) -> None:
        """At a node with which there is a session."""
        self._somewhere(lambda roamer, node: roamer.settle(node, self._words(roamer, node)))

    def renew(self) -> None:
        """The same, with renewals among the words."""
        kinds = (4, 4, 4, 1, 2)
        self._somewhere(lambda roamer, node: roamer.settle(node, self._words(roamer, node, kinds), renews=True))

    def err(self) -> None:
        """Speak of what others hold, of what nobody has, or at a broker that does not lead."""
        first = self.chance.randrange(30)
        word = (first, first + self.chance.choice([0, 1, 400]), [self.chance.choice([1, 2, 3])])
        self._somewhere(lambda roamer, node: roamer.settle(node, {self.chance.randrange(PARTITIONS): [word]}))

    def leave(self) -> None:
        """End a session with a last word, or hang up without one."""
        roamer = self.chance.choice(self.roamers)
        if not roamer.sessions:
            return
        node = self.chance.choice(sorted(roamer.sessions))
        if self.chance.random() < 0.6:
            roamer.leave(node, self._words(roamer, node))
        else:
            self._hang_up(roamer, node)

    def pass_time(self) -> None:
        """Less than a lock, or more."""
        self.stage.advance(int(self.lock_ms * self.chance.choice([0.07, 0.47, 0.93, 1.07])))

    # What happens to the cluster.

    def move(self) -> None:
        """Another replica leads."""
        partition = self.chance.randrange(PARTITIONS)
        to = self.chance.choice(sorted(set(self.addresses) - self.down))
        if to != self.leader(partition):
            self.stage.move(TOPIC, partition, to=to)
        # Whoever moves leaders looks whether they have; a way there and back that nobody sees leaves no trace.
        self.leaders("admin")

    def stop(self) -> None:
        """A node stops in good order, or one that is down starts again."""
        self._end(self.stage.stop)

    def kill(self) -> None:
        """A node dies; the others find out when its session is over."""
        self._end(self.stage.kill)
        self.leaders("admin")

    def _end(self, how: Any) -> None:
        if self.down:
            self.start(min(self.down))
            return
        node = self.chance.choice(sorted(self.addresses))
        how(node)
        self.down.add(node)
        for roamer in self.roamers:
            if node in roamer.sessions:
                roamer.drop(node)

    def start(self, node: int) -> None:
        """A node comes back."""
        self.stage.start(node)
        self.down.discard(node)
        self.leaders("admin")

    def alter(self) -> None:
        """Another start offset, of a group whose members have left."""
        group = self._emptied()
        self._administer("AlterShareGroupOffsets", 0, self._offsets(group, self.chance.randrange(9)))

    def forget_offsets(self) -> None:
        """DeleteShareGroupOffsets."""
        body = {"groupId": (group := self._emptied()), "topics": [{"topicName": TOPIC}]}
        self._administer("DeleteShareGroupOffsets", 0, body)
        self._administer("AlterShareGroupOffsets", 0, self._offsets(group, 0))

    def delete_group(self) -> None:
        """DeleteGroups, and the same name again."""
        group = self._emptied()
        self._administer("DeleteGroups", 2, {"groupsNames": [group]}, group)
        self._administer("AlterShareGroupOffsets", 0, self._offsets(group, 0))

    def _emptied(self) -> str:
        """A group that has no members any more: some said so, others hung up."""
        group = self.chance.choice(GROUPS)
        for roamer in self.roamers:
            for node in sorted(roamer.sessions) if roamer.group == group else ():
                if self.chance.random() < 0.7:
                    roamer.leave(node, self._words(roamer, node))
                if node in roamer.sessions:
                    self._hang_up(roamer, node)
        return group

    def _hang_up(self, roamer: Roamer, node: int) -> None:
        member = roamer.sessions.pop(node)
        member.client.close()
        self.stage.until_gone(node, member)

    def cut_log(self) -> None:
        """DeleteRecords up to somewhere."""
        at = self.chance.randrange(PARTITIONS)
        leader = self.leader(at)
        if leader in self.addresses and leader not in self.down:
            row = {"partitionIndex": at, "offset": self.chance.randrange(12)}
            topics = [{"name": TOPIC, "partitions": [row]}]
            with self.client(leader) as client:
                answer = ask(client, "DeleteRecords", 2, {"topics": topics, "timeoutMs": 1_000})
            start = answer["topics"][0]["partitions"][0]["lowWatermark"]
            self.cuts[self.topic_id, at] = max(start, self.cuts.get((self.topic_id, at), 0))

    def make_anew(self) -> None:
        """The topic is deleted, and another of its name is made."""
        with self.client() as client:
            ask(
                client,
                "DeleteTopics",
                6,
                {"topics": [{"name": TOPIC, "topicId": "AAAAAAAAAAAAAAAAAAAAAA"}], "timeoutMs": 5_000},
            )
        self.gone[self.topic_id] = self.stage.now_ms()
        self.stage.create_topic(TOPIC, PARTITIONS)
        self.look_up()
        for roamer in self.roamers:
            roamer.close()
            roamer.look()
        for group in GROUPS:
            self._administer("AlterShareGroupOffsets", 0, self._offsets(group, 0))

    def limit(self) -> None:
        """Another delivery-count limit of a group."""
        self._configure(self.chance.choice(GROUPS), "share.delivery.count.limit", str(self.chance.randint(2, 4)))

    def transact(self) -> None:
        """A transaction that is committed, or is not."""
        from confluent_kafka import Producer

        up = ",".join(self.addresses[node] for node in sorted(set(self.addresses) - self.down))
        producer = Producer({"bootstrap.servers": up, "transactional.id": "t", "log_level": 0})
        producer.init_transactions(20)
        producer.begin_transaction()
        at = self.chance.randrange(PARTITIONS)
        for _ in range(self.chance.randint(1, 4)):
            producer.produce(TOPIC, b"v", partition=at)
        producer.flush(20)
        if self.chance.random() < 0.5:
            producer.commit_transaction(20)
        else:
            producer.abort_transaction(20)

    def _configure(self, group: str, name: str, value: str) -> None:
        config = {"name": name, "configOperation": 0, "value": value}
        resource = {"resourceType": 32, "resourceName": group, "configs": [config]}
        with self.client() as client:
            ask(client, "IncrementalAlterConfigs", 1, {"resources": [resource]})

    # Asking.

    def client(self, node: int | None = None) -> Client:
        """A connection of an administrator's own."""
        return Client(self.addresses[node or min(set(self.addresses) - self.down)], client_id="admin")

    def leaders(self, client_id: str) -> dict[int, int]:
        """What Metadata says, asked as a member."""
        with Client(self.addresses[min(set(self.addresses) - self.down)], client_id=client_id) as client:
            topics = client.send(MetadataRequest(topics=None)).topics
        rows = next(each.partitions for each in topics if each.name == TOPIC)
        return {row.partition_index: row.leader_id for row in rows}

    def look_up(self) -> None:
        """The topic's id."""
        with self.client() as client:
            topics = client.send(MetadataRequest(topics=None)).topics
        self.topic_id = next(uuids.to_text(each.topic_id) for each in topics if each.name == TOPIC)

    def leader(self, partition: int) -> int:
        """Who leads."""
        return self.leaders("admin")[partition]

    def describe(self, group: str) -> Json:
        """What DescribeShareGroupOffsets says of a group."""
        topics = [{"topicName": TOPIC, "partitions": list(range(PARTITIONS))}]
        return self._administer(
            "DescribeShareGroupOffsets", 1, {"groups": [{"groupId": group, "topics": topics}]}, group
        )

    def _administer(self, name: str, version: int, body: Json, group: str | None = None) -> Json:
        who = group or body["groupId"]
        with self.client() as client:
            found = ask(client, "FindCoordinator", 6, {"keyType": 0, "coordinatorKeys": [who]})
        node = found["coordinators"][0]["nodeId"]
        if node not in self.addresses or node in self.down:
            return {}
        with self.client(node) as client:
            return ask(client, name, version, body)

    def _offsets(self, group: str, start: int) -> Json:
        rows = [{"partitionIndex": index, "startOffset": start} for index in range(PARTITIONS)]
        return {"groupId": group, "topics": [{"topicName": TOPIC, "partitions": rows}]}

    def _somewhere(self, deed: Any) -> None:
        roamer = self.chance.choice(self.roamers)
        if roamer.sessions:
            deed(roamer, self.chance.choice(sorted(roamer.sessions)))

    def _words(self, roamer: Roamer, node: int, kinds: Iterable[int] = (1, 1, 1, 2, 2, 3, 0)) -> dict[int, list[Word]]:
        """Something about some of what is believed to be held of a node."""
        member = roamer.sessions.get(node)
        words: dict[int, list[Word]] = {}
        if member is None or not member.epoch:
            return words
        for partition in range(PARTITIONS):
            held = sorted(offset for number, offset in member.held if number == partition)
            chosen = [offset for offset in held if self.chance.random() < 0.6]
            for first, last in runs_of(chosen):
                size = last - first + 1 if self.chance.random() < 0.5 else 1
                words.setdefault(partition, []).append(
                    (first, last, [self.chance.choice(list(kinds)) for _ in range(size)])
                )
            if 4 not in kinds:
                member.held -= {(partition, offset) for offset in chosen}
        return words
