"""Control records of share-partitions, and the leader's share snapshot file, as bytes.

Source: the second revision of KIP-932. It does not say what the file looks like; here it is the text of a Kafka
checkpoint file: a version, the number of entries, and a line for each, of an offset and a group id in JSON.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kwire.codec import decode, encode
from kwire.messages.drafts.r2.share_checkpoint_value import ShareCheckpointValue
from kwire.messages.drafts.r2.share_checkpoint_value import State as CheckpointState
from kwire.messages.drafts.r2.share_delta_value import ShareDeltaValue
from kwire.messages.drafts.r2.share_delta_value import State as DeltaState
from kwire.records import Record, ShareControlType, read_control, write_share_control
from kwire.records.control import SHARE_CONTROL_EDITION
from mockbroker.state.share_chain import Checkpoint, Delta
from mockbroker.state.state_batches import StateBatch

_VERSION_SIZE = 2
_FILE_VERSION = "0"


def to_bytes(group_id: str, fact: Checkpoint | Delta, *, now_ms: int) -> bytes:
    """The control batch of a fact."""
    if isinstance(fact, Checkpoint):
        checkpoint = ShareCheckpointValue(
            group_id, fact.epoch, fact.start, fact.end, [CheckpointState(*batch) for batch in fact.batches]
        )
        return write_share_control(ShareControlType.SHARE_CHECKPOINT, encode(checkpoint, 0), timestamp=now_ms)
    delta = ShareDeltaValue(group_id, fact.epoch, fact.back_offset, [DeltaState(*batch) for batch in fact.batches])
    return write_share_control(ShareControlType.SHARE_DELTA, encode(delta, 0), timestamp=now_ms)


def from_record(record: Record) -> tuple[str, Checkpoint | Delta] | None:
    """The group and the fact of a control record; None for one that is about something else."""
    control = read_control(record, edition=SHARE_CONTROL_EDITION)
    body = (control.value or b"")[_VERSION_SIZE:]
    if control.type is ShareControlType.SHARE_CHECKPOINT:
        checkpoint = decode(ShareCheckpointValue, 0, body, edition=SHARE_CONTROL_EDITION)
        batches = tuple(StateBatch(*msgspec.structs.astuple(state)) for state in checkpoint.states)
        fact = Checkpoint(checkpoint.checkpoint_epoch, checkpoint.start_offset, checkpoint.end_offset, batches)
        return checkpoint.group_id, fact
    if control.type is ShareControlType.SHARE_DELTA:
        delta = decode(ShareDeltaValue, 0, body, edition=SHARE_CONTROL_EDITION)
        batches = tuple(StateBatch(*msgspec.structs.astuple(state)) for state in delta.states)
        return delta.group_id, Delta(delta.checkpoint_epoch, delta.back_offset, batches)
    return None


def to_snapshot_file(checkpoints: Mapping[str, int]) -> bytes:
    """The file that says where each group's newest checkpoint lies."""
    lines = [f"{offset} {msgspec.json.encode(group_id).decode()}" for group_id, offset in sorted(checkpoints.items())]
    return "\n".join([_FILE_VERSION, str(len(lines)), *lines, ""]).encode()


def from_snapshot_file(data: bytes) -> dict[str, int] | None:
    """What the file says; None when it is damaged."""
    try:
        version, count, *lines = data.decode().split("\n")
        entries = [line.split(" ", 1) for line in lines[:-1]]
        found = {msgspec.json.decode(name, type=str): int(offset) for offset, name in entries}
    except (ValueError, msgspec.DecodeError):
        return None
    is_whole = version == _FILE_VERSION and count == str(len(found)) and lines[-1:] == [""]
    return found if is_whole else None
