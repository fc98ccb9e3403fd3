"""Key stores that change at random while a cluster runs: what is served is always what a model expects."""

from __future__ import annotations

import logging
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from kwire.client import Client
from kwire.error_codes import ErrorCode
from kwire.messages import incremental_alter_configs as incremental
from mockbroker import Cluster, KafkaError
from tests.support.certificates import STORE_PASSWORD, SelfSigned, create_self_signed, fetch_certificate

_PREFIX = "listener.name.ssl.ssl.keystore."
_STEPS_MAX = 200
_BROKER, _SET, _DELETE = 4, 0, 1


class _Errors(logging.Handler):
    """Collects internal errors."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        self.seen.append(record.getMessage())


class _Round:
    """A cluster with one node, and the certificate that the model expects."""

    def __init__(self, rng: random.Random, folder: Path, stores: list[SelfSigned]) -> None:
        self._rng = rng
        self._folder = folder
        self._stores = stores
        self._live = folder / "live.p12"
        self._time_s = 1
        self._content = self._place(stores[0])
        self.expected = stores[0].certificate
        # The location that is set dynamically, None for the static one, and what is in its file.
        self._dynamic: SelfSigned | None = None

    @property
    def properties(self) -> dict[str, object]:
        """The configuration of the cluster."""
        store = {"location": self._live, "password": STORE_PASSWORD, "type": "PKCS12"}
        listeners = "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0"
        return {"listeners": listeners, **{f"{_PREFIX}{end}": value for end, value in store.items()}}

    def _place(self, store: SelfSigned | None) -> SelfSigned | None:
        """Replace the file of the static store, None by damage."""
        if store is None:
            self._live.write_bytes(self._rng.randbytes(self._rng.randrange(2000)))
        else:
            shutil.copy(store.pkcs12, self._live)
        self._time_s += 1
        os.utime(self._live, (self._time_s, self._time_s))
        self._content = store
        return store

    def take_step(self, cluster: Cluster) -> Iterator[str]:
        """One random step. Yields: violations."""
        step = self._rng.choice(("replace", "damage", "dynamic", "static", "touch", "missing", "restart", "reset"))
        if step in ("replace", "damage"):
            self._place(self._rng.choice(self._stores) if step == "replace" else None)
        elif step == "dynamic":
            self._dynamic = self._rng.choice(self._stores)
            yield from self._alter(cluster, "location", str(self._dynamic.pkcs12), ErrorCode.NONE)
            self.expected = self._dynamic.certificate
        elif step == "static":
            # Its file is read again if the value of the configuration changes; damage is refused then.
            is_refused = self._dynamic is not None and self._content is None
            yield from self._alter(
                cluster, "location", None, ErrorCode.INVALID_REQUEST if is_refused else ErrorCode.NONE
            )
            if not is_refused:
                self._dynamic = None
                self._expect_static()
        elif step == "touch":
            yield from self._alter(cluster, "log.cleaner.threads", "1", ErrorCode.NONE)
            if self._dynamic is None:
                self._expect_static()
        elif step == "missing":
            yield from self._alter(cluster, "location", str(self._folder / "none"), ErrorCode.INVALID_REQUEST)
        else:
            yield from self._start_again(cluster, step)
        seen = fetch_certificate(cluster.nodes()[0].endpoints["SSL"])
        if seen != self.expected:
            yield f"after {step!r} another certificate is served than the one that is configured"

    def _expect_static(self) -> None:
        if self._content is not None:
            self.expected = self._content.certificate

    def _start_again(self, cluster: Cluster, step: str) -> Iterator[str]:
        is_usable = self._content is not None
        if step == "restart":
            cluster.stop_node(0)
        try:
            if step == "restart":
                cluster.start_node(0)
            else:
                cluster.reset()
        except (KafkaError, ValueError):
            if is_usable:
                yield f"{step!r} was refused with a store that can be used"
        else:
            if not is_usable:
                yield f"{step!r} was accepted with a store that cannot be used"
        if step == "restart" and not is_usable:
            self._place(self._stores[0])
            cluster.start_node(0)
            is_usable = True
        if is_usable:
            self._dynamic = self._dynamic if step == "restart" else None
            self._expect_static()
            if self._dynamic is not None:
                self.expected = self._dynamic.certificate

    def _alter(self, cluster: Cluster, name: str, value: str | None, expected: ErrorCode) -> Iterator[str]:
        key = name if "." in name else f"{_PREFIX}{name}"
        change = incremental.AlterableConfig(key, _DELETE if value is None else _SET, value)
        resource = incremental.AlterConfigsResource(_BROKER, "0", [change])
        with Client(cluster.nodes()[0].endpoints["PLAINTEXT"]) as client:
            row = client.send(incremental.IncrementalAlterConfigsRequest(resources=[resource])).responses[0]
        if row.error_code != expected:
            yield f"{key}={value}: answered with {row.error_code} ({row.error_message}), expected {int(expected)}"


def attack(rng: random.Random, *, seconds: float) -> Iterator[str]:
    """Change, damage and replace key stores, restart the node and reset the cluster.

    Yields: certificates and answers that the model does not expect, and internal errors.
    """
    until_s = time.monotonic() + seconds
    errors = _Errors()
    logging.getLogger("mockbroker").addHandler(errors)
    try:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            stores = [create_self_signed(folder, f"store-{number}") for number in range(3)]
            state = _Round(rng, folder, stores)
            with Cluster(properties=state.properties) as cluster:
                for _ in range(_STEPS_MAX):
                    yield from state.take_step(cluster)
                    if time.monotonic() > until_s:
                        break
        yield from errors.seen
    finally:
        logging.getLogger("mockbroker").removeHandler(errors)
