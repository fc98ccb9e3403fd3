"""The consumer processes of the demo and their output."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field

Record = tuple[int, int]
"""Partition and offset."""


@dataclass
class MemberOutput:
    """The output of one member: deliveries by record and delivery count, and acknowledgements."""

    deliveries: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    acknowledged: Counter[str] = field(default_factory=Counter)
    completed: set[Record] = field(default_factory=set)
    events: set[str] = field(default_factory=set)


class Member:
    """A consumer process. Its output is read by a thread, so that it never blocks."""

    def __init__(self, bootstrap: str, group: str, topic: str, behaviour: str) -> None:
        self.behaviour = behaviour
        self.output = MemberOutput()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tools.demo.consumer", bootstrap, group, topic, behaviour],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            match event["event"]:
                case "delivered":
                    self.output.deliveries[event["partition"], event["offset"], event["count"]] += 1
                case "acknowledged":
                    self.output.acknowledged[event["type"]] += 1
                    if event["type"] != "release":
                        self.output.completed.add((event["partition"], event["offset"]))
                case name:
                    self.output.events.add(name)

    @property
    def is_holding(self) -> bool:
        """Whether it keeps records without acknowledging them."""
        return "holding" in self.output.events

    def kill(self) -> None:
        """Kill the process, as in a crash: the connection breaks."""
        self._process.kill()
        self._finish()

    def stop(self) -> None:
        """Request it to close its consumer and end."""
        if self._process.poll() is None and self._process.stdin is not None:
            try:
                self._process.stdin.write("stop\n")
                self._process.stdin.flush()
                self._process.wait(15)
            except (BrokenPipeError, subprocess.TimeoutExpired):
                self._process.kill()
        self._finish()

    def _finish(self) -> None:
        self._process.wait(10)
        self._reader.join(10)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
