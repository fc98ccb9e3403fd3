"""The command `mockbroker`: runs a cluster until a signal ends it."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol, cast

from kwire.escape import printable_lines
from kwire.package_version import version_line
from kwire.shell_completion import add_command, complete
from mockbroker.cluster_options import (
    STOP_GRACE_HELP,
    config_dialect,
    create_security,
    load_nodes,
    parse_control_options,
    parse_stop_grace,
    parse_storage_options,
    persister_settings,
    refuse_own_listeners,
)
from mockbroker.config.broker_config import BrokerConfig, ConfigError
from mockbroker.config.memory_limit import parse_memory_limit
from mockbroker.config.profiles import DEFAULT_PROFILE, profile_settings
from mockbroker.config.releases import DEFAULT_RELEASE, RELEASES, choose_release
from mockbroker.end_signals import end_with_signals
from mockbroker.kafka_error import KafkaError
from mockbroker.log.log_output import FORMATS, LEVELS, start_log
from mockbroker.log.subjects import SERVER
from mockbroker.net.event_loops import new_event_loop
from mockbroker.net.listeners import NODES_MAX
from mockbroker.server import Server
from mockbroker.server_options import Options

if TYPE_CHECKING:
    from pathlib import Path

    from mockbroker.config.node_options import NodeProperties
    from mockbroker.control.deferred_control import DeferredControl
    from mockbroker.control.operations import ControlApi
    from mockbroker.control.options import ControlOptions
    from mockbroker.faults.cluster_model import ClusterFault
    from mockbroker.faults.model import Fault

_EXIT_USAGE = 2

#: The modules of the sub-commands; without one, the command runs a cluster.
COMMANDS = {
    "certify": "mockbroker.certify.command",
    "proxy": "mockbroker.proxy.command",
    "replay": "mockbroker.replay.command",
}


_DESCRIPTION = """\
A Kafka cluster in one process, on loopback, for tests of clients. Without
--data-dir, nothing is left when it ends. The first line printed is the
bootstrap list."""
_EPILOG = """\
examples:
  mockbroker --topic orders:2 --profile quick
  mockbroker --nodes 3 --data-dir data
  mockbroker --port 0 --nodes 3 --control 0 --capture traffic.pcapng
  mockbroker --set auto.create.topics.enable=false --sasl 'PLAIN alice:secret'

other commands, each with its own --help:
  mockbroker replay     send a capture to a broker, and compare the responses
  mockbroker certify    judge Kafka clients by cases
  mockbroker proxy      stand between clients and a Kafka cluster"""


class CommandModule(Protocol):
    """The module of a sub-command."""

    def create_parser(self) -> argparse.ArgumentParser:
        """The options of the sub-command."""

    def main(self, arguments: Sequence[str]) -> int:
        """Run the sub-command. Returns: the exit code."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command. Exit codes: 0 ended by a signal, 2 wrong usage or an invalid configuration."""
    complete(_completed_parser)
    words = sys.argv[1:] if arguments is None else arguments
    if words and words[0] in COMMANDS:
        command = cast(CommandModule, importlib.import_module(COMMANDS[words[0]]))
        return command.main(words[1:])
    parsed = _create_parser().parse_args(words)
    start_log(level=parsed.log_level, log_format=parsed.log_format)
    try:
        control_options = parse_control_options(parsed.control, parsed.control_token)
        server = Server(_parse_options(parsed))
    except (ConfigError, OSError, KafkaError, UnicodeDecodeError, ImportError) as error:
        return _report_error(error)
    loop = new_event_loop()
    try:
        return loop.run_until_complete(
            _serve(
                server,
                control_options,
                has_owner=parsed.exit_with_stdin,
                print_listeners=parsed.print_listeners,
            )
        )
    finally:
        loop.close()


