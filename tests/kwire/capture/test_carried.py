"""Captures that follow each other: what is open at the end of one goes on in the next, written down in between."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from kwire.capture import pipeline
from kwire.capture.carried import Carried, NotCarried, dump, load
from kwire.capture.ip import segments
from kwire.capture.keylog import KeyLog, read_key_logs
from kwire.capture.options import Options
from kwire.capture.packets import packets
from kwire.capture.rows import Row
from kwire.capture.schemas import LEVELS
from kwire.capture.values import Segment

CAPTURES = Path(__file__).parents[2] / "captures"
FILES = sorted(CAPTURES.glob("*.pcap"))
PIECES = 7


def options_of(file: Path) -> Options:
    keys = file.with_suffix(".keys")
    return Options(tls_keylog=read_key_logs([keys]) if keys.exists() else "", sessions=True)


def in_pieces(file: Path, level: str, options: Options) -> list[Row]:
    """The rows of a capture that is read in pieces; what is open is written down and read after each."""
    keys = KeyLog(options.tls_keylog)
    read = list(segments(packets(str(file), keys)))
    size = len(read) // PIECES + 1
    carried, found = Carried(level, options, keys), []
    for start in range(0, len(read), size):
        make = pipeline.row_maker(level, str(file), options, carried.names)
        found += [row for each in carried.outcomes(read[start : start + size]) for row in make(each)]
        carried = load(dump(carried), options, keys)
    make = pipeline.row_maker(level, str(file), options, carried.names)
    return found + [row for each in carried.close() for row in make(each)]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_capture_in_pieces_gives_the_rows_of_the_whole(file: Path, level: str) -> None:
    options = options_of(file)

    found = in_pieces(file, level, options)

    assert sorted(map(str, found)) == sorted(map(str, pipeline.rows(str(file), level, options)))


def test_an_open_request_is_given_up_after_its_time() -> None:
    options, keys = Options(), KeyLog("")
    carried = Carried("messages", options, keys)
    make = pipeline.row_maker("messages", "", options, carried.names)
    sent = -1
    for segment in segments(packets(str(CAPTURES / "small_share.pcap"), keys)):
        rows = [row for each in carried.outcomes([segment]) for row in make(each)]
        if isinstance(segment, Segment) and segment.payload and not rows:
            sent = segment.ts
            break

    early = [row for each in carried.expire(sent) for row in make(each)]
    late = [row for each in carried.expire(sent + 1) for row in make(each)]

    assert early == []
    assert [row["status"] for row in late] == ["no_response"]
    assert list(carried.close()) == []


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
        pickle.dumps(pipeline.rows),
        b"ckwire.capture.keylog\nPath\n(S'/'\ntR.",
        b"ckwire.capture.live\nLive\n(S'lo'\ntR.",
        b"Pnobody\n.",
        b"cbuiltins\nbytearray\n(L70368744177664L\ntR.",
        dump(Carried("messages", Options(), KeyLog("")))[:-20],
    ],
    ids=["empty", "nonsense", "call", "list", "path", "function", "imported", "worldly", "given", "huge", "cut"],
)
def test_bytes_that_were_not_written_here_are_refused(written: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NotCarried):
        load(written, Options(), KeyLog(""))

    assert capsys.readouterr().out == ""


def test_secrets_that_the_user_gave_are_not_written_down() -> None:
    file = CAPTURES / "small_tlskey.pcap"
    options = options_of(file)
    carried = Carried("messages", options, KeyLog(options.tls_keylog))
    list(carried.outcomes(segments(packets(str(file)))))

    written = dump(carried)

    lines = [line for line in options.tls_keylog.splitlines() if not line.startswith("#")]
    assert lines
    assert not any(line.encode() in written for line in lines)
