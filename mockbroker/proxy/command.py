"""The command `mockbroker proxy`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.escape import printable_lines
from mockbroker.cluster_options import STOP_GRACE_HELP, parse_control_options, parse_stop_grace
from mockbroker.config.keys import ConfigError
from mockbroker.end_signals import end_with_signals
from mockbroker.faults.fault_error import FaultError
from mockbroker.log.log_output import FORMATS, LEVELS, start_log
from mockbroker.net.event_loops import new_event_loop
from mockbroker.proxy.proxy import make_options
from mockbroker.proxy.proxy_server import ProxyOptions, ProxyServer

if TYPE_CHECKING:
    from mockbroker.control.deferred_control import DeferredControl
    from mockbroker.control.operations import ControlApi
    from mockbroker.control.options import ControlOptions

_EXIT_USAGE = 2


def main(arguments: Sequence[str]) -> int:
    """Run the command. Exit codes: 0 ended by a signal, by standard input or over HTTP, 1 no cluster, 2 wrong usage."""
    parsed = create_parser().parse_args(arguments)
    start_log(level=parsed.log_level, log_format=parsed.log_format)
    try:
        control_options = parse_control_options(parsed.control, parsed.control_token)
        options = make_options(
            parsed.upstream,
            port=parsed.port,
            host=parsed.host,
            advertised=parsed.advertised,
            upstream_tls_ca=parsed.upstream_tls_ca,
            capture=parsed.capture,
            faults=parsed.faults or (),
            seed=parsed.seed,
            stop_grace_ms=parse_stop_grace(parsed.stop_grace),
        )
    except (ConfigError, FaultError, ImportError, OSError) as error:
        return _report_error(error, _EXIT_USAGE)
    loop = new_event_loop()
    try:
        return loop.run_until_complete(
            _serve(
                options,
                control_options,
                has_owner=parsed.exit_with_stdin,
                print_listeners=parsed.print_listeners,
            )
        )
    finally:
        loop.close()


async def _serve(
    options: ProxyOptions, control_options: ControlOptions | None, *, has_owner: bool, print_listeners: bool
) -> int:
    try:
        server = ProxyServer(options)
        await server.start()
    except ConnectionError as error:
        return _report_error(error, 1)
    except (ConfigError, FaultError, OSError) as error:
        return _report_error(error, _EXIT_USAGE)
    ended = asyncio.Event()
    try:
        control = None if control_options is None else _start_control(server, control_options, ended)
    except (OSError, ImportError) as error:
        await server.stop()
        return _report_error(error, _EXIT_USAGE)
    end_with_signals(ended)
    if has_owner:
        from mockbroker.standard_input import end_with_stdin

        end_with_stdin(ended)
    # The only lines on stdout: scripts read the addresses from them.
    lines = [server.bootstrap(), *([] if control is None else [control.url])]
    print(*lines, *(server.listeners() if print_listeners else []), sep="\n", flush=True)
    await ended.wait()
    grace_s = server.begin_stop()
    if control is not None:
        await asyncio.to_thread(control.stop, grace_s)
    await server.stop()
    return 0


def _start_control(server: ProxyServer, options: ControlOptions, ended: asyncio.Event) -> DeferredControl:
    """Start the control over HTTP. ended: is set to end the process. Raises: OSError."""
    from mockbroker.control.attached_cluster import start_control
    from mockbroker.proxy.attached_proxy import AttachedProxy

    return start_control(AttachedProxy(server), _load_control_api, options, ended)


def _load_control_api() -> ControlApi:
    from mockbroker.proxy.control_api import PROXY_API

    return PROXY_API


def _report_error(error: Exception, code: int) -> int:
    print(printable_lines(f"mockbroker proxy: {error}"), file=sys.stderr)
    return code


def create_parser() -> argparse.ArgumentParser:
    """The options of the command."""
    description = (
        "Stand between clients and a Kafka cluster: addresses in responses are those of the proxy, which records, "
        "captures and disturbs the traffic. The first line printed is the address for clients."
    )
    epilog = "Exit codes: 0 ended by a signal or over HTTP, 1 the cluster cannot be reached, 2 wrong usage."
    parser = argparse.ArgumentParser(prog="mockbroker proxy", description=description, epilog=epilog)
    add = parser.add_argument
    add("--upstream", required=True, metavar="HOST:PORT", help="a broker of the cluster; the others are found")
    port_help = "port for that broker; the others follow; 0: any free port (default 9092)"
    add("--port", type=int, default=9092, metavar="PORT", help=port_help)
    add("--host", metavar="HOST", help="where to listen (default 127.0.0.1)")
    add("--advertised", metavar="HOST[:PORT]", help="the address for clients, if it is another one")
    listeners = "print a line for each listener at the end, with its bound and its advertised address"
    add("--print-listeners", action="store_true", help=listeners)
    add("--upstream-tls-ca", type=Path, metavar="FILE", help="authorities (PEM) of a cluster that needs TLS")
    add("--capture", type=Path, metavar="OUT.pcapng", help="write the traffic of the clients to this file")
    add("--faults", type=Path, metavar="FILE.json", help="faults of requests and connections: see docs/faults.md")
    control = "control over HTTP: PORT on loopback, 0 for any free one, or HOST:PORT; its URL is the second line"
    add("--control", metavar="[HOST:]PORT", help=control)
    needs = "that control asks for, required beyond loopback (default: the variable MOCKBROKER_CONTROL_TOKEN)"
    add("--control-token", metavar="TOKEN", help=needs)
    add("--stop-grace", type=float, default=1.0, metavar="SECONDS", help=STOP_GRACE_HELP)
    owner = "end when standard input is closed, as it is when the program that started this command has ended"
    add("--exit-with-stdin", action="store_true", help=owner)
    add("--seed", type=int, metavar="N", help="seed of the faults' random choices")
    add("--log-level", choices=LEVELS, default="info", metavar="L", help=f"{', '.join(LEVELS)} (default info)")
    formats = "of the log on stderr: text, or json for one JSON object a line (default text)"
    add("--log-format", choices=FORMATS, default="text", metavar="F", help=formats)
    return parser
