#!/bin/bash
# Makes .venv inside the checkout with everything the project needs; says what it does, and what is missing.
# VENV: another folder than .venv.
set -euo pipefail
python=${PYTHON:-python3}
venv=${VENV:-.venv}

if ! command -v "$python" >/dev/null; then
    echo "$python is not installed: the project needs Python 3.11 or newer (Debian: apt-get install python3 python3-venv)" >&2
    exit 2
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "$("$python" --version) is too old: the project needs Python 3.11 or newer; name one by PYTHON=..." >&2
    exit 2
fi
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    echo "Python $version has no venv module: install it first (Debian, Ubuntu: apt-get install python$version-venv)" >&2
    exit 2
fi

if [ ! -x "$venv/bin/python" ]; then
    echo "==> Making $venv with Python $version"
    "$python" -m venv "$venv"
fi
echo "==> Installing kwire, mockbroker and what they need into $venv (once; some hundred megabytes)"
pip="$venv/bin/python -m pip install --disable-pip-version-check --progress-bar off"
$pip --quiet --upgrade pip setuptools
# The versions of constraints.txt, whose files must have its hashes; then the project itself, which has none.
$pip --require-hashes --requirement constraints.txt \
    | { grep --line-buffered -E '^(Collecting|Installing|Successfully|ERROR)' || true; } | cut -c 1-100
$pip --quiet --no-deps --editable .
"$venv/bin/python" -m pip check --disable-pip-version-check
"$venv/bin/python" -c 'import kwire, mockbroker, msgspec, pyspark' # A failed install must not pass for a good one.
# Compiled once here, even if Python is configured to write no bytecode: compiling takes half of each start.
"$venv/bin/python" -m compileall -q -j 0 kwire mockbroker tools tests
echo "==> Ready"
