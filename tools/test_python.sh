#!/bin/bash
# Runs the tests that need no Spark on another Python, in a virtual environment of its own below .venv.
set -euo pipefail
python=${PYTHON:-python3}
if ! command -v "$python" >/dev/null; then
    echo "$python is not installed; on Debian and with pyenv, install that Python first, then PYTHON=python3.13" >&2
    exit 2
fi
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
environment=.venv/python$version
if [ ! -x "$environment/bin/python" ]; then
    echo "==> Making $environment"
    "$python" -m venv "$environment"
fi
echo "==> Installing the project into $environment"
VENV="$environment" PYTHON="$python" bash tools/setup_venv.sh
"$environment/bin/python" -m pytest -n "${WORKERS:-auto}" --dist worksteal -m "not spark and not client" \
    tests/tidy tests/kwire tests/mockbroker tests/integration
