"""A consumer of old versions, without sessions, topic ids and leader epochs, is not judged by what it does not have."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import tests.support.certify.old_client_driver as old_client
from mockbroker.certify import command as certify

pytestmark = pytest.mark.slow

DRIVER = f"{sys.executable} {Path(old_client.__file__).resolve()}"
#: Errors that no broker gives to Fetch 4 and ListOffsets 1 without a leader epoch, and what they lack.
NOT_EXERCISED = {
    "fetching.errors.fenced-leader-epoch": "names no leader epoch in Fetch 4",
    "fetching.errors.offset-not-available": "from version 11 on",
    "fetching.errors.storage": "from version 6 on",
    "fetching.errors.unknown-leader-epoch": "names no leader epoch in Fetch 4",
    "fetching.errors.unknown-topic-id": "from version 13 on",
    "fetching.list-offsets.unknown-leader-epoch": "names no leader epoch in ListOffsets 1",
    "fetching.sessions.epochs": "no fetch session",
    "fetching.sessions.invalid-epoch": "no fetch session",
    "fetching.sessions.not-found": "no fetch session",
    "fetching.sessions.topic-id-error": "from version 13 on",
}
#: Errors that a broker gives to it: it shows them to the application, and reads on.
NON_STRICT = (
    "fetching.errors.not-leader",
    "fetching.errors.unknown-topic",
    "fetching.list-offsets.leader-not-available",
    "fetching.list-offsets.not-leader",
)
OK = (
    "fetching.errors.topic-authorization",
    "fetching.old-formats.append-time",
    "fetching.old-formats.compacted",
    "fetching.old-formats.magic-0",
    "fetching.old-formats.magic-0-gzip",
    "fetching.old-formats.magic-0-no-timestamp",
    "fetching.old-formats.magic-1",
    "fetching.old-formats.magic-1-middle",
    "fetching.old-formats.upgraded-log",
    "fetching.records.partial-batch",
)
#: Its records have no headers.
WITHOUT_HEADERS = "fetching.records.contents"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """The results of all these cases, by id."""
    folder = tmp_path_factory.mktemp("certify")
    patterns = [word for name in (*NOT_EXERCISED, *NON_STRICT, *OK, WITHOUT_HEADERS) for word in ("--cases", name)]
    certify.main(["--driver", DRIVER, *patterns, "--jobs", "2", "-o", str(folder)])
    run = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return {each["case"]: each for each in run["results"]}


@pytest.mark.parametrize(("case", "why"), NOT_EXERCISED.items())
def test_an_error_that_no_broker_gives_to_its_requests_is_not_judged(
    case: str, why: str, results: dict[str, dict[str, str]]
) -> None:
    assert results[case]["verdict"] == "NOT-EXERCISED", results[case]
    assert why in results[case]["seen"]


@pytest.mark.parametrize("case", NON_STRICT)
def test_an_error_that_it_shows_and_recovers_from_is_a_recommendation(
    case: str, results: dict[str, dict[str, str]]
) -> None:
    assert results[case]["verdict"] == "NON-STRICT", results[case]
    assert "the application sees no error" in results[case]["expected"]
    assert results[case]["deciding"]


@pytest.mark.parametrize("case", OK)
def test_what_it_has_is_judged(case: str, results: dict[str, dict[str, str]]) -> None:
    assert results[case]["verdict"] == "OK", results[case]


def test_a_record_that_is_not_as_it_was_written_is_shown_beside_that(results: dict[str, dict[str, str]]) -> None:
    result = results[WITHOUT_HEADERS]

    assert (result["verdict"], result["seen"]) == ("FAILED", "none")
    assert result["expected"] == 'both headers in order: ("trace", "1"), ("trace", "2")'
    assert result["deciding"]
