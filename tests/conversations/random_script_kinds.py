"""Further kinds of random share-group scripts: invalid requests, lock timeouts, the state topic, administration.

    python -m tests.conversations.random_script_kinds FOLDER KIND FIRST_SEED COUNT

writes scripts of one kind, or of KIND `all`. `record.py` records the responses of a real broker; some are stored with
the hand-written scripts. `live.py --generated` runs new ones on virtual time and with a real broker, and compares them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.conversations.random_script import CONNECTIONS, RandomScript, Step

_GROUP, _TOPIC = "g-${run}", "t-${run}"
_FAR = 1 << 40
#: Pointers to the producer id and epoch in responses.
_PRODUCER = {"xp": "/producerId", "xe": "/producerEpoch"}


class ErrorScript(RandomScript):
    """Requests that a broker rejects, as a whole or by row, between valid ones."""

    KIND = "errors"
    DESCRIPTION = "requests with wrong epochs, members, topics, ranges and types between right ones"
    LENGTH = (22, 36)

    def _add_random_step(self, dice: float, member: str) -> None:
        if dice < 0.5 or self.end == 0:
            super()._add_random_step(dice * 2 if self.end else 0.0, member)
            return
        kinds = [self._add_wrong_session, self._add_wrong_row, self._add_wrong_batches, self._add_wrong_state]
        self.rng.choice(kinds)(member)

    def _add_wrong_session(self, member: str) -> None:
        """A wrong epoch, member or group; the session stays as it is."""
        chance = self.rng
        epochs = dict(self.epochs)
        epoch = epochs[member]
        self.epochs[member] = chance.choice([epoch + 1, epoch + 7, max(1, epoch - 1), -2, 1 << 30])
        body = self._request_body(member)
        body["memberId"] = chance.choice([member, member, "m9"])
        body["groupId"] = chance.choice([_GROUP, _GROUP, _GROUP, "", "other-${run}"])
        row = {"partitionIndex": 0, "acknowledgementBatches": chance.choice([[], self._random_batches(1)])}
        body["topics"] = chance.choice([[], [{"topicId": "${t}", "partitions": [row]}]])
        self._add_request(CONNECTIONS[member], chance.choice(["ShareFetch", "ShareAcknowledge"]), 2, body)
        self.epochs = epochs

    def _add_wrong_row(self, member: str) -> None:
        """An unknown partition or topic, in addition to an existing one."""
        chance = self.rng
        rows = [{"partitionIndex": index, "acknowledgementBatches": self._random_batches(1)} for index in (0, 7)]
        topics = [{"topicId": "${t}", "partitions": rows[chance.randrange(2) :]}]
        if chance.random() < 0.5:
            topics.append({"topicId": "${uuid:nowhere}", "partitions": rows[:1]})
        body = {**self._request_body(member), "topics": topics}
        self._add_request(CONNECTIONS[member], "ShareAcknowledge", 2, body)

    def _add_wrong_batches(self, member: str) -> None:
        """Reversed, overlapping or unknown ranges, and unknown types."""
        chance = self.rng
        first = chance.randrange(self.end + 1)
        last = first + chance.randrange(4)
        valid = {"firstOffset": first, "lastOffset": last, "acknowledgeTypes": [2]}
        invalid = chance.choice(
            [
                [{**valid, "acknowledgeTypes": [chance.choice([-1, 4, 5, 100])]}],
                [{**valid, "acknowledgeTypes": [1] * (last - first + 2)}],
                [{**valid, "acknowledgeTypes": []}],
                [{**valid, "lastOffset": first - 1}],
                [{**valid, "firstOffset": -1}],
                [valid, valid],
                [valid, {**valid, "firstOffset": max(0, first - 3), "lastOffset": first}],
                [{**valid, "firstOffset": _FAR, "lastOffset": _FAR + 3}],
                [{**valid, "lastOffset": _FAR}],
            ]
        )
        version = chance.choice([1, 2, 2])
        row = {"partitionIndex": 0, "acknowledgementBatches": invalid}
        body = {**self._request_body(member), "topics": [{"topicId": "${t}", "partitions": [row]}]}
        self._add_request(CONNECTIONS[member], "ShareAcknowledge", version, body)

    def _add_wrong_state(self, member: str) -> None:
        """Requests that no leader sends to a share coordinator: old epochs, unknown partitions."""
        chance = self.rng
        row: Step = {"partition": chance.choice([0, 0, 9]), "leaderEpoch": chance.choice([-1, 0, 0])}
        api, version = chance.choice([("ReadShareGroupState", 0), ("ReadShareGroupStateSummary", 1)])
        if chance.random() < 0.4:
            api, version = "WriteShareGroupState", 1
            row |= {"leaderEpoch": -1, "stateEpoch": -1, "startOffset": -1, "deliveryCompleteCount": 0}
            row["stateBatches"] = [{"firstOffset": 0, "lastOffset": 0, "deliveryState": 2, "deliveryCount": 1}]
        topic = chance.choice(["${t}", "${t}", "${uuid:nowhere}"])
        body = {"groupId": chance.choice([_GROUP, _GROUP, ""]), "topics": [{"topicId": topic, "partitions": [row]}]}
        self._add_request(CONNECTIONS[member], api, version, body)

    def _request_body(self, member: str) -> Step:
        return {"groupId": _GROUP, "memberId": member, "shareSessionEpoch": self._next_epoch(member)}


class LockScript(RandomScript):
    """Locks that are renewed, expire, and are acknowledged too late.

    Requests are sent at the points of a time grid, and locks expire in the middle between two of them: a real broker
    has half of a step for what a virtual one does at once.
    """

    KIND = "locks"
    DESCRIPTION = "locks of one and a half seconds that are kept, renewed and lost"
    LENGTH = (8, 13)
    _STEP_MS, _LOCK_MS = 600, 1500

    def _group_configs(self) -> dict[str, int | str]:
        self.delivery_limit = self.rng.choice([2, 2, 3])
        return {"share.delivery.count.limit": self.delivery_limit, "share.record.lock.duration.ms": self._LOCK_MS}

    def _add_random_step(self, dice: float, member: str) -> None:
        if self.end == 0 or (dice < 0.2 and self.end < 12):
            self._add_produce()
        for _ in range(self.rng.choice([1, 1, 2])):
            self._add_timed_request(self.rng.random(), member)
        self.steps.append({"sleep_ms": self._STEP_MS * self.rng.choice([1, 1, 2])})

    def _add_timed_request(self, dice: float, member: str) -> None:
        if dice < 0.55:
            self._add_fetch(member)
        elif dice < 0.75:
            self._renew_locks(member)
        else:
            self._add_acknowledge(member, self._random_batches(1))

    def _renew_locks(self, member: str) -> None:
        first = self.rng.randrange(max(1, self.end - 3))
        last = min(self.end - 1, first + self.rng.randrange(4))
        kinds = [self.rng.choice([4, 4, 4, 1, 2]) for _ in range(first, last + 1)]
        batch = {"firstOffset": first, "lastOffset": last, "acknowledgeTypes": kinds}
        topics = [{"topicId": "${t}", "partitions": [{"partitionIndex": 0, "acknowledgementBatches": [batch]}]}]
        session = {"groupId": _GROUP, "memberId": member, "shareSessionEpoch": self._next_epoch(member)}
        body = {**session, "isRenewAck": True, "topics": topics}
        self._add_request(CONNECTIONS[member], "ShareAcknowledge", 2, body)


class StateRecordScript(RandomScript):
    """The records of the share coordinator: every snapshot and update; after five updates there is a snapshot."""

    KIND = "records"
    BROKER = "snapshots"
    DESCRIPTION = "the records of __share_group_state after fetches, acknowledgements and lost sessions"

    def _add_final_steps(self) -> None:
        super()._add_final_steps()
        self.steps.append({"state": _GROUP, "conn": "a"})


class AdminScript(RandomScript):
    """Administration between fetches and acknowledgements: offsets altered and deleted, groups deleted."""

    KIND = "admin"
    DESCRIPTION = "offsets altered and deleted and groups deleted while two members fetch and acknowledge"
    LENGTH = (20, 32)

    def _add_random_step(self, dice: float, member: str) -> None:
        if dice < 0.84 or self.end == 0:
            super()._add_random_step(dice / 0.84, member)
            return
        if dice < 0.93:
            self._alter_offsets(self.rng.randrange(self.end + 2))
        elif dice < 0.965:
            topics = [{"topicName": _TOPIC}]
            self._add_request("a", "DeleteShareGroupOffsets", 0, {"groupId": _GROUP, "topics": topics})
            self._restart_group(member)
        else:
            self._add_request("a", "DeleteGroups", 2, {"groupsNames": [_GROUP]})
            self._restart_group(member)
        self._add_request("a", "DescribeShareGroupOffsets", 1, {"groups": [{"groupId": _GROUP, "topics": None}]})

    def _alter_offsets(self, offset: int) -> None:
        rows = [{"topicName": _TOPIC, "partitions": [{"partitionIndex": 0, "startOffset": offset}]}]
        self._add_request("a", "AlterShareGroupOffsets", 0, {"groupId": _GROUP, "topics": rows})
        self.steps.append({"sleep_ms": 100})
        self.low = max(0, min(offset, self.end - 1))

    def _restart_group(self, member: str) -> None:
        """Fetch from the remaining group, and set a start offset."""
        self.steps.append({"sleep_ms": 100})
        self._add_fetch(member, wait_ms=200)
        self._alter_offsets(self.rng.randrange(self.end + 1))
        for other_member in self.epochs:
            self._reopen_session(other_member)
            self._add_fetch(other_member, wait_ms=400, max_records=500)


class LogScript(RandomScript):
    """Changes of the log other than appends: transactions that commit and abort, and deleted records."""

    KIND = "logs"
    DESCRIPTION = "transactions, deleted records and both isolation levels under two members"
    LENGTH = (20, 32)

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._is_committed_only = self.rng.random() < 0.6
        self._is_open = False
        self._sequence = 0

    def _add_setup(self) -> None:
        super()._add_setup()
        body = {"transactionalId": "x-${run}", "transactionTimeoutMs": 60_000}
        self._add_request("p", "InitProducerId", 5, body, save=_PRODUCER, until={"/errorCode": 0}, setup=True)

    def _group_configs(self) -> dict[str, int | str]:
        level = "read_committed" if self._is_committed_only else "read_uncommitted"
        return {**super()._group_configs(), "share.isolation.level": level}

    def _add_random_step(self, dice: float, member: str) -> None:
        if dice < 0.14:
            self._produce_in_transaction()
        elif dice < 0.22 and self._is_open:
            self._end_transaction()
        elif dice < 0.28 and self.end:
            self._delete_records()
        else:
            super()._add_random_step(self.rng.random(), member)

    def _add_final_steps(self) -> None:
        if self._is_open:
            self._end_transaction()
        for member in self.epochs:
            self._add_fetch(member, max_records=500)
        super()._add_final_steps()

    def _produce_in_transaction(self) -> None:
        count = self.rng.choice([1, 2, 3, 5])
        producer = {"producerId": "${xp}", "producerEpoch": "${xe}", "baseSequence": self._sequence}
        batch = {"records": count, "size": 10, **producer, "transactional": True}
        produce = {"conn": "p", "topic": _TOPIC, "partition": 0, "version": 12, "transactionalId": "x-${run}"}
        self.steps.append({"produce": {**produce, "batches": [batch]}, "setup": True})
        self.end += count
        self._sequence += count
        self._is_open = True

    def _end_transaction(self) -> None:
        producer = {"transactionalId": "x-${run}", "producerId": "${xp}", "producerEpoch": "${xe}"}
        body = {**producer, "committed": self.rng.random() < 0.5}
        self._add_request("p", "EndTxn", 5, body, save=_PRODUCER, until={"/errorCode": 0}, setup=True)
        self.end += 1  # The marker, which is written soon after the response.
        self._sequence, self._is_open = 0, False
        rows = [{"name": _TOPIC, "partitions": [{"partitionIndex": 0, "timestamp": -1}]}]
        ready = {"/topics/0/partitions/0/offset": self.end}
        body = {"replicaId": -1, "isolationLevel": 1, "topics": rows}
        self._add_request("p", "ListOffsets", 7, body, until=ready, setup=True)

    def _delete_records(self) -> None:
        self.low = min(self.end, self.low + self.rng.randrange(1, 8))
        rows = [{"name": _TOPIC, "partitions": [{"partitionIndex": 0, "offset": self.low}]}]
        self._add_request("p", "DeleteRecords", 2, {"topics": rows, "timeoutMs": 5000})
        self.low = min(self.low, self.end - 1)


KINDS: Mapping[str, type[RandomScript]] = {
    kind.KIND: kind for kind in (RandomScript, ErrorScript, LockScript, StateRecordScript, AdminScript, LogScript)
}


def format_script(script: Step) -> str:
    """One step a line, as the hand-written scripts."""
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
            script: Any = kind(seed).build()
            (folder / f"{script['name']}.json").write_text(format_script(script), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
