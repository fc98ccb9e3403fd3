"""Message classes and codecs by name, API key and edition; a generated module is imported on first use."""

from __future__ import annotations

import sys
from functools import cache, lru_cache
from importlib import import_module

import msgspec

from kwire.codec_table import Codec
from kwire.errors import UnsupportedVersion
from kwire.messages import index
from kwire.messages.index import APIS, LAYERS, MODULES, Api

#: The releases of Kafka, newest first; the newest one is the default edition.
RELEASES = index.RELEASES
DEFAULT_EDITION = RELEASES[0]

#: All editions; each but the default extends others and has only the messages in which it differs.
EDITIONS = tuple(LAYERS)

#: The edition of the versions and APIs that Kafka 4.0 removed: captures of old clients have them, and no broker.
REMOVED_EDITION = index.REMOVED_EDITION

#: ControlledShutdown in version 0: the only request whose header has no client id, which is version 0 of the header.
_WITHOUT_CLIENT_ID = 7, 0

#: The keys of all APIs of the default edition, ascending.
API_KEYS = tuple(APIS[DEFAULT_EDITION])


@cache
def api_keys(edition: str = DEFAULT_EDITION) -> tuple[int, ...]:
    """The keys of all APIs of an edition, ascending.

    Raises: UnsupportedVersion when there is no such edition.
    """
    require_edition(edition)
    apis: dict[int, Api | None] = {}
    for layer in reversed(LAYERS[edition]):
        apis |= APIS[layer]
    return tuple(sorted(key for key, api in apis.items() if api is not None))


@cache
def known_api_keys(edition: str = DEFAULT_EDITION) -> tuple[int, ...]:
    """The keys of `api_keys`, and of the APIs that Kafka 4.0 removed.

    Raises: UnsupportedVersion when there is no such edition.
    """
    return tuple(sorted({*api_keys(edition), *APIS[REMOVED_EDITION]}))


def require_edition(edition: str, requested: str = "") -> None:
    """Raises: UnsupportedVersion when there is no such edition; the error names what was requested in it."""
    if edition not in LAYERS:
        raise UnsupportedVersion(requested, f"edition {edition!r} is not one of {', '.join(EDITIONS)}")


@cache
def codec_of_name(name: str, edition: str = DEFAULT_EDITION) -> Codec:
    """The codec of a message by its name; a message that an edition lacks is that of the edition it extends.

    Raises: UnsupportedVersion when there is no such edition or message.
    """
    dotted = _find_module(name, edition)
    if not dotted:
        raise UnsupportedVersion(name, f"is not a message of edition {edition}")
    codecs: dict[str, Codec] = import_module(dotted).CODECS
    return codecs[name]


def _find_module(name: str, edition: str) -> str | None:
    require_edition(edition, name)
    return next((MODULES[layer][name] for layer in LAYERS[edition] if name in MODULES[layer]), None)


# Bounded: a capture may have any versions.
@lru_cache(maxsize=1024)
def codec_of_version(name: str, version: int, edition: str = DEFAULT_EDITION) -> Codec:
    """The codec of a message in a version: that of the edition, or that of the versions which Kafka 4.0 removed.

    If neither has the version, the codec is that of the edition, if it has the message.
    Raises: UnsupportedVersion when there is no such edition or message.
    """
    if name not in MODULES[REMOVED_EDITION]:
        return codec_of_name(name, edition)
    if not _find_module(name, edition):
        return codec_of_name(name, REMOVED_EDITION)
    codec = codec_of_name(name, edition)
    if version in codec.readers:
        return codec
    removed = codec_of_name(name, REMOVED_EDITION)
    return removed if version in removed.readers else codec


@cache
def codec_of_class(message: type[msgspec.Struct]) -> Codec:
    """The codec of a message class.

    Raises: UnsupportedVersion when the class is not a generated message.
    """
    codecs: dict[str, Codec] = getattr(sys.modules.get(message.__module__), "CODECS", {})
    codec = codecs.get(message.__name__)
    if codec is None or codec.message is not message:
        raise UnsupportedVersion(message.__name__, "is not a message class of kwire")
    return codec


def message_class(name: str, edition: str = DEFAULT_EDITION) -> type[msgspec.Struct]:
    """The class of a message by its name in the schema, such as ShareFetchRequest.

    Raises: UnsupportedVersion when there is no such edition or message.
    """
    return codec_of_name(name, edition).message


def api_name(api_key: int, edition: str = DEFAULT_EDITION) -> str:
    """The name of an API, such as ShareFetch.

    Raises: UnsupportedVersion when no API has the key, or there is no such edition.
    """
    return _find_api(api_key, edition).name


def api_versions(api_key: int, edition: str = DEFAULT_EDITION) -> tuple[int, int]:
    """The first and last version of an API in an edition; those of APIs that Kafka 4.0 removed, as it had them.

    Raises: UnsupportedVersion when no API has the key, or there is no such edition.
    """
    api = _find_api(api_key, edition)
    return api.low, api.high


def request_class(api_key: int, edition: str = DEFAULT_EDITION) -> type[msgspec.Struct]:
    """The request class of an API.

    Raises: UnsupportedVersion when no API has the key, or there is no such edition.
    """
    return message_class(f"{api_name(api_key, edition)}Request", edition)


def response_class(api_key: int, edition: str = DEFAULT_EDITION) -> type[msgspec.Struct]:
    """The response class of an API.

    Raises: UnsupportedVersion when no API has the key, or there is no such edition.
    """
    return message_class(f"{api_name(api_key, edition)}Response", edition)


def header_versions(api_key: int, version: int, edition: str = DEFAULT_EDITION) -> tuple[int, int]:
    """The versions of the request header and of the response header for a version of an API.

    Versions outside the API's range are allowed: a broker reads the header before it rejects the version.

    Raises: UnsupportedVersion when no API has the key, or there is no such edition.
    """
    api = _find_api(api_key, edition)
    if (api_key, version) == _WITHOUT_CLIENT_ID:
        return 0, 0
    return (2 if version >= api.flexible_request else 1), (1 if version >= api.flexible_response else 0)


@cache
def _find_api(api_key: int, edition: str) -> Api:
    require_edition(edition)
    layers = (*LAYERS[edition], REMOVED_EDITION)
    api = next((APIS[layer][api_key] for layer in layers if api_key in APIS[layer]), None)
    if api is None:
        raise UnsupportedVersion("", f"no API has the key {api_key}")
    return api
