"""What a release serves: versions and features as a real broker of that release lists them."""

from __future__ import annotations

import pytest

from kwire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.support.brokers.broker import Broker

#: Source: the answers to ApiVersions of real brokers; of the APIs only those in which the releases differ.
LISTED = {
    "4.3": {18: (0, 4), 28: (0, 5), 42: (0, 2), 88: (0, 0), 89: (0, 0)},
    "4.4": {18: (0, 5), 28: (0, 6), 42: (0, 3), 88: (0, 1), 89: (0, 1)},
}
FEATURES = {
    "4.3": [("metadata.version", 7, 30), ("share.version", 0, 1)],
    "4.4": [("metadata.version", 7, 33), ("share.version", 0, 2)],
}


def list_versions(release: str) -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    response: ApiVersionsResponse = Broker(release=release).call(request, 4)
    return response


@pytest.mark.parametrize("release", LISTED)
def test_a_release_lists_its_own_versions_and_apis(release: str) -> None:
    listed = {row.api_key: (row.min_version, row.max_version) for row in list_versions(release).api_keys}
    differing = LISTED["4.4"].keys()

    assert {key: versions for key, versions in listed.items() if key in differing} == LISTED[release]


@pytest.mark.parametrize("release", FEATURES)
def test_a_release_supports_its_own_features_and_has_the_highest_levels(release: str) -> None:
    response = list_versions(release)
    supported = [(row.name, row.min_version, row.max_version) for row in response.supported_features]
    finalized = {row.name: row.max_version_level for row in response.finalized_features}

    assert set(FEATURES[release]) <= set(supported)
    assert all(finalized[name] == high for name, _, high in FEATURES[release])
