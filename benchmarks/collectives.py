"""Compare predicted with published bus bandwidths of collectives: ``python -m benchmarks.collectives``."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

from metatensor.analysis.collectives import bus_factor, collective_time
from metatensor.devices.topologies import topology

DATA = Path(__file__).parent / "data" / "measured_collectives.json"


def rows() -> list[dict]:
    """Return the published rows, with ``predicted_gb_s``, ``error`` (0.1: predicted 10% too fast), ``algorithm``."""
    found = []
    for row in json.loads(DATA.read_text())["rows"]:
        where = topology(row["topology"])
        time = collective_time(row["kind"], row["bytes"], range(where.size), where)
        predicted = row["bytes"] / time.seconds * bus_factor(row["kind"], where.size) / 1e9
        found.append(row | {"predicted_gb_s": predicted, "error": predicted / row["bus_gb_s"] - 1, "algorithm": time.algorithm})
    return found


def main() -> None:
    """Print the table."""
    print("| collective | devices | MiB | published, GB/s | predicted, GB/s | error | algorithm |\n|---|---|--:|--:|--:|--:|---|")
    for row in rows():
        print(f"| {row['kind']} | {row['topology']} | {row['bytes'] >> 20:,} | {row['bus_gb_s']:.1f} | {row['predicted_gb_s']:.1f} "
              f"| {row['error']:+.1%} | {row['algorithm']} |")  # fmt: skip
    errors = sorted(abs(row["error"]) for row in rows())
    print(f"\n{len(errors)} rows: median {median(errors):.1%}, worst {errors[-1]:.1%}")


if __name__ == "__main__":
    main()
