"""The summary of a run of the fuzzer: pairs by API and version, differences by class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tools.oracle.fuzz.campaign import Campaign


def format_summary(campaign: Campaign) -> str:
    """The summary of a run, as text."""
    total, options = campaign.pairs.total(), campaign.options
    rate = total / campaign.took_s if campaign.took_s else 0.0
    lines = [
        f"{total} request pairs with Kafka {options.release}, seed {options.seed}, {campaign.took_s:.0f} s, "
        f"{rate:.0f} a second",
        f"{campaign.differing_steps} responses differ, in {len(campaign.confirmed)} classes; "
        f"{campaign.accepted} have accepted differences only",
        "",
        *_pairs_by_api(campaign.pairs),
        "",
    ]
    for difference, record in campaign.confirmed.items():
        versions = ",".join(str(version) for version in sorted(record.versions))
        lines.append(f"{record.count:6d} {difference} (versions {versions}; {record.file})")
    once = [name for name, record in campaign.classes.items() if name not in campaign.confirmed]
    if once:
        lines += ["", "not shown again, or only after another difference:"]
        lines += [f"{campaign.classes[name].count:6d} {name}" for name in once]
    if campaign.invalid:
        lines += ["", "not sent:", *(f"{count:6d} {text}" for text, count in campaign.invalid.most_common(20))]
    if campaign.failures:
        lines += ["", "failures of connections:", *campaign.failures[:20]]
    return "\n".join(lines) + "\n"


def _pairs_by_api(pairs: Counter[tuple[str, int]]) -> Iterable[str]:
    for api in sorted({api for api, _ in pairs}):
        versions = sorted(version for name, version in pairs if name == api)
        counts = ", ".join(f"v{version} {pairs[api, version]}" for version in versions)
        yield f"{sum(pairs[api, version] for version in versions):6d} {api}: {counts}"
