"""The minimum number of samples of each op whose values must be right on cpu. It never decreases.

    cd tests && python -m oracle.value_floor            # raise it to the number that is right now
    cd tests && python -m oracle.value_floor --check    # only print the ops above or below it

The samples are those of `values`: two for each of two dtypes of an op, and one plain call for every further dtype. The
same version of PyTorch is needed.
"""

import argparse
import importlib
import json
import sys
import zlib
from pathlib import Path

import torch

from . import database, values

FILE = Path(__file__).resolve().parent / "value_floor.json"
VERSION = "2.13"
SAMPLES = 2


def load():
    """Return ``{op: number of samples that must be right}``."""
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def chosen(op):
    """Return the names of two dtypes: the first one that `values` tests, and one that varies between ops."""
    first, *others = [str(dtype).removeprefix("torch.") for dtype in database.dtypes(op)]
    return (first, others[zlib.crc32(op.name.encode()) % len(others)]) if others else (first,)


def others(op):
    """Return the names of all further dtypes of the op."""
    taken = {str(dtype).removeprefix("torch.") for dtype in op.supported_dtypes("cpu")}
    return tuple(sorted(taken - set(chosen(op))))


def tallies(part=(1, 1), module="metatensor"):
    """Return the results of `values` for every ``part[1]``-th op, starting with number ``part[0]``."""
    torch.set_num_threads(1)
    module = importlib.import_module(module)
    found = values.run(values.Runner(module, limit=SAMPLES, timeout=60.0), part=part, dtypes=chosen)
    further = values.run(values.Runner(module, limit=1, timeout=60.0, only_calls=True), part=part, dtypes=others)
    for name, tally in further.items():
        found[name].add(tally)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing")
    args = parser.parse_args()
    floor, found = load(), tallies()
    now = {name: tally.right for name, tally in found.items() if tally.n}
    below = {name: n for name, n in floor.items() if now.get(name, 0) < n}
    above = {name: n for name, n in now.items() if n > floor.get(name, 0)}
    for name, n in sorted(below.items()):
        print(f"below: {name} has {now.get(name, 0)} samples right, its floor is {n}: {found[name].first}")
    values.table(found)
    print(values.score(found))
    print(f"{len(above)} ops above their floor, {len(below)} below")
    if not args.check and above:
        FILE.write_text(json.dumps(dict(sorted({**floor, **above}.items())), indent=0) + "\n")
    return int(bool(below))


if __name__ == "__main__":
    values.fix_hashing(__spec__.name)
    sys.exit(main())
