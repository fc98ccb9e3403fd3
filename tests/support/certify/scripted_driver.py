"""A driver without a client, whose only argument says how it behaves: `python scripted_driver.py crash`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

SETTINGS = ["bootstrap_servers", "client_id", "acks"]
HELLO = {
    "protocol": 1,
    "name": "scripted",
    "version": "1.0",
    "language": "Python",
    "capabilities": ["producer", "consumer.assign"],
    "settings": SETTINGS,
}
DELIVERY = {"topic": "orders", "partition": 0, "offset": 0}
#: What hello answers in addition or instead, by behaviour.
HELLO_OF: dict[str, dict[str, Any]] = {
    "future": {"protocol": 2},
    "unknown-capability": {"capabilities": ["producer", "telepathy"]},
    "unknown-setting": {"settings": ["bootstrap_servers", "colour"]},
    "second": {"name": "second"},
    "bounded": {"settings": [*SETTINGS, "request_timeout_ms"]},
    "partial": {
        "capabilities": ["producer", "consumer.classic"],
        "settings": [*SETTINGS, "group_id", "auto_offset_reset", "enable_auto_commit", "metadata_max_age_ms"],
    },
}
#: The command of the behaviour, with this file.
SLEEPER = "import time; time.sleep(600)"


def command(behaviour: str = "good") -> str:
    """The command line of the driver."""
    return f"{sys.executable} {Path(__file__).resolve()} {behaviour}"


def write(line: str) -> None:
    """Write a line to the command."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def answer(behaviour: str, request: dict[str, Any]) -> dict[str, Any]:
    """The answer of a driver that keeps to the protocol."""
    method, client = request["method"], request["params"].get("client", "")
    results: dict[str, dict[str, Any]] = {
        "hello": {**HELLO, **HELLO_OF.get(behaviour, {})},
        "open": {},
        "close": {},
        "send": {"deliveries": [DELIVERY for _ in request["params"].get("records", ())]},
        "poll": {"records": [{**DELIVERY, "key": None, "value": client}]},
        "assign": {},
    }
    if behaviour == "fails" and method == "send":
        return {"error": {"name": "MESSAGE_TOO_LARGE", "message": "too large", "fatal": False, "retriable": False}}
    if method == "open" and is_refused(behaviour, request["params"]):
        return {"error": {"name": "LOCAL_UNSUPPORTED", "message": "a setting"}}
    if method not in results:
        return {"error": {"name": "LOCAL_UNSUPPORTED", "message": method}}
    return {"result": results[method]}


def is_refused(behaviour: str, params: dict[str, Any]) -> bool:
    """Whether a client is not opened: "partial" has a setting for producers only, "asks-acks" needs acks."""
    kind, settings = params.get("kind"), params.get("settings", {})
    if behaviour == "partial":
        return kind == "consumer" and "metadata_max_age_ms" in settings
    return behaviour == "asks-acks" and kind == "producer" and settings.get("acks") != "all"


def misbehave(behaviour: str, request: dict[str, Any]) -> bool:
    """Do what the behaviour is, after hello. Returns: whether that is instead of an answer."""
    if behaviour == "crash":
        print("Traceback: the driver broke down", file=sys.stderr, flush=True)
        os._exit(3)
    if behaviour == "logs":
        print(f"call of {request['method']}", file=sys.stderr, flush=True)
        if request["method"] == "send":
            write("DEBUG sending")
            return True
    if behaviour == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if behaviour == "flood":
        for _ in range(100_000):
            write('{"id": 0, "result": {}}')
    if behaviour == "long-line":
        write("x" * (2 << 20))
    if behaviour == "twice":
        write(json.dumps({"id": request["id"], "result": {}}))
    lines = {
        "rubbish": "DEBUG opening the client",
        "wrong-id": '{"id": 77, "result": {}}',
        "both": json.dumps({"id": request["id"], "result": {}, "error": {"name": "LOCAL_OTHER"}}),
        "unknown-error": json.dumps({"id": request["id"], "error": {"name": "KAPUTT"}}),
        "wrong-result": json.dumps({"id": request["id"], "result": {"deliveries": [{"topic": "orders"}]}}),
    }
    if behaviour in lines:
        write(lines[behaviour])
    if behaviour == "closed-stdout":
        os.close(1)
    return behaviour in (*lines, "silent", "flood", "long-line", "closed-stdout")


def main(behaviour: str) -> None:
    """Answer requests until stdin ends."""
    if behaviour == "exits":
        print("no such client library", file=sys.stderr)
        raise SystemExit(1)
    if behaviour in ("child", "detached"):
        child = subprocess.Popen([sys.executable, "-c", SLEEPER], start_new_session=behaviour == "detached")
        print(f"child {child.pid}", file=sys.stderr, flush=True)
    if behaviour == "noisy":
        sys.stderr.write("noise\n" * 200_000)
        sys.stderr.flush()
    for line in sys.stdin:
        request = json.loads(line)
        if request["method"] != "hello" and misbehave(behaviour, request):
            continue
        write(json.dumps({"id": request["id"], **answer(behaviour, request)}))
    if behaviour == "deaf":
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1])
