"""A random workload of share groups on a cluster, with leader changes, restarts and changes by administrators."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from kwire import Client, uuids
from kwire.messages.metadata import MetadataRequest
from tests.support.brokers.captured_share_members import Acknowledgements, Json, produce, send_json
from tests.support.brokers.cluster_member import ClusterMember
from tests.support.brokers.cluster_targets import ClusterTarget
from tests.support.brokers.share_workload import ACKNOWLEDGE_TYPES, LOCK_MS, RENEWING_TYPES, random_acknowledgements

TOPIC, PARTITIONS, GROUPS, NODES = "orders", 2, ("g", "h"), 3
#: Names of additional actions for workloads of different kinds.
LEADER_CHANGES = ("move_leader", "stop_node", "kill_node", "set_delivery_limit")
ADMIN_CHANGES = ("alter_offsets", "delete_offsets", "delete_group", "recreate_topic", "set_delivery_limit")
RECORD_DELETIONS = ("delete_records",)
TRANSACTIONS = ("run_transaction",)


class ClusterWorkload:
    """Random actions of a seed; `additional_actions` has the names of actions in addition to those of members."""

    def __init__(
        self, target: ClusterTarget, seed: int, additional_actions: Iterable[str], *, lock_ms: int = LOCK_MS
    ) -> None:
        self.target, self.random, self.lock_ms = target, random.Random(seed), lock_ms
        self.addresses = target.addresses
        self.down: set[int] = set()
        #: Deleted topics with the times of their deletion, by the cluster's clock.
        self.deleted_topics: dict[str, int] = {}
        #: The highest log start offset of each partition of each topic.
        self.log_starts: dict[tuple[str, int], int] = {}
        self.topic_id = ""
        self.read_topic_id()
        self.members = [ClusterMember(self, number, GROUPS[number % 2]) for number in range(4)]
        self.additional_actions = [getattr(self, name) for name in additional_actions]
        for group in GROUPS:
            self._administer("AlterShareGroupOffsets", 0, self._offsets(group, 0))
            if self.run_transaction in self.additional_actions:
                self._configure(group, "share.isolation.level", "read_committed")
        for member in self.members:
            member.refresh_leaders()

    def __enter__(self) -> ClusterWorkload:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.close()

    def run(self, steps: int) -> None:
        """Run a number of actions."""
        for partition in range(PARTITIONS):
            self.produce_batch(partition)
        usual = (
            [self.produce_batch, self.pass_time] * 2
            + [self.fetch, self.acknowledge] * 5
            + [self.renew, self.acknowledge_wrongly, self.close_session]
        )
        for _ in range(steps):
            self.random.choice(usual if self.random.random() < 0.85 else self.additional_actions or usual)()
        for node in sorted(self.down):
            self.start(node)
        for member in self.members:
            member.refresh_leaders()
        for _ in range(3):
            for member in self.members:
                for node in sorted(set(member.leaders.values())):
                    member.fetch(node, {})

    # Actions of members.

    def produce_batch(self, partition: int | None = None) -> None:
        """Produce a batch on the leader."""
        at = self.random.randrange(PARTITIONS) if partition is None else partition
        leader = self.leader(at)
        if leader in self.addresses and leader not in self.down:
            with self.client(leader) as client:
                produce(client, self.topic_id, at, self.random.randint(1, 8))

    def fetch(self) -> None:
        """Fetch from one of the known leaders, often with acknowledgements."""
        member = self.random.choice(self.members)
        node = member.leaders[self.random.randrange(PARTITIONS)]
        if node not in self.addresses:
            member.refresh_leaders()
            return
        acknowledgements = self._random_acknowledgements(member, node) if self.random.random() < 0.5 else {}
        most, size = self.random.choice([1, 3, 500]), self.random.choice([1, 500])
        member.fetch(node, acknowledgements, maxRecords=most, batchSize=size)

    def acknowledge(self) -> None:
        """Acknowledge on a node with a session."""
        self._on_any_session(lambda member, node: member.acknowledge(node, self._random_acknowledgements(member, node)))

    def renew(self) -> None:
        """Acknowledge with renewals."""

        def renew(member: ClusterMember, node: int) -> None:
            member.acknowledge(node, self._random_acknowledgements(member, node, RENEWING_TYPES), renews=True)

        self._on_any_session(renew)

    def acknowledge_wrongly(self) -> None:
        """Acknowledge records that others acquired, that nobody acquired, or on a broker that is not the leader."""
        first = self.random.randrange(30)
        acknowledgement = (first, first + self.random.choice([0, 1, 400]), [self.random.choice([1, 2, 3])])
        self._on_any_session(
            lambda member, node: member.acknowledge(node, {self.random.randrange(PARTITIONS): [acknowledgement]})
        )

    def close_session(self) -> None:
        """Close a session with acknowledgements, or only its connection."""
        member = self.random.choice(self.members)
        if not member.sessions:
            return
        node = self.random.choice(sorted(member.sessions))
        if self.random.random() < 0.6:
            member.close_session(node, self._random_acknowledgements(member, node))
        else:
            self._disconnect(member, node)

    def pass_time(self) -> None:
        """Advance the time by less or more than the lock duration."""
        self.target.advance(int(self.lock_ms * self.random.choice([0.07, 0.47, 0.93, 1.07])))

    # Actions on the cluster.

    def move_leader(self) -> None:
        """Make another replica the leader."""
        partition = self.random.randrange(PARTITIONS)
        to = self.random.choice(sorted(set(self.addresses) - self.down))
        if to != self.leader(partition):
            self.target.move_leader(TOPIC, partition, to=to)
        # Metadata is read after each change: two changes without Metadata in between are not in the capture.
        self.leaders("admin")

    def stop_node(self) -> None:
        """Shut a node down, or start one that is down."""
        self._end(self.target.stop)

    def kill_node(self) -> None:
        """Kill a node; the others detect it when its broker session ends."""
        self._end(self.target.kill)
        self.leaders("admin")

    def _end(self, how: Any) -> None:
        if self.down:
            self.start(min(self.down))
            return
        node = self.random.choice(sorted(self.addresses))
        how(node)
        self.down.add(node)
        for member in self.members:
            if node in member.sessions:
                member.drop(node)

    def start(self, node: int) -> None:
        """Start a node."""
        self.target.start(node)
        self.down.discard(node)
        self.leaders("admin")

    def alter_offsets(self) -> None:
        """Alter the start offsets of a group after its members have left."""
        group = self._empty_group()
        self._administer("AlterShareGroupOffsets", 0, self._offsets(group, self.random.randrange(9)))

    def delete_offsets(self) -> None:
        """DeleteShareGroupOffsets."""
        body = {"groupId": (group := self._empty_group()), "topics": [{"topicName": TOPIC}]}
        self._administer("DeleteShareGroupOffsets", 0, body)
        self._administer("AlterShareGroupOffsets", 0, self._offsets(group, 0))

    def delete_group(self) -> None:
        """DeleteGroups, then a group of the same name."""
        group = self._empty_group()
        self._administer("DeleteGroups", 2, {"groupsNames": [group]}, group)
        self._administer("AlterShareGroupOffsets", 0, self._offsets(group, 0))

    def _empty_group(self) -> str:
        """A group whose members have left: some closed their session, others only the connection."""
        group = self.random.choice(GROUPS)
        for member in self.members:
            for node in sorted(member.sessions) if member.group == group else ():
                if self.random.random() < 0.7:
                    member.close_session(node, self._random_acknowledgements(member, node))
                if node in member.sessions:
                    self._disconnect(member, node)
        return group

    def _disconnect(self, member: ClusterMember, node: int) -> None:
        session = member.sessions.pop(node)
        session.client.close()
        self.target.wait_for_disconnect(node, session)

    def delete_records(self) -> None:
        """DeleteRecords up to a random offset."""
        at = self.random.randrange(PARTITIONS)
        leader = self.leader(at)
        if leader in self.addresses and leader not in self.down:
            row = {"partitionIndex": at, "offset": self.random.randrange(12)}
            topics = [{"name": TOPIC, "partitions": [row]}]
            with self.client(leader) as client:
                response = send_json(client, "DeleteRecords", 2, {"topics": topics, "timeoutMs": 1_000})
            start = response["topics"][0]["partitions"][0]["lowWatermark"]
            self.log_starts[self.topic_id, at] = max(start, self.log_starts.get((self.topic_id, at), 0))

    def recreate_topic(self) -> None:
        """Delete the topic, and create another with the same name."""
        with self.client() as client:
            topics = [{"name": TOPIC, "topicId": "AAAAAAAAAAAAAAAAAAAAAA"}]
            send_json(client, "DeleteTopics", 6, {"topics": topics, "timeoutMs": 5_000})
        self.deleted_topics[self.topic_id] = self.target.now_ms()
        self.target.create_topic(TOPIC, PARTITIONS)
        self.read_topic_id()
        for member in self.members:
            member.close()
            member.refresh_leaders()
        for group in GROUPS:
            self._administer("AlterShareGroupOffsets", 0, self._offsets(group, 0))

    def set_delivery_limit(self) -> None:
        """Set the delivery-count limit of a group."""
        self._configure(self.random.choice(GROUPS), "share.delivery.count.limit", str(self.random.randint(2, 4)))

    def run_transaction(self) -> None:
        """Commit or abort a transaction."""
        from confluent_kafka import Producer

        addresses = ",".join(self.addresses[node] for node in sorted(set(self.addresses) - self.down))
        producer = Producer({"bootstrap.servers": addresses, "transactional.id": "t", "log_level": 0})
        producer.init_transactions(20)
        producer.begin_transaction()
        at = self.random.randrange(PARTITIONS)
        for _ in range(self.random.randint(1, 4)):
            producer.produce(TOPIC, b"v", partition=at)
        producer.flush(20)
        (producer.commit_transaction if self.random.random() < 0.5 else producer.abort_transaction)(20)

    def _configure(self, group: str, name: str, value: str) -> None:
        config = {"name": name, "configOperation": 0, "value": value}
        resource = {"resourceType": 32, "resourceName": group, "configs": [config]}
        with self.client() as client:
            send_json(client, "IncrementalAlterConfigs", 1, {"resources": [resource]})

    # Requests of administrators.

    def client(self, node: int | None = None) -> Client:
        """A new connection of an administrator."""
        return Client(self.addresses[node or min(set(self.addresses) - self.down)], client_id="admin")

    def leaders(self, client_id: str) -> dict[int, int]:
        """The leaders by Metadata, with the client id of a member."""
        with Client(self.addresses[min(set(self.addresses) - self.down)], client_id=client_id) as client:
            topics = client.send(MetadataRequest(topics=None)).topics
        rows = next(topic.partitions for topic in topics if topic.name == TOPIC)
        return {row.partition_index: row.leader_id for row in rows}

    def read_topic_id(self) -> None:
        """Read the id of the topic."""
        with self.client() as client:
            topics = client.send(MetadataRequest(topics=None)).topics
        self.topic_id = next(uuids.to_text(topic.topic_id) for topic in topics if topic.name == TOPIC)

    def leader(self, partition: int) -> int:
        """The leader of a partition."""
        return self.leaders("admin")[partition]

    def describe(self, group: str) -> Json:
        """The DescribeShareGroupOffsets response for a group."""
        topics = [{"topicName": TOPIC, "partitions": list(range(PARTITIONS))}]
        body = {"groups": [{"groupId": group, "topics": topics}]}
        return self._administer("DescribeShareGroupOffsets", 1, body, group)

    def _administer(self, name: str, version: int, body: Json, group: str | None = None) -> Json:
        coordinator_key = group or body["groupId"]
        with self.client() as client:
            found = send_json(client, "FindCoordinator", 6, {"keyType": 0, "coordinatorKeys": [coordinator_key]})
        node = found["coordinators"][0]["nodeId"]
        if node not in self.addresses or node in self.down:
            return {}
        with self.client(node) as client:
            return send_json(client, name, version, body)

    def _offsets(self, group: str, start: int) -> Json:
        rows = [{"partitionIndex": index, "startOffset": start} for index in range(PARTITIONS)]
        return {"groupId": group, "topics": [{"topicName": TOPIC, "partitions": rows}]}

    def _on_any_session(self, action: Any) -> None:
        member = self.random.choice(self.members)
        if member.sessions:
            action(member, self.random.choice(sorted(member.sessions)))

    def _random_acknowledgements(
        self, member: ClusterMember, node: int, types: Iterable[int] = ACKNOWLEDGE_TYPES
    ) -> Acknowledgements:
        session = member.sessions.get(node)
        return random_acknowledgements(self.random, session, types) if session is not None and session.epoch else {}
