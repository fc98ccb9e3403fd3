"""Names, API keys and header versions."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kwire import UnsupportedVersion, registry, schema
from kwire.messages.metadata import MetadataRequest, MetadataResponse

pytestmark = pytest.mark.slow


def test_every_message_that_has_versions_has_a_class() -> None:
    for edition in registry.EDITIONS:
        for name in schema.own_message_names(edition):
            spec = schema.load_schema(name, edition)
            if not spec.versions:
                with pytest.raises(UnsupportedVersion):
                    registry.message_class(name, edition)
                continue
            made = registry.message_class(name, edition)
            codec = registry.codec_of_class(made)

            assert made.__name__ == name
            assert (made.NAME, made.EDITION) == (codec.name, codec.edition) == (name, edition)  # type: ignore[attr-defined]
            assert (spec.versions.low, spec.versions.high) == made.VERSIONS  # type: ignore[attr-defined]
            assert made.API_KEY == codec.api_key == (-1 if spec.api_key is None else spec.api_key)  # type: ignore[attr-defined]
            assert list(codec.readers) == list(codec.writers) == list(spec.versions.to_range())


def test_an_api_key_gives_name_versions_request_and_response() -> None:
    assert registry.api_name(3) == "Metadata"
    assert registry.api_versions(3) == (0, 13)
    assert registry.request_class(3) is MetadataRequest
    assert registry.response_class(3) is MetadataResponse
    assert list(registry.API_KEYS) == sorted(registry.API_KEYS)
    assert {0, 18, 78, 92} <= set(registry.API_KEYS)


def test_the_apis_that_kafka_4_removed_have_names_but_are_not_among_those_of_an_edition() -> None:
    removed = {4: "LeaderAndIsr", 5: "StopReplica", 6: "UpdateMetadata", 7: "ControlledShutdown"}

    assert {key: registry.api_name(key) for key in removed} == removed
    assert removed.keys().isdisjoint(registry.API_KEYS)
    for edition in registry.EDITIONS:
        assert set(registry.known_api_keys(edition)) == {*registry.api_keys(edition), *removed} | {0, 1, 2}
    assert registry.api_versions(7) == (0, 3)
    assert registry.api_versions(0) == (3, 13)


@pytest.mark.parametrize(("name", "version", "edition", "wanted"), [
    ("ProduceRequest", 2, "4.4", "before-4.0"),
    ("ProduceRequest", 3, "4.4", "4.4"),
    ("ProduceRequest", 2, "4.3", "before-4.0"),
    ("ProduceRequest", 99, "4.4", "4.4"),
    ("ProduceRequest", 3, "before-4.0", "before-4.0"),
    ("LeaderAndIsrRequest", 99, "4.4", "before-4.0"),
    ("ShareFetchRequest", 0, "4.4", "4.4"),
    ("ShareFetchRequest", 0, "4.0-early-access", "4.0-early-access"),
])  # fmt: skip
def test_the_codec_of_a_version_is_that_of_the_edition_or_of_what_kafka_removed(
    name: str, version: int, edition: str, wanted: str
) -> None:
    assert registry.codec_of_version(name, version, edition).edition == wanted


def test_the_codec_of_a_version_of_an_unknown_message_or_edition_is_refused() -> None:
    for name, edition in (("NoRequest", "4.4"), ("ProduceRequest", "5.0"), ("LeaderAndIsrRequest", "5.0")):
        with pytest.raises(UnsupportedVersion):
            registry.codec_of_version(name, 0, edition)


def test_removed_versions_are_imported_only_when_one_is_asked_for() -> None:
    code = """
import sys, kwire, kwire.headers
kwire.decode("FetchRequest", 4, bytes(21))
assert not [name for name in sys.modules if "before_4_0" in name]
kwire.decode("FetchRequest", 3, bytes(20))
assert [name for name in sys.modules if name.startswith("kwire.messages.before_4_0.")] == [
    "kwire.messages.before_4_0.fetch"]
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_api_key_is_named() -> None:
    for ask in (registry.api_name, registry.request_class, registry.response_class, registry.api_versions):
        with pytest.raises(UnsupportedVersion, match="4711"):
            ask(4711)
    with pytest.raises(UnsupportedVersion, match="4711"):
        registry.header_versions(4711, 0)


@pytest.mark.parametrize(("api_key", "version", "wanted"), [
    (3, 8, (1, 0)),
    (3, 9, (2, 1)),
    (18, 2, (1, 0)),
    (18, 3, (2, 0)),
    (17, 1, (1, 0)),
    (47, 0, (1, 0)),
    (78, 1, (2, 1)),
    (0, 0, (1, 0)),
    (4, 3, (1, 0)),
    (4, 4, (2, 1)),
    (7, 0, (0, 0)),
    (7, 1, (1, 0)),
])  # fmt: skip
def test_header_versions_follow_the_first_flexible_version(api_key: int, version: int, wanted: tuple[int, int]) -> None:
    assert registry.header_versions(api_key, version) == wanted


def test_no_message_module_is_imported_before_its_first_use() -> None:
    code = (
        "import sys, kwire, kwire.registry as r\n"
        "before = [n for n in sys.modules if n.startswith('kwire.messages.') and n != 'kwire.messages.index']\n"
        "r.message_class('FetchRequest')\n"
        "print(before, 'kwire.messages.fetch' in sys.modules, 'kwire.messages.metadata' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[] True False"
