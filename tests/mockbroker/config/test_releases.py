"""The releases that a cluster can be, and how one is selected."""

from __future__ import annotations

import pytest

from mockbroker import Cluster, ConfigError
from mockbroker.config.releases import DEFAULT_RELEASE, EDITION_RELEASE, choose_release


def test_without_a_selection_it_is_the_default_release() -> None:
    assert choose_release(None) == DEFAULT_RELEASE


def test_an_edition_of_share_groups_selects_the_release_that_it_changes() -> None:
    assert choose_release(None, "kip932-r1") == EDITION_RELEASE == choose_release("4.3", "kip932-r1")


def test_an_unknown_release_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ConfigError, match=r"release: '4\.2' is not one of 4\.4, 4\.3"):
        Cluster(release="4.2")


def test_an_edition_of_share_groups_is_refused_on_another_release_than_its_own() -> None:
    with pytest.raises(ConfigError, match=r"'kip932-r1' is served by 4\.3, not by 4\.4"):
        Cluster(release="4.4", share_edition="kip932-r1")
