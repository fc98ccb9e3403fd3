"""Feature levels of a freshly formatted cluster."""

from __future__ import annotations

import pytest

from mockbroker.config.features import finalize_levels
from mockbroker.config.keys import ConfigError


def test_features_are_those_that_a_formatted_cluster_finalizes() -> None:
    assert (finalize_levels()["share.version"], finalize_levels((), "4.3")["share.version"]) == (2, 1)
    assert "share.version" not in finalize_levels(["share.version=0"])
    assert (finalize_levels()["metadata.version"], finalize_levels((), "4.3")["metadata.version"]) == (33, 30)
    for wrong in ("share.version=3", "nosuch=1", "share.version", "share.version=x"):
        with pytest.raises(ConfigError, match="not"):
            finalize_levels([wrong])
