#!/bin/bash
# Runs the unit tests with the lowest versions that setup.cfg allows, on the pure Python codec and with the coverage of
# their statements, and the tests for all versions of PySpark with the lowest one. INSTALL_ONLY=1: only installs them,
# which may be done beside other targets.
set -euo pipefail
python=${PYTHON:-python3}
environment=.venv/lowest
if [ ! -x "$environment/bin/python" ]; then
    echo "==> Making $environment"
    "$python" -m venv "$environment"
fi
"$python" -m tools.lowest_versions captures tls oauth control completion fast spark > "$environment/lowest.txt"
"$python" -m tools.lowest_versions --as-declared dev > "$environment/dev.txt"
if ! cmp -s "$environment/lowest.txt" "$environment/installed.txt"; then
    echo "==> Installing the lowest versions into $environment"
    # Tools and clients, which the tests need, in the newest versions that go together with them.
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check \
        --constraint "$environment/lowest.txt" --requirement "$environment/lowest.txt" --requirement "$environment/dev.txt"
    cp "$environment/lowest.txt" "$environment/installed.txt"
fi
[ -z "${INSTALL_ONLY:-}" ] || exit 0
"$environment/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --editable .
# Spark first: what it finds takes the shortest.
KWIRE_CLASS_ARCHIVE=none "$environment/bin/python" -m pytest -q tests/kwire/spark/test_pyspark_versions.py
KWIRE_PURE=1 "$environment/bin/python" -m pytest -q -n "${WORKERS:-auto}" --dist worksteal \
    -m "not spark and not client and not slow" --cov --cov-report=term:skip-covered tests/kwire tests/mockbroker
