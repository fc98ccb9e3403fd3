"""Checkpoints between captures of a series: open connections and requests continue in the next capture."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from kwire.capture import pipeline
from kwire.capture.files.packet_reader import read_packets
from kwire.capture.model import Row, Segment
from kwire.capture.network.packet_dissector import dissect_packets
from kwire.capture.options import Options
from kwire.capture.reader import read_rows
from kwire.capture.rows.columns import LEVELS
from kwire.capture.series.checkpoint import InvalidCheckpoint, PipelineState, dump_checkpoint, load_checkpoint
from kwire.capture.tls.key_log import KeyLog, read_key_logs

pytestmark = pytest.mark.slow

CAPTURES = Path(__file__).parents[3] / "captures"
FILES = sorted(CAPTURES.glob("*.pcap"))
PIECES = 7


def options_of(file: Path) -> Options:
    keys = file.with_suffix(".keys")
    return Options(tls_keylog=read_key_logs([keys]) if keys.exists() else "", sessions=True)


def in_pieces(file: Path, level: str, options: Options) -> list[Row]:
    """The rows of a capture that is read in pieces, with a checkpoint after each."""
    keys = KeyLog(options.tls_keylog)
    read = list(dissect_packets(read_packets(str(file), keys)))
    size = len(read) // PIECES + 1
    state, rows = PipelineState(level, options, keys), []
    for start in range(0, len(read), size):
        make = pipeline.make_row_builder(level, str(file), options, state.names)
        rows += [row for outcome in state.outcomes(read[start : start + size]) for row in make(outcome)]
        state = load_checkpoint(dump_checkpoint(state), options, keys)
    make = pipeline.make_row_builder(level, str(file), options, state.names)
    return rows + [row for outcome in state.close() for row in make(outcome)]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_capture_in_pieces_has_the_rows_of_the_whole(file: Path, level: str) -> None:
    options = options_of(file)

    rows = in_pieces(file, level, options)

    assert sorted(map(str, rows)) == sorted(map(str, read_rows(str(file), level, options)))


def test_an_open_request_expires() -> None:
    options, keys = Options(), KeyLog("")
    state = PipelineState("messages", options, keys)
    make = pipeline.make_row_builder("messages", "", options, state.names)
    sent = -1
    for segment in dissect_packets(read_packets(str(CAPTURES / "small_share.pcap"), keys)):
        rows = [row for outcome in state.outcomes([segment]) for row in make(outcome)]
        if isinstance(segment, Segment) and segment.payload and not rows:
            sent = segment.ts
            break

    early = [row for outcome in state.expire(sent) for row in make(outcome)]
    late = [row for outcome in state.expire(sent + 1) for row in make(outcome)]

    assert early == []
    assert [row["status"] for row in late] == ["no_response"]
    assert list(state.close()) == []


class _Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("harm",)


@pytest.mark.parametrize(
    "written",
    [
        b"",
        b"nonsense",
        pickle.dumps(_Evil()),
        pickle.dumps(["a list"]),
        pickle.dumps(Path("kwire")),
        pickle.dumps(read_rows),
        b"ckwire.capture.keylog\nPath\n(S'/'\ntR.",
        b"ckwire.capture.live\nLive\n(S'lo'\ntR.",
        b"Pnobody\n.",
        b"cbuiltins\nbytearray\n(L70368744177664L\ntR.",
        dump_checkpoint(PipelineState("messages", Options(), KeyLog("")))[:-20],
    ],
    ids=["empty", "nonsense", "call", "list", "path", "function", "imported", "worldly", "given", "huge", "cut"],
)
def test_bytes_of_another_origin_are_an_error(written: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidCheckpoint):
        load_checkpoint(written, Options(), KeyLog(""))

    assert capsys.readouterr().out == ""


def test_secrets_of_the_user_are_not_in_the_checkpoint() -> None:
    file = CAPTURES / "small_tlskey.pcap"
    options = options_of(file)
    state = PipelineState("messages", options, KeyLog(options.tls_keylog))
    list(state.outcomes(dissect_packets(read_packets(str(file)))))

    written = dump_checkpoint(state)

    lines = [line for line in options.tls_keylog.splitlines() if not line.startswith("#")]
    assert lines
    assert not any(line.encode() in written for line in lines)
