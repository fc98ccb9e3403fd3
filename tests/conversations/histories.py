"""More kinds of random share-group traffic: refused requests, locks that end, the state topic, administration.

    python -m tests.conversations.histories FOLDER KIND FIRST_SEED COUNT

writes scripts of one kind, or of KIND `all`. `record.py` has a real broker answer them; some are kept beside the
written scripts. `live.py --generated` plays new ones here and at a real broker, and compares.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.conversations.sequences import CONNECTIONS, Sequence, Step

_GROUP, _TOPIC = "g-${run}", "t-${run}"
_FAR = 1 << 40
#: Where answers have the producer id and epoch of what follows.
_PRODUCER = {"xp": "/producerId", "xe": "/producerEpoch"}


class Errors(Sequence):
    """Requests that a broker refuses, as a whole or row by row, between others that it grants."""

    KIND = "errors"
    WHAT = "requests with wrong epochs, members, topics, ranges and types between right ones"
    LENGTH = (22, 36)

    def _act(self, dice: float, member: str) -> None:
        if dice < 0.5 or self.end == 0:
            super()._act(dice * 2 if self.end else 0.0, member)
            return
        chance = self.chance
        chance.choice([self._wrong_session, self._wrong_row, self._wrong_batches, self._wrong_state])(member)

    def _wrong_session(self, member: str) -> None:
        """Another epoch, member or group than those of a session; the session stays as it is."""
        chance = self.chance
        kept = dict(self.epochs)
        self.epochs[member] = chance.choice([kept[member] + 1, kept[member] + 7, max(1, kept[member] - 1), -2, 1 << 30])
        body = self._body(member)
        body["memberId"] = chance.choice([member, member, "m9"])
        body["groupId"] = chance.choice([_GROUP, _GROUP, _GROUP, "", "other-${run}"])
        row = {"partitionIndex": 0, "acknowledgementBatches": chance.choice([[], self._batches(1)])}
        body["topics"] = chance.choice([[], [{"topicId": "${t}", "partitions": [row]}]])
        self._ask(CONNECTIONS[member], chance.choice(["ShareFetch", "ShareAcknowledge"]), 2, body)
        self.epochs = kept

    def _wrong_row(self, member: str) -> None:
        """A partition or a topic that is not there, beside the one that is."""
        chance = self.chance
        rows = [{"partitionIndex": index, "acknowledgementBatches": self._batches(1)} for index in (0, 7)]
        topics = [{"topicId": "${t}", "partitions": rows[chance.randrange(2) :]}]
        if chance.random() < 0.5:
            topics.append({"topicId": "${uuid:nowhere}", "partitions": rows[:1]})
        body = {**self._body(member), "topics": topics}
        self._ask(CONNECTIONS[member], "ShareAcknowledge", 2, body)

    def _wrong_batches(self, member: str) -> None:
        """Ranges that go backwards, overlap or are not there, and types that are none."""
        chance = self.chance
        first = chance.randrange(self.end + 1)
        last = first + chance.randrange(4)
        good = {"firstOffset": first, "lastOffset": last, "acknowledgeTypes": [2]}
        wrong = chance.choice(
            [
                [{**good, "acknowledgeTypes": [chance.choice([-1, 4, 5, 100])]}],
                [{**good, "acknowledgeTypes": [1] * (last - first + 2)}],
                [{**good, "acknowledgeTypes": []}],
                [{**good, "lastOffset": first - 1}],
                [{**good, "firstOffset": -1}],
                [good, good],
                [good, {**good, "firstOffset": max(0, first - 3), "lastOffset": first}],
                [{**good, "firstOffset": _FAR, "lastOffset": _FAR + 3}],
                [{**good, "lastOffset": _FAR}],
            ]
        )
        version = chance.choice([1, 2, 2])
        row = {"partitionIndex": 0, "acknowledgementBatches": wrong}
        body = {**self._body(member), "topics": [{"topicId": "${t}", "partitions": [row]}]}
        self._ask(CONNECTIONS[member], "ShareAcknowledge", version, body)

    def _wrong_state(self, member: str) -> None:
        """What a share coordinator is asked by no leader: old epochs, partitions that are not there."""
        chance = self.chance
        row: Step = {"partition": chance.choice([0, 0, 9]), "leaderEpoch": chance.choice([-1, 0, 0])}
        api, version = chance.choice([("ReadShareGroupState", 0), ("ReadShareGroupStateSummary", 1)])
        if chance.random() < 0.4:
            api, version = "WriteShareGroupState", 1
            row |= {"leaderEpoch": -1, "stateEpoch": -1, "startOffset": -1, "deliveryCompleteCount": 0}
            row["stateBatches"] = [{"firstOffset": 0, "lastOffset": 0, "deliveryState": 2, "deliveryCount": 1}]
        topic = chance.choice(["${t}", "${t}", "${uuid:nowhere}"])
        body = {"groupId": chance.choice([_GROUP, _GROUP, ""]), "topics": [{"topicId": topic, "partitions": [row]}]}
        self._ask(CONNECTIONS[member], api, version, body)

    def _body(self, member: str) -> Step:
        return {"groupId": _GROUP, "memberId": member, "shareSessionEpoch": self._next_epoch(member)}


class Locks(Sequence):
    """Locks that are renewed, run out, and are acknowledged too late.

    What is asked is asked at points of a grid, and locks end in the middle between two of them: a real broker has half
    of a step for what a virtual one does at once.
    """

    KIND = "locks"
    WHAT = "locks of one and a half seconds that are kept, renewed and lost"
    LENGTH = (8, 13)
    _STEP_MS, _LOCK_MS = 600, 1500

    def _limits(self) -> dict[str, int | str]:
        self.delivery_limit = self.chance.choice([2, 2, 3])
        return {"share.delivery.count.limit": self.delivery_limit, "share.record.lock.duration.ms": self._LOCK_MS}

    def _act(self, dice: float, member: str) -> None:
        if self.end == 0 or (dice < 0.2 and self.end < 12):
            self._produce()
        for _ in range(self.chance.choice([1, 1, 2])):
            self._ask_in_time(self.chance.random(), member)
        self.steps.append({"sleep_ms": self._STEP_MS * self.chance.choice([1, 1, 2])})

    def _ask_in_time(self, dice: float, member: str) -> None:
        if dice < 0.55:
            self._fetch(member)
        elif dice < 0.75:
            self._renew(member)
        else:
            self._acknowledge(member, self._batches(1))

    def _renew(self, member: str) -> None:
        first = self.chance.randrange(max(1, self.end - 3))
        last = min(self.end - 1, first + self.chance.randrange(4))
        kinds = [self.chance.choice([4, 4, 4, 1, 2]) for _ in range(first, last + 1)]
        row = {
            "partitionIndex": 0,
            "acknowledgementBatches": [{"firstOffset": first, "lastOffset": last, "acknowledgeTypes": kinds}],
        }
        body = {
            "groupId": _GROUP,
            "memberId": member,
            "shareSessionEpoch": self._next_epoch(member),
            "isRenewAck": True,
            "topics": [{"topicId": "${t}", "partitions": [row]}],
        }
        self._ask(CONNECTIONS[member], "ShareAcknowledge", 2, body)


class Records(Sequence):
    """What the share coordinator wrote: every snapshot and update, where five updates make the next snapshot."""

    KIND = "records"
    BROKER = "snapshots"
    WHAT = "the records of __share_group_state after fetches, acknowledgements and lost sessions"

    def _finish(self) -> None:
        super()._finish()
        self.steps.append({"state": _GROUP, "conn": "a"})


class Admin(Sequence):
    """Administration between fetches and acknowledgements: offsets altered and deleted, groups deleted."""

    KIND = "admin"
    WHAT = "offsets altered and deleted and groups deleted while two members fetch and acknowledge"
    LENGTH = (20, 32)

    def _act(self, dice: float, member: str) -> None:
        if dice < 0.84 or self.end == 0:
            super()._act(dice / 0.84, member)
            return
        if dice < 0.93:
            self._alter(self.chance.randrange(self.end + 2))
        elif dice < 0.965:
            topics = [{"topicName": _TOPIC}]
            self._ask("a", "DeleteShareGroupOffsets", 0, {"groupId": _GROUP, "topics": topics})
            self._start_again(member)
        else:
            self._ask("a", "DeleteGroups", 2, {"groupsNames": [_GROUP]})
            self._start_again(member)
        self._ask("a", "DescribeShareGroupOffsets", 1, {"groups": [{"groupId": _GROUP, "topics": None}]})

    def _alter(self, offset: int) -> None:
        rows = [{"topicName": _TOPIC, "partitions": [{"partitionIndex": 0, "startOffset": offset}]}]
        self._ask("a", "AlterShareGroupOffsets", 0, {"groupId": _GROUP, "topics": rows})
        self.steps.append({"sleep_ms": 100})
        self.low = max(0, min(offset, self.end - 1))

    def _start_again(self, member: str) -> None:
        """See what is left of a group, and give it a start."""
        self.steps.append({"sleep_ms": 100})
        self._fetch(member, wait_ms=200)
        self._alter(self.chance.randrange(self.end + 1))
        for one in self.epochs:
            self._reopen(one)
            self._fetch(one, wait_ms=400, max_records=500)


class Logs(Sequence):
    """A log that is not only appended to: transactions that commit and abort, and records that are deleted."""

    KIND = "logs"
    WHAT = "transactions, deleted records and both isolation levels under two members"
    LENGTH = (20, 32)

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._is_committed_only = self.chance.random() < 0.6
        self._is_open = False
        self._sequence = 0

    def _prepare(self) -> None:
        super()._prepare()
        body = {"transactionalId": "x-${run}", "transactionTimeoutMs": 60_000}
        self._ask("p", "InitProducerId", 5, body, save=_PRODUCER, until={"/errorCode": 0}, setup=True)

    def _limits(self) -> dict[str, int | str]:
        level = "read_committed" if self._is_committed_only else "read_uncommitted"
        return {**super()._limits(), "share.isolation.level": level}

    def _act(self, dice: float, member: str) -> None:
        if dice < 0.14:
            self._produce_in_transaction()
        elif dice < 0.22 and self._is_open:
            self._end_transaction()
        elif dice < 0.28 and self.end:
            self._delete_records()
        else:
            super()._act(self.chance.random(), member)

    def _finish(self) -> None:
        if self._is_open:
            self._end_transaction()
        for member in self.epochs:
            self._fetch(member, max_records=500)
        super()._finish()

    def _produce_in_transaction(self) -> None:
        count = self.chance.choice([1, 2, 3, 5])
        batch = {
            "records": count,
            "size": 10,
            "producerId": "${xp}",
            "producerEpoch": "${xe}",
            "baseSequence": self._sequence,
            "transactional": True,
        }
        produce = {"conn": "p", "topic": _TOPIC, "partition": 0, "version": 12, "transactionalId": "x-${run}"}
        self.steps.append({"produce": {**produce, "batches": [batch]}, "setup": True})
        self.end += count
        self._sequence += count
        self._is_open = True

    def _end_transaction(self) -> None:
        is_committed = self.chance.random() < 0.5
        body = {
            "transactionalId": "x-${run}",
            "producerId": "${xp}",
            "producerEpoch": "${xe}",
            "committed": is_committed,
        }
        self._ask("p", "EndTxn", 5, body, save=_PRODUCER, until={"/errorCode": 0}, setup=True)
        self.end += 1  # The marker, which is written soon after the answer.
        self._sequence, self._is_open = 0, False
        rows = [{"name": _TOPIC, "partitions": [{"partitionIndex": 0, "timestamp": -1}]}]
        ready = {"/topics/0/partitions/0/offset": self.end}
        self._ask(
            "p", "ListOffsets", 7, {"replicaId": -1, "isolationLevel": 1, "topics": rows}, until=ready, setup=True
        )

    def _delete_records(self) -> None:
        self.low = min(self.end, self.low + self.chance.randrange(1, 8))
        rows = [{"name": _TOPIC, "partitions": [{"partitionIndex": 0, "offset": self.low}]}]
        self._ask("p", "DeleteRecords", 2, {"topics": rows, "timeoutMs": 5000})
        self.low = min(self.low, self.end - 1)


KINDS: Mapping[str, type[Sequence]] = {kind.KIND: kind for kind in (Sequence, Errors, Locks, Records, Admin, Logs)}


def spell(script: Step) -> str:
    """One step a line, as the written scripts are kept."""
    head = "".join(f" {json.dumps(key)}: {json.dumps(script[key])},\n" for key in script if key != "steps")
    steps = ",\n".join(f"  {json.dumps(step)}" for step in script["steps"])
    return f'{{\n{head} "steps": [\n{steps}\n ]\n}}\n'


def main(arguments: list[str]) -> int:
    """Write COUNT scripts."""
    if len(arguments) != 4 or arguments[1] not in (*KINDS, "all"):
        print(__doc__, file=sys.stderr)
        return 2
    folder, first, count = Path(arguments[0]), int(arguments[2]), int(arguments[3])
    for kind in KINDS.values() if arguments[1] == "all" else (KINDS[arguments[1]],):
        for seed in range(first, first + count):
            script: Any = kind(seed).script()
            (folder / f"{script['name']}.json").write_text(spell(script), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
