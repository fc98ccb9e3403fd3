"""Encoding of share-partition control records, and of the leader's share snapshot file.

Source: the second revision of KIP-932. It does not define the file's format; here it is the text of a Kafka
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
from mockbroker.persisters.control_records.recorded_state import ShareCheckpoint, ShareDelta
from mockbroker.state.share.state_batches import StateBatch

_VERSION_SIZE = 2
_FILE_VERSION = "0"


def encode_control_batch(group_id: str, content: ShareCheckpoint | ShareDelta, *, now_ms: int) -> bytes:
    """The control batch of a checkpoint or delta."""
    if isinstance(content, ShareCheckpoint):
        states = [CheckpointState(*batch) for batch in content.batches]
        checkpoint = ShareCheckpointValue(group_id, content.epoch, content.start, content.end, states)
        return write_share_control(ShareControlType.SHARE_CHECKPOINT, encode(checkpoint, 0), timestamp=now_ms)
    changes = [DeltaState(*batch) for batch in content.batches]
    delta = ShareDeltaValue(group_id, content.epoch, content.back_offset, changes)
    return write_share_control(ShareControlType.SHARE_DELTA, encode(delta, 0), timestamp=now_ms)


def decode_control_record(record: Record) -> tuple[str, ShareCheckpoint | ShareDelta] | None:
    """The group and content of a control record; None for another kind of control record."""
    control = read_control(record, edition=SHARE_CONTROL_EDITION)
    body = (control.value or b"")[_VERSION_SIZE:]
    if control.type is ShareControlType.SHARE_CHECKPOINT:
        checkpoint = decode(ShareCheckpointValue, 0, body, edition=SHARE_CONTROL_EDITION)
        batches = tuple(StateBatch(*msgspec.structs.astuple(state)) for state in checkpoint.states)
        content = ShareCheckpoint(checkpoint.checkpoint_epoch, checkpoint.start_offset, checkpoint.end_offset, batches)
        return checkpoint.group_id, content
    if control.type is ShareControlType.SHARE_DELTA:
        delta = decode(ShareDeltaValue, 0, body, edition=SHARE_CONTROL_EDITION)
        batches = tuple(StateBatch(*msgspec.structs.astuple(state)) for state in delta.states)
        return delta.group_id, ShareDelta(delta.checkpoint_epoch, delta.back_offset, batches)
    return None


def encode_snapshot_file(checkpoints: Mapping[str, int]) -> bytes:
    """The file with the offset of each group's newest checkpoint."""
    lines = [f"{offset} {msgspec.json.encode(group_id).decode()}" for group_id, offset in sorted(checkpoints.items())]
    return "\n".join([_FILE_VERSION, str(len(lines)), *lines, ""]).encode()


def decode_snapshot_file(data: bytes) -> dict[str, int] | None:
    """The offsets in the file; None if it is damaged."""
    try:
        version, count, *lines = data.decode().split("\n")
        entries = [line.split(" ", 1) for line in lines[:-1]]
        found = {msgspec.json.decode(name, type=str): int(offset) for offset, name in entries}
    except (ValueError, msgspec.DecodeError):
        return None
    is_complete = version == _FILE_VERSION and count == str(len(found)) and lines[-1:] == [""]
    return found if is_complete else None
