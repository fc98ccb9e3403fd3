"""Series of captures have the rows of the generators, whichever packets are in which file, and whatever expires."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from kwire.capture.files.packet_reader import read_packets
from kwire.capture.kafka.exchange import Exchange, Outcome
from kwire.capture.model import CaptureIssue, Packet, Row, Segment
from kwire.capture.options import Options
from kwire.capture.reader import read_series_rows
from kwire.capture.series.checkpoint import dump_checkpoint, load_checkpoint
from kwire.capture.series.open_series import open_series
from kwire.capture.series.series_reader import SeriesReader
from kwire.capture.tls.key_log import KeyLog, read_key_logs
from tests.support.capture_model.packet_dissection import dissect_packets
from tests.support.capture_model.series_state import PipelineState
from tests.support.captures.capture_files import CAPTURES, build_pcap, convert_to_ipv6, read_ip_packets
from tests.support.captures.index_captures import FILES, connection_with_exchanges, request_bytes, response_bytes
from tests.support.captures.mutated_captures import mutate_capture

pytestmark = pytest.mark.slow

Packets = list[Packet | CaptureIssue]
SEEDS, CAPTURES_OF_SEED = range(8), 12
LEVELS = ("messages", "messages", "partitions", "records")


class Series(NamedTuple):
    """The packets of each file. timeout: what is so much older than the last packet expires; None expires nothing."""

    files: list[Packets]
    timeout: int | None
    level: str
    options: Options


def numbered(packets: Packets) -> Packets:
    """The packets with the numbers that they have in a file of their own."""
    numbers = iter(range(1, len(packets) + 1))
    return [each._replace(number=next(numbers)) if isinstance(each, Packet) else each for each in packets]


def in_files(packets: Packets, cuts: Sequence[int]) -> list[Packets]:
    """Divide packets into files that begin at these places."""
    return [numbered(packets[begin:end]) for begin, end in zip([0, *cuts], [*cuts, len(packets)], strict=True)]


def random_series(chance: random.Random) -> Series | None:
    """A damaged capture in several files; None if it is too short, or has times that are damaged."""
    capture = mutate_capture(chance)
    if not capture.is_comparable:
        return None
    packets: Packets = list(read_packets(capture.data))
    if len(packets) < 2:
        return None
    cuts = sorted(chance.sample(range(1, len(packets)), min(len(packets) - 1, chance.randrange(1, 8))))
    times = [each.ts for each in packets if isinstance(each, Packet)]
    span = max(times, default=0) - min(times, default=0)
    timeout = chance.choice([None, 0, 1_000_000, 10_000_000, span // 20, span // 5])
    options = Options(bodies=chance.random() < 0.5, sessions=chance.random() < 0.5)
    return Series(in_files(packets, cuts), timeout, chance.choice(LEVELS), options)


def rows_of_generators(series: Series) -> list[Row]:
    state, rows, last_ts = (
        PipelineState(series.level, series.options, KeyLog(series.options.tls_keylog)),
        list[Row](),
        0,
    )
    for number, packets in enumerate(series.files):
        segments = list(dissect_packets(packets))
        times = [segment.ts for segment in segments if isinstance(segment, Segment)]
        state.files += [(first_ts, str(number)) for first_ts in times[:1]]
        last_ts = max([last_ts, *times])
        rows += state.rows(str(number), state.outcomes(segments))
        if series.timeout is not None:
            rows += state.rows("", state.expire(last_ts - series.timeout))
    return rows + list(state.rows("", state.close()))


def rows_of_columns(series: Series) -> list[Row]:
    """The rows of the reader of the package, with a checkpoint after each file."""
    level, options, keys = series.level, series.options, KeyLog(series.options.tls_keylog)
    reader, rows, last_ts = open_series(level, options, keys), list[Row](), 0
    for number, packets in enumerate(series.files):
        rows += read_series_rows(reader, str(number), reader.read_file(packets, name=str(number)), level, options)
        last_ts = max(last_ts, reader.last_ts)
        if series.timeout is not None:
            rows += read_series_rows(reader, "", reader.expire(last_ts - series.timeout), level, options)
        reader = load_checkpoint(dump_checkpoint(reader), options, keys)
    return rows + list(read_series_rows(reader, "", reader.close(), level, options))


@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_captures_in_several_files_have_the_rows_of_the_generators(seed: int) -> None:
    chance, compared = random.Random(seed), 0
    while compared < CAPTURES_OF_SEED:
        series = random_series(chance)
        if series is not None:
            compared += 1
            rows, expected = rows_of_columns(series), rows_of_generators(series)
            # Mostly they are in the same order: a gap and an exchange that one packet completes have no order.
            assert sorted(map(str, rows)) == sorted(map(str, expected)), f"capture {compared} of seed {seed}"


@pytest.mark.parametrize("timeout", [0, 50_000_000])
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_is_old_expires_as_in_the_generators(file: Path, timeout: int) -> None:
    packets: Packets = list(read_packets(str(file)))[:400]
    keys = file.with_suffix(".keys")
    options = Options(bodies=False, tls_keylog=read_key_logs([keys]) if keys.exists() else "")
    series = Series(in_files(packets, range(7, len(packets), 7)), timeout, "messages", options)

    assert rows_of_columns(series) == rows_of_generators(series)


def rows_of_reader(
    reader: SeriesReader, files: Iterable[Iterable[Packet | CaptureIssue]], *, issues: bool = True
) -> list[Row]:
    rows = list[Row]()
    for packets in files:
        rows += read_series_rows(reader, "", reader.read_file(packets, issues=issues), "messages", Options())
    return rows + list(read_series_rows(reader, "", reader.close(), "messages", Options()))


def test_ports_that_are_used_again_after_a_quiet_time_are_another_connection() -> None:
    connection = connection_with_exchanges(2).send_client_bytes(bytes(2) + request_bytes(7))
    begun = list(read_packets(build_pcap(connection.packets)))
    reader = open_series("messages", Options(), KeyLog())
    rows = list(read_series_rows(reader, "", reader.read_file(begun), "messages", Options()))

    rows += read_series_rows(reader, "", reader.expire(2**62), "messages", Options())
    # Without a SYN: only the time shows that it is not the connection of before.
    connection.exchange(request_bytes(8), response_bytes(8))
    rows += rows_of_reader(reader, [list(read_packets(build_pcap(connection.packets)))[len(begun) :]])

    assert [row["stream_epoch"] for row in rows if row["status"] == "ok"] == [0, 0, 1]


def test_secrets_may_come_after_the_first_files() -> None:
    begun, encrypted = CAPTURES / "small_share.pcap", CAPTURES / "small_tlskey.pcap"
    options = Options(tls_keylog=read_key_logs([encrypted.with_suffix(".keys")]))
    reader = open_series("messages", Options(), KeyLog())
    for _ in reader.read_file(list(read_packets(str(begun)))[:50]):
        pass
    for _ in reader.expire(2**62):
        pass

    reader = load_checkpoint(dump_checkpoint(reader), options, KeyLog(options.tls_keylog))
    rows = rows_of_reader(reader, [read_packets(str(encrypted))])

    assert rows
    assert all(row["tls"] and row["status"] == "ok" for row in rows)


@pytest.mark.parametrize("convert", [bytes, convert_to_ipv6], ids=["ipv4", "ipv6"])
def test_tasks_divide_the_connections_by_their_hosts(convert: Callable[[bytes], bytes]) -> None:
    packets = [each._replace(data=convert(each.data)) for each in read_ip_packets()]
    found = list(read_packets(build_pcap(packets)))
    whole = rows_of_reader(open_series("messages", Options(), KeyLog()), [found])
    hosts = set[tuple[bytes, bytes]]()

    divided = list[Row]()
    for task in (False, True):
        reader = open_series("messages", Options(), KeyLog())

        def reads_hosts(host: bytes, other: bytes, task: bool = task) -> bool:
            hosts.add((host, other))
            return (sum(host) + sum(other)) % 2 == task

        reader.select_hosts(reads_hosts)
        divided += rows_of_reader(reader, [found[:80], found[80:]], issues=task)

    assert sorted(map(str, divided)) == sorted(map(str, whole))
    assert {len(host) for pair in hosts for host in pair} == {4 if convert is bytes else 16}


def test_packets_before_an_error_have_their_rows() -> None:
    packets = list(read_packets(build_pcap(connection_with_exchanges(3).packets)))

    def damaged() -> Iterator[Packet | CaptureIssue]:
        yield from packets
        raise OSError("the disk was removed")

    reader, outcomes = open_series("messages", Options(), KeyLog()), list[Outcome]()
    with pytest.raises(OSError, match="the disk was removed"):
        outcomes.extend(reader.read_file(damaged()))

    assert [type(outcome) for outcome in outcomes] == [Exchange] * 3
