"""Changes of the key store of a running listener, which are sent to real brokers and to ours."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kwire import Client
from kwire.messages import alter_configs as legacy
from kwire.messages import incremental_alter_configs as incremental
from kwire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.support.certificates import STORE_PASSWORD, SelfSigned, create_self_signed, fetch_certificate

LISTENERS = "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0"
PREFIX = "listener.name.ssl."
_BROKER, _SET, _DELETE = 4, 0, 1
_NODE, _ALL_NODES = "0", ""
_LOCATION = f"{PREFIX}ssl.keystore.location"
_STORE = {"ssl.keystore.type": "PKCS12", "ssl.keystore.password": STORE_PASSWORD}
#: In values, `@NAME` is a file.
Changes = Mapping[str, str | None]


class KeyStoreCase(NamedTuple):
    """Changes, one after the other, of configurations by their whole names, None to delete one.

    live: what is done to the file that the broker was started with, before the last change: the name of a store that
    replaces it, or a content, or None that removes it. resource: the broker, or all. is_legacy: by AlterConfigs.
    """

    name: str
    changes: Sequence[Changes]
    live: str | bytes | None = "first"
    resource: str = _NODE
    is_legacy: bool = False


def _set(**values: str) -> Changes:
    """Names without the prefix of the listener, with _ for a dot."""
    return {f"{PREFIX}ssl.{name.replace('_', '.')}": value for name, value in values.items()}


_SAME, _OTHER = _set(keystore_location="@live.p12"), _set(keystore_location="@second.p12")

#: The last one leaves a certificate that no former one may replace.
CASES: tuple[KeyStoreCase, ...] = (
    KeyStoreCase("the same location and file", [_SAME]),
    KeyStoreCase("the same location, another file", [_SAME], live="second"),
    KeyStoreCase("the same location twice, another file", [_SAME, _SAME], live="second"),
    KeyStoreCase("the same location without its file", [_SAME], live=None),
    KeyStoreCase("the same location, a damaged file", [_SAME], live=b"damaged"),
    KeyStoreCase("the same location, another subject", [_SAME], live="renamed"),
    KeyStoreCase("another configuration of the broker, another file", [{"log.cleaner.threads": "2"}], live="second"),
    KeyStoreCase("another location", [_OTHER]),
    KeyStoreCase("another location by AlterConfigs", [_OTHER], is_legacy=True),
    KeyStoreCase("another location and the first one again", [_OTHER, _SAME]),
    KeyStoreCase("another location that is deleted", [_OTHER, dict.fromkeys(_OTHER)]),
    KeyStoreCase("a missing file", [_set(keystore_location="@none.p12")]),
    KeyStoreCase("a missing file by AlterConfigs", [_set(keystore_location="@none.p12")], is_legacy=True),
    KeyStoreCase("a folder", [_set(keystore_location="@.")]),
    KeyStoreCase("an empty location", [_set(keystore_location="")]),
    KeyStoreCase("a damaged file", [_set(keystore_location="@damaged.p12")]),
    KeyStoreCase("a wrong password", [_set(keystore_password="misremembered")]),
    KeyStoreCase("a wrong password of the key", [_set(key_password="misremembered")]),
    KeyStoreCase("another location with a wrong password", [{**_OTHER, **_set(keystore_password="misremembered")}]),
    KeyStoreCase("no password", [_set(keystore_password="")]),
    KeyStoreCase("the type PEM", [_set(keystore_type="PEM")]),
    KeyStoreCase("a PEM file and the type PEM", [_set(keystore_type="PEM", keystore_location="@second.pem")]),
    KeyStoreCase("a PEM file with the type PKCS12", [_set(keystore_location="@second.pem")]),
    KeyStoreCase("the type JKS", [_set(keystore_type="JKS")]),
    KeyStoreCase("an unknown type", [_set(keystore_type="FOO")]),
    KeyStoreCase("a key in the configuration", [_set(keystore_key="x")]),
    KeyStoreCase("another subject", [_set(keystore_location="@renamed.p12")]),
    KeyStoreCase("other addresses", [_set(keystore_location="@elsewhere.p12")]),
    KeyStoreCase("an expired certificate", [_set(keystore_location="@expired.p12")]),
    KeyStoreCase("without the prefix of a listener", [{"ssl.keystore.location": "@second.p12"}]),
    KeyStoreCase("for all brokers", [_OTHER], resource=_ALL_NODES),
    KeyStoreCase("for all brokers without a prefix", [{"ssl.keystore.location": "@second.p12"}], resource=_ALL_NODES),
    KeyStoreCase("a listener without TLS", [{"listener.name.plaintext.ssl.keystore.location": "@none.p12"}]),
    KeyStoreCase("an unknown listener", [{"listener.name.other.ssl.keystore.location": "@none.p12"}]),
    KeyStoreCase("a first trust store", [_set(truststore_type="PEM", truststore_location="@first.pem")]),
    KeyStoreCase("a password of no trust store", [_set(truststore_password="x")]),
    KeyStoreCase("client authentication", [_set(client_auth="required")]),
    KeyStoreCase("more addresses", [_set(keystore_location="@further.p12")]),
)


class KeyStoreBroker:
    """A broker whose SSL listener has the store `live.p12` of a folder.

    wait: until what has been answered has its effect.
    """

    def __init__(self, folder: Path, wait: Callable[[Client], None]) -> None:
        self._folder = folder
        self._wait = wait
        self._stores: dict[str, SelfSigned] = {
            "first": create_self_signed(folder, "first"),
            "second": create_self_signed(folder, "second"),
            "renamed": create_self_signed(folder, "renamed", subject="other"),
            "elsewhere": create_self_signed(folder, "elsewhere", hosts=("127.0.0.3",)),
            "expired": create_self_signed(folder, "expired", days=-1),
            "further": create_self_signed(folder, "further", hosts=("127.0.0.1", "127.0.0.2")),
        }
        (folder / "damaged.p12").write_bytes(b"damaged")
        self._modified_s = 1_000_000_000
        self._place("first")

    @property
    def properties(self) -> dict[str, str]:
        """What the broker is started with."""
        store = {**_STORE, "ssl.keystore.location": str(self._folder / "live.p12")}
        named = {f"{PREFIX}{name}": value for name, value in store.items()}
        security = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL"
        return {"listeners": LISTENERS, "listener.security.protocol.map": security, **named}

    def play(self, addresses: Mapping[str, str]) -> dict[str, Any]:
        """What the broker answers, and which store it serves then, by case."""
        with Client(addresses["PLAINTEXT"], timeout_s=30) as client:
            return {case.name: self._play(case, client, addresses["SSL"]) for case in CASES}

    def _play(self, case: KeyStoreCase, client: Client, address: str) -> dict[str, Any]:
        *before, last = case.changes
        for changes in before:
            self._alter(client, case, changes)
            self._wait(client)
        self._place(case.live)
        validated = self._alter(client, case, last, validate_only=True)
        self._wait(client)
        seen = {"validated": validated, "served after validation": self._served(address)}
        seen["altered"] = self._alter(client, case, last)
        self._wait(client)
        seen["served"] = self._served(address)
        seen["described"] = self._describe(client)
        names = dict.fromkeys(name for changes in case.changes for name in changes)
        self._place("first")
        self._alter(client, case._replace(is_legacy=False), names)
        self._wait(client)
        # The file of the start is read again with any change.
        self._alter(client, CASES[0], {"log.cleaner.threads": None})
        self._wait(client)
        return seen

    def _place(self, content: str | bytes | None) -> None:
        live = self._folder / "live.p12"
        if content is None:
            live.unlink()
            return
        if isinstance(content, bytes):
            live.write_bytes(content)
        else:
            shutil.copy(self._stores[content].pkcs12, live)
        self._modified_s += 10
        os.utime(live, (self._modified_s, self._modified_s))

    def _served(self, address: str) -> str:
        certificate = fetch_certificate(address)
        return next(name for name, store in self._stores.items() if store.certificate == certificate)

    def _alter(self, client: Client, case: KeyStoreCase, changes: Changes, *, validate_only: bool = False) -> list[Any]:
        """The code, and whether there is a text."""
        given = {name: self._expand(value) for name, value in changes.items()}
        request: Any
        if case.is_legacy:
            rows = [legacy.AlterableConfig(name, value) for name, value in given.items()]
            resource = legacy.AlterConfigsResource(_BROKER, case.resource, rows)
            request = legacy.AlterConfigsRequest([resource], validate_only=validate_only)
        else:
            configs = [
                incremental.AlterableConfig(name, _DELETE if value is None else _SET, value)
                for name, value in given.items()
            ]
            one = incremental.AlterConfigsResource(_BROKER, case.resource, configs)
            request = incremental.IncrementalAlterConfigsRequest([one], validate_only=validate_only)
        row = client.send(request).responses[0]
        return [int(row.error_code), bool(row.error_message)]

    def _expand(self, value: str | None) -> str | None:
        return str(self._folder / value[1:]) if value is not None and value.startswith("@") else value

    def _describe(self, client: Client) -> list[Any]:
        """The listener's configured location: value, source, whether it is sensitive and read-only."""
        resource = DescribeConfigsResource(_BROKER, _NODE, (_LOCATION,))
        rows = client.send(DescribeConfigsRequest([resource])).results[0].configs
        return [
            [
                row.value and row.value.replace(str(self._folder), "@"),
                row.config_source,
                row.is_sensitive,
                row.read_only,
            ]
            for row in rows
        ]
