"""The command `mockbroker`: a cluster on the command line."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from pathlib import Path

from mockbroker.cluster import config_dialect, persister_settings, refuse_later_options
from mockbroker.config import BrokerConfig, ConfigError
from mockbroker.kafka_error import KafkaError
from mockbroker.server import Options, Server, new_event_loop

_WRONG_USE = 2


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Exit codes: 0 ended by a signal, 2 wrong use or a configuration that cannot be."""
    parsed = _parser().parse_args(arguments)
    logging.basicConfig(
        stream=sys.stderr,
        level=parsed.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    try:
        server = Server(_options(parsed))
    except (ConfigError, OSError, KafkaError, UnicodeDecodeError) as error:
        return _wrong(error)
    loop = new_event_loop()
    try:
        return loop.run_until_complete(_serve(server))
    finally:
        loop.close()


async def _serve(server: Server) -> int:
    try:
        await server.start()
    except (ConfigError, OSError) as error:
        return _wrong(error)
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    # The first line on stdout, and nothing else there: scripts read it to learn the ports.
    print(server.bootstrap(), flush=True)
    await ended.wait()
    await server.stop()
    return 0


def _wrong(error: Exception) -> int:
    print(f"mockbroker: {error}", file=sys.stderr)
    return _WRONG_USE


def _options(parsed: argparse.Namespace) -> Options:
    refuse_later_options(control=parsed.control, data_dir=parsed.data_dir)
    text = parsed.properties.read_text(encoding="utf-8") if parsed.properties else ""
    config = BrokerConfig.from_properties(
        text,
        [*parsed.set, *persister_settings(parsed.share_persister)],
        dialect=config_dialect(parsed.share_edition),
    )
    port = parsed.port
    if port is None and "listeners" not in config.given:
        port = 9092
    return Options(
        nodes=parsed.nodes,
        port=port,
        config=config,
        features=tuple(parsed.feature),
        topics=dict(_topic(text) for text in parsed.topic),
        capture=parsed.capture,
        seed=parsed.seed,
        add_scram=tuple(parsed.add_scram),
        share_edition=parsed.share_edition,
        share_persister=parsed.share_persister,
    )


def _topic(text: str) -> tuple[str, int]:
    name, _, count = text.partition(":")
    if not name or (count and not count.isdigit()) or count == "0":
        raise ConfigError(f"--topic {text!r}: a topic has the form NAME:PARTITIONS")
    return name, int(count or 1)


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of nodes")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mockbroker",
        description="A Kafka 4.3 cluster in one process, on loopback. The first line it prints is the bootstrap list.",
    )
    add = parser.add_argument
    add("--port", type=int, metavar="PORT", help="port of node 0; node i listens on PORT + i; 0: any (default 9092)")
    add("--nodes", type=_count, default=1, metavar="N", help="how many brokers (default 1)")
    add("--properties", type=Path, metavar="FILE", help="a Kafka server.properties file")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="a broker configuration; may be given again")
    add("--feature", action="append", default=[], metavar="NAME=LEVEL", help="a feature level, as share.version=0")
    add("--topic", action="append", default=[], metavar="NAME:PARTITIONS", help="a topic to start with")
    add("--capture", type=Path, metavar="OUT.pcapng", help="write all traffic to this file")
    add(
        "--add-scram",
        action="append",
        default=[],
        metavar="USER",
        help="SCRAM-SHA-256=[name=NAME,password=PASSWORD]: a user to start with, as kafka-storage.sh takes it",
    )
    add("--seed", type=int, metavar="N", help="seed of all chance in the cluster")
    add("--share-edition", default="4.3", metavar="E", help="edition of KIP-932 (default 4.3)")
    persisters = "default, no-op: share groups forget, or control-records"
    add("--share-persister", default="default", metavar="P", help=persisters)
    add("--control", type=int, metavar="PORT", help="not supported yet")
    add("--data-dir", metavar="DIR", help="not supported yet")
    levels = ("debug", "info", "warning", "error")
    add("--log-level", choices=levels, default="info", metavar="L", help=f"{', '.join(levels)} (default info)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
