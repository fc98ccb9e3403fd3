"""`python -m tools.reference` writes the generated pages; `--check` lists those that would change."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.reference import captures, differences, kip_932, not_supported, releases, share_groups

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(prog="python -m tools.reference", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 when something would change")
    check = parser.parse_args().check
    try:
        pages = {
            captures.PAGE: captures.render_page(),
            ROOT / "docs" / "differences.md": differences.render_page(),
            kip_932.PAGE: kip_932.render_page(),
            ROOT / "docs" / "not-supported.md": not_supported.render_page(),
            ROOT / "docs" / "releases.md": releases.render_page(),
            ROOT / "docs" / "share-groups.md": share_groups.render_page(),
        }
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    stale = [path for path, text in pages.items() if not path.exists() or path.read_text("utf-8") != text]
    for path in stale:
        print(f"{'would change' if check else 'writing'} {path.relative_to(ROOT)}")
        if not check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(pages[path], encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
