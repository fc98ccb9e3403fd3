"""The page of releases: each difference has its row, and a difference that nothing shows is refused."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mockbroker.state.release import RELEASES
from tools.reference import releases


def test_a_version_a_feature_and_a_configuration_have_their_rows() -> None:
    page = releases.render_page()

    assert "| 18 | ApiVersions | 0-4 | 0-5 |" in page
    assert "| `share.version` | 0-1 | 0-2 |" in page
    assert "| topic | `errors.deadletterqueue.group.enable` | BOOLEAN | any |" in page


def test_a_rule_that_no_conversation_shows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    older = RELEASES["4.3"]
    changed = replace(older.share, groups=replace(older.share.groups, epoch_bumps_on_join=7))
    monkeypatch.setattr(releases, "RELEASES", {"4.4": replace(older, name="4.4", share=changed), "4.3": older})

    with pytest.raises(ValueError, match=r"share\.groups\.epoch_bumps_on_join names no conversation"):
        releases.render_page()