async def _serve(
    server: Server, control_options: ControlOptions | None, *, has_owner: bool, print_listeners: bool
) -> int:
    ended = asyncio.Event()
    control = None
    try:
        await server.start()
        if control_options is not None:
            control = _start_control(server, control_options, ended)
    except (ConfigError, OSError, ImportError) as error:
        await server.stop()
        return _report_error(error)
    end_with_signals(ended)
    if has_owner:
        from mockbroker.standard_input import end_with_stdin

        end_with_stdin(ended)
    # The only lines on stdout: scripts read the addresses from them.
    security = server.options.security
    token_url = None if security is None else security.token_endpoint_url
    control_url = None if control is None else control.url
    lines = [server.bootstrap(), control_url, token_url, server.bootstrap_controllers()]
    listeners = server.listeners() if print_listeners else []
    print(*filter(None, lines), *listeners, sep="\n", flush=True)
    await ended.wait()
    grace_s = server.begin_stop()
    if control is not None:
        await asyncio.to_thread(control.stop, grace_s)
    await server.stop()
    return 0


def _start_control(server: Server, options: ControlOptions, ended: asyncio.Event) -> DeferredControl:
    """Start the control over HTTP. ended: is set to end the process. Raises: OSError."""
    from mockbroker.control.attached_cluster import AttachedCluster, start_control

    return start_control(AttachedCluster(server), _load_control_api, options, ended)


def _load_control_api() -> ControlApi:
    from mockbroker.control.routes import CLUSTER_API

    return CLUSTER_API


def _report_error(error: Exception) -> int:
    print(printable_lines(f"mockbroker: {error}"), file=sys.stderr)
    return _EXIT_USAGE


def _parse_options(parsed: argparse.Namespace) -> Options:
    storage = parse_storage_options(
        parsed.data_dir,
        fsync=parsed.fsync,
        repair=parsed.repair,
        share_edition=parsed.share_edition,
        share_persister=parsed.share_persister,
    )
    text = parsed.properties.read_text(encoding="utf-8") if parsed.properties else ""
    settings = [*parsed.set, *persister_settings(parsed.share_persister)]
    release = choose_release(parsed.release, parsed.share_edition)
    dialect = config_dialect(parsed.share_edition)
    config = BrokerConfig.from_properties(text, settings, release=release, dialect=dialect)
    security = create_security(parsed.tls, parsed.sasl, parsed.advertised, parsed.data_dir)
    default_port = None if "listeners" in config.given else 9092
    if security is not None:
        refuse_own_listeners(config)
        own = security.broker_settings()
        config = BrokerConfig.from_properties(text, [*own, *settings], release=release, dialect=dialect)
        if security.certificates is not None:
            folder = security.certificates.authority.parent
            SERVER.info("TLS: ca.pem, and client.pem with client.key, are in %(folder)s", folder=str(folder))
    config = config.with_settings(profile_settings(parsed.profile))
    limits, node_options = load_nodes(
        config, parsed.versions, _parse_node_settings(parsed.node_set), parsed.share_edition
    )
    return Options(
        nodes=parsed.nodes,
        port=default_port if parsed.port is None else parsed.port,
        config=config,
        features=tuple(parsed.feature),
        topics=_parse_topics(parsed.topic),
        capture=parsed.capture,
        seed=parsed.seed,
        add_scram=(*(security.scram_users() if security is not None else ()), *parsed.add_scram),
        share_edition=parsed.share_edition,
        share_persister=parsed.share_persister,
        faults=_load_faults(parsed.faults),
        chaos=_choose_chaos(parsed.chaos, parsed.seed),
        security=security,
        versions=limits,
        node_options=node_options,
        profile=parsed.profile,
        host=parsed.host,
        advertised=parsed.advertised,
        memory_limit=parse_memory_limit(parsed.memory_limit),
        controller_port=parsed.controller_port,
        storage=storage,
        stop_grace_ms=parse_stop_grace(parsed.stop_grace),
    )


