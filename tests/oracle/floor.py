"""The minimum number of records of each op that must pass. It never decreases.

    cd tests && python -m oracle.floor            # raise it to the number that passes now
    cd tests && python -m oracle.floor --check    # only print the ops above or below it
"""

import argparse
import importlib
import json
import sys
import warnings
from pathlib import Path

from . import records
from .replay import Replayer, replay

FILE = Path(__file__).resolve().parent / "floor.json"


def load():
    """Return ``{op: number of records that must pass}``."""
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def passing(path, module="metatensor", device="meta"):
    """Return ``{op: number of records that pass now}`` of one data file. Variants of an op are counted together."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        by_op = replay(Replayer(importlib.import_module(module), device), records.read([path]))
    counts = {}
    for name, tally in by_op.items():
        op = name.partition("|")[0]
        counts[op] = counts.get(op, 0) + sum(tally.strict.values())
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing")
    args = parser.parse_args()
    floor = load()
    now = {}
    for path in records.files():
        now.update(passing(path))
    below = {op: n for op, n in floor.items() if now.get(op, 0) < n}
    above = {op: n for op, n in now.items() if n > floor.get(op, 0)}
    for op, n in sorted(below.items()):
        print(f"below: {op} passes {now.get(op, 0)}, its floor is {n}")
    print(f"{sum(now.values())} records pass; {len(above)} ops above their floor, {len(below)} below")
    if not args.check and above:
        FILE.write_text(json.dumps(dict(sorted({**floor, **above}.items())), indent=0) + "\n")
    return int(bool(below))


if __name__ == "__main__":
    sys.exit(main())
