"""Random share-group traffic as scripts: two members fetch, acknowledge, leave and rejoin.

The requests are random, the responses are not: nothing in the scripts depends on time. `random_script_kinds.py` has
further kinds, and the command that writes them.
"""

from __future__ import annotations

import random
from typing import Any

Step = dict[str, Any]
CONNECTIONS = {"m1": "a", "m2": "b"}


class RandomScript:
    """Builder of one script. `end`: the end of the log; `low`: the lowest offset to acknowledge."""

    KIND = "random"
    BROKER = "common"
    DESCRIPTION = "two members fetch, acknowledge and reopen at random"
    LENGTH = (18, 32)

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.delivery_limit = self.rng.choice([2, 3, 4, 5, 5, 6])
        self.is_crowded = self.rng.random() < 0.3
        self.end = self.low = 0
        self.epochs = {"m1": 0, "m2": 0}
        self.steps: list[Step] = []

    def build(self) -> Step:
        """The whole script."""
        self._add_setup()
        for _ in range(self.rng.randrange(*self.LENGTH)):
            self._add_random_step(self.rng.random(), self.rng.choice(["m1", "m1", "m2"]))
        self._add_final_steps()
        broker = {} if self.BROKER == "common" else {"broker": self.BROKER}
        return {
            "name": f"share-{self.KIND}-{self.seed:04d}",
            "about": f"Generated: {self.DESCRIPTION}, delivery limit {self.delivery_limit}.",
            "properties": {},
            "nodes": 1,
            **broker,
            "steps": self.steps,
        }

    def _add_final_steps(self) -> None:
        """Read the final state from the group coordinator and the share coordinator."""
        self._add_request("a", "DescribeShareGroupOffsets", 1, {"groups": [{"groupId": "g-${run}", "topics": None}]})
        rows = [{"topicId": "${t}", "partitions": [{"partition": 0, "leaderEpoch": 0}]}]
        self._add_request("a", "ReadShareGroupState", 0, {"groupId": "g-${run}", "topics": rows})

    def _add_request(self, connection: str, api: str, version: int, body: Step, **words: Any) -> None:
        self.steps.append({"conn": connection, "api": api, "version": version, "body": body, **words})

    def _add_setup(self) -> None:
        topic = {"name": "t-${run}", "numPartitions": 1, "replicationFactor": 1, "configs": []}
        create = {"topics": [topic], "timeoutMs": 30_000}
        self._add_request("a", "CreateTopics", 7, create, save={"t": "/topics/0/topicId"}, setup=True)
        ready = {"/topics/0/partitions/0/errorCode": 0}
        rows = [{"name": "t-${run}", "partitions": [{"partitionIndex": 0, "timestamp": -1}]}]
        self._add_request("a", "ListOffsets", 7, {"replicaId": -1, "topics": rows}, until=ready, setup=True)
        limits = self._group_configs()
        configs = [{"name": name, "configOperation": 0, "value": str(value)} for name, value in limits.items()]
        resource = {"resourceType": 32, "resourceName": "g-${run}", "configs": configs}
        self._add_request("a", "IncrementalAlterConfigs", 1, {"resources": [resource]}, setup=True)
        starts = [{"topicName": "t-${run}", "partitions": [{"partitionIndex": 0, "startOffset": 0}]}]
        self._add_request("a", "AlterShareGroupOffsets", 0, {"groupId": "g-${run}", "topics": starts}, setup=True)
        self.steps.append({"sleep_ms": 100})
        for member in self.epochs:
            self._add_fetch(member, wait_ms=400, lists=True, max_records=0, setup=True)
            self._add_fetch(member, wait_ms=400, max_records=500, setup=True)

    def _group_configs(self) -> dict[str, int | str]:
        """Configurations of the group."""
        limits: dict[str, int | str] = {"share.delivery.count.limit": self.delivery_limit}
        if self.is_crowded:
            limits["share.partition.max.record.locks"] = 100
        return limits

    def _add_random_step(self, dice: float, member: str) -> None:
        if dice < 0.18 or self.end == 0:
            self._add_produce()
        elif dice < 0.5:
            self._add_fetch(member)
        elif dice < 0.62:
            self._add_fetch(member, wait_ms=200, lists=True, batches=self._random_batches(1))
        elif dice < 0.93:
            self._add_acknowledge(member, self._random_batches(self.rng.choice([1, 1, 1, 2, 3])))
            if self.rng.random() < 0.3:
                self.low = min(self.end - 1, self.low + 1)
        else:
            self._reopen_session(member)

    def _add_produce(self) -> None:
        """Batches of random sizes."""
        sizes = [1, 2, 5, 20, 40, 60] if self.is_crowded else [1, 2, 3, 4, 5, 6]
        counts = [self.rng.choice(sizes) for _ in range(self.rng.randrange(1, 4))]
        batches = [{"records": count, "size": 10} for count in counts]
        produce = {"conn": "a", "topic": "t-${run}", "partition": 0, "batches": batches}
        self.steps.append({"produce": produce, "setup": True})
        self.end += sum(counts)

    def _reopen_session(self, member: str) -> None:
        """Close the member's session and open a new one."""
        self.epochs[member] = -1
        self._add_acknowledge(member, [])
        self.steps.append({"sleep_ms": 250})
        self.epochs[member] = 0
        self._add_fetch(member, lists=True, max_records=0)

    def _random_batches(self, count: int) -> list[Step]:
        chance, batches = self.rng, []
        first = max(0, chance.randrange(self.low, max(self.low + 1, self.end)) - chance.randrange(3))
        for _ in range(count):
            size = chance.choice([1, 4, 11, 41]) if self.is_crowded else chance.randrange(1, 7)
            last_max = self.end + 1 if chance.random() < 0.1 else max(self.end - 1, first)
            last = min(first + size - 1, last_max)
            kinds = [chance.choice([0, 1, 2, 2, 3]) for _ in range(last - first + 1)]
            if chance.random() < 0.6:
                kinds = kinds[:1]
            batches.append({"firstOffset": first, "lastOffset": last, "acknowledgeTypes": kinds})
            first = last + chance.randrange(1, 4)
            if first >= self.end:
                break
        return batches

    def _next_epoch(self, member: str) -> int:
        epoch = self.epochs[member]
        self.epochs[member] += 1
        return epoch

    def _add_fetch(
        self,
        member: str,
        *,
        wait_ms: int = 0,
        lists: bool = False,
        batches: list[Step] | None = None,
        max_records: int | None = None,
        **words: Any,
    ) -> None:
        chance = self.rng
        body: Step = {
            "groupId": "g-${run}",
            "memberId": member,
            "shareSessionEpoch": self._next_epoch(member),
            "maxWaitMs": wait_ms,
            "minBytes": 1,
            "maxBytes": 50_000_000,
            "maxRecords": chance.choice([1, 2, 3, 5, 8, 30, 80, 500]) if max_records is None else max_records,
            "batchSize": chance.choice([1, 2, 3, 5, 30, 500]),
            "shareAcquireMode": chance.choice([0, 0, 1]),
        }
        if lists:
            row = {"partitionIndex": 0, "acknowledgementBatches": batches or []}
            body["topics"] = [{"topicId": "${t}", "partitions": [row]}]
        self._add_request(CONNECTIONS[member], "ShareFetch", 2, body, **words)

    def _add_acknowledge(self, member: str, batches: list[Step]) -> None:
        row = {"partitionIndex": 0, "acknowledgementBatches": batches}
        body = {
            "groupId": "g-${run}",
            "memberId": member,
            "shareSessionEpoch": self._next_epoch(member),
            "topics": [{"topicId": "${t}", "partitions": [row]}],
        }
        self._add_request(CONNECTIONS[member], "ShareAcknowledge", 2, body)