def _parse_node_settings(settings: Sequence[str]) -> NodeProperties:
    """The properties of single nodes. Raises: ConfigError."""
    if not settings:
        return {}
    from mockbroker.config.node_options import parse_node_settings

    return parse_node_settings(settings)


def _load_faults(path: Path | None) -> tuple[Fault | ClusterFault, ...]:
    """The faults of a file; without one, their modules are not imported. Raises: ConfigError, OSError."""
    if path is None:
        return ()
    from mockbroker.faults.control import load_faults
    from mockbroker.faults.fault_error import FaultError

    try:
        return load_faults(path)
    except FaultError as error:
        raise ConfigError(f"--faults {error}") from error


def _choose_chaos(profile: str | None, seed: int | None) -> tuple[str, int] | None:
    """The profile and its seed, which is that of the cluster if it has one. Raises: ConfigError for an unknown one."""
    if profile is None:
        return None
    from mockbroker.faults.chaos import check_profile, choose_seed
    from mockbroker.faults.fault_error import FaultError

    try:
        check_profile(profile)
    except FaultError as error:
        raise ConfigError(f"--{error}") from error
    chosen = choose_seed() if seed is None else seed
    SERVER.warning("chaos %(profile)s, seed %(seed)d: repeat it with --seed %(seed)d", profile=profile, seed=chosen)
    return profile, chosen


def _parse_topics(texts: Iterable[str]) -> dict[str, int]:
    topics: dict[str, int] = {}
    for text in texts:
        name, _, count = text.partition(":")
        if not name or (count and not count.isdigit()) or count == "0":
            raise ConfigError(f"--topic {text!r}: a topic has the form NAME:PARTITIONS")
        if name in topics:
            raise ConfigError(f"--topic {text!r}: {name!r} is given twice")
        topics[name] = int(count or 1)
    return topics


def _parse_path(text: str) -> Path:
    from pathlib import Path

    return Path(text)


