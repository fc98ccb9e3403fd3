"""Runs scripts with a broker at an address, and compares the responses with the recordings or records them again.

    python -m tests.conversations.record check|record [--release RELEASE] HOST:PORT[,LISTENER=HOST:PORT...] NAME...

Listeners other than PLAINTEXT have names. The broker has to run with the properties of
`tools/oracle/conversations/broker_properties.py`: `tools/oracle/start-kafka` starts one. Exit code 1 when one differs.
"""

from __future__ import annotations

import argparse
import sys

from kwire.schema import RELEASES
from tests.conversations import script_library
from tools.oracle.conversations.normalization import difference
from tools.oracle.conversations.script_runner import ScriptRunner
from tools.oracle.conversations.socket_brokers import RealTimeBroker


def real_broker(bootstrap: str) -> RealTimeBroker:
    """The broker at HOST:PORT[,LISTENER=HOST:PORT...]."""
    first, *named = bootstrap.split(",")
    return RealTimeBroker({"PLAINTEXT": first, **dict(pair.split("=", 1) for pair in named)})


def main(arguments: list[str]) -> int:
    """Run the scripts and print a line for each."""
    form = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m tests.conversations.record", description=__doc__, formatter_class=form
    )
    parser.add_argument("mode", choices=("check", "record"))
    parser.add_argument("--release", choices=RELEASES, default=RELEASES[0])
    parser.add_argument("address")
    parser.add_argument("names", nargs="+", metavar="NAME")
    options = parser.parse_args(arguments)
    different = 0
    for name in options.names:
        script = script_library.read_script(name, options.release)
        answers = ScriptRunner(real_broker(options.address), script).run()
        if options.mode == "record":
            releases = script_library.script_releases(name)
            script_library.RECORDED.store(name, options.release, answers, releases)
            print(f"{name}: {len(answers)} answers recorded")
            continue
        first_difference = difference(script_library.RECORDED.read(name, options.release), answers)
        different += first_difference is not None
        print(f"{name}: {first_difference or 'agrees'}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
