#!/bin/bash
# Writes constraints.txt: the newest versions that setup.cfg allows, of all that .venv has, for each Python and system,
# with the hashes of their files.
set -euo pipefail
cd "$(dirname "$0")/.."
python3 -m venv .venv/uv
.venv/uv/bin/python -m pip install --quiet --disable-pip-version-check uv
draft=$(mktemp)
trap 'rm -f "$draft"' EXIT
{
    echo "# Written by tools/update_constraints.sh from setup.cfg; tools/setup_venv.sh installs it."
    .venv/uv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
        --no-header --no-annotate --extra dev setup.py
} > "$draft"
cp "$draft" constraints.txt