def _parse_node_count(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= NODES_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of nodes from 1 to {NODES_MAX}")
    return int(text)


class _Version(argparse.Action):
    """``--version``: reads the version number only when requested."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="show the version and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"{version_line('mockbroker')} (Kafka {', '.join(RELEASES)})")
        parser.exit()


def _completed_parser(name: str) -> argparse.ArgumentParser:
    """The parser for completion: a sub-command with its options, or all options and the names of sub-commands."""
    if name not in COMMANDS:
        parser = _create_parser()
        parser.add_argument("command", nargs="?", choices=sorted(COMMANDS))
        return parser
    parser = argparse.ArgumentParser(prog="mockbroker")
    add_command(parser.add_subparsers(), cast(CommandModule, importlib.import_module(COMMANDS[name])).create_parser())
    return parser


def _create_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mockbroker",
        usage="mockbroker [options]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        # argparse creates a formatter for each argument, which asks for the terminal's width unless it has one.
        formatter_class=partial(argparse.RawDescriptionHelpFormatter, width=80),
    )
    _add_content_options(parser.add_argument_group("the cluster and its contents"))
    _add_address_options(parser.add_argument_group("addresses and logins"))
    _add_behaviour_options(parser.add_argument_group("behaviour"))
    _add_test_options(parser.add_argument_group("faults, control and recording"))
    parser.add_argument("--version", action=_Version)
    levels = f"{', '.join(LEVELS)} (default info)"
    parser.add_argument("--log-level", choices=LEVELS, default="info", metavar="L", help=levels)
    formats = "of the log on stderr: text, or json for one JSON object a line (default text)"
    parser.add_argument("--log-format", choices=FORMATS, default="text", metavar="F", help=formats)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    return parser


def _add_content_options(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    nodes = "number of brokers (default 1, or those of --data-dir)"
    add("--nodes", type=_parse_node_count, metavar="N", help=nodes)
    add("--topic", action="append", default=[], metavar="NAME:PARTITIONS", help="create a topic; repeatable")
    add("--properties", type=_parse_path, metavar="FILE", help="a Kafka server.properties file")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="a broker configuration; repeatable")
    node_set = "a broker configuration of one node; repeatable"
    add("--node-set", action="append", default=[], metavar="NODE:KEY=VALUE", help=node_set)
    add("--feature", action="append", default=[], metavar="NAME=LEVEL", help="a feature level; repeatable")
    add("--seed", type=int, metavar="N", help="seed of all randomness in the cluster")
    memory = "of all logs, as 512MiB; above it produced batches are refused (default: half of the machine's)"
    add("--memory-limit", metavar="SIZE", help=memory)
    add("--data-dir", metavar="DIR", help="store everything in this folder, from which the next start goes on")
    add("--fsync", action="store_true", help="with --data-dir: acknowledge when it is on the disk")
    add("--repair", action="store_true", help="with --data-dir: cut logs at damage instead of refusing to start")


def _add_address_options(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    port_help = "port of node 0; node i listens on PORT + i; 0: any free port (default 9092)"
    add("--port", type=int, metavar="PORT", help=port_help)
    add("--host", metavar="HOST", help="address to listen on, as 0.0.0.0 in a container (default 127.0.0.1)")
    add("--advertised", metavar="HOST[:PORT]", help="address that clients are given; the port is that of node 0")
    listeners = "print a line for each listener at the end, with its bound and its advertised address"
    add("--print-listeners", action="store_true", help=listeners)
    controller = "a listener of the controller, for clients with bootstrap.controllers; its address is printed"
    add("--controller-port", type=int, metavar="PORT", help=controller)
    add("--tls", metavar="auto", help="encrypt connections, with certificates that are made now")
    sasl = (
        "let clients log in as this user, with PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; "
        "OAUTHBEARER alone: as any user, with tokens of an endpoint whose URL is printed"
    )
    add("--sasl", metavar="'MECHANISM USER:PASSWORD'", help=sasl)
    users = "create a user at the start: SCRAM-SHA-256=[name=NAME,password=PASSWORD], the format of kafka-storage.sh"
    add("--add-scram", action="append", default=[], metavar="USER", help=users)


def _add_behaviour_options(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    profiles = "timers: kafka (Kafka's own, the default) or quick (short ones, for tests)"
    add("--profile", default=DEFAULT_PROFILE, metavar="P", help=profiles)
    add("--release", metavar="R", help=f"release of Kafka: {', '.join(RELEASES)} (default {DEFAULT_RELEASE})")
    versions = "API versions of an older Kafka: 2.8, or at most these: Produce=8,Fetch=11"
    add("--versions", metavar="V", help=versions)
    add("--share-edition", metavar="E", help="edition of KIP-932 (default: that of the release)")
    persisters = "where share groups store their state: default, no-op (nowhere) or control-records"
    add("--share-persister", default="default", metavar="P", help=persisters)


def _add_test_options(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--faults", type=_parse_path, metavar="FILE.json", help="faults from the start: see docs/faults.md")
    add("--chaos", metavar="PROFILE", help="disturb the cluster: a profile of docs/faults.md, as rolling-restart")
    control = "control over HTTP: PORT on loopback, 0 for any free one, or HOST:PORT; its URL is the second line"
    add("--control", metavar="[HOST:]PORT", help=control)
    needs = "that control asks for, required beyond loopback (default: the variable MOCKBROKER_CONTROL_TOKEN)"
    add("--control-token", metavar="TOKEN", help=needs)
    add("--capture", type=_parse_path, metavar="OUT.pcapng", help="write all traffic to this file")
    add("--stop-grace", type=float, default=1.0, metavar="SECONDS", help=STOP_GRACE_HELP)
    owner = "end when standard input is closed, as it is when the program that started this command has ended"
    add("--exit-with-stdin", action="store_true", help=owner)


if __name__ == "__main__":
    sys.exit(main())
