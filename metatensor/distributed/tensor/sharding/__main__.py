"""``python -m metatensor.distributed.tensor.sharding [--make] [NAME ...]``: list the rules, or make them by trying."""

from __future__ import annotations

import argparse

from metatensor.distributed.tensor.sharding.table import FILE, HEADER, all_rules, format_rules


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m metatensor.distributed.tensor.sharding", description=__doc__)
    parser.add_argument("--make", action="store_true", help="find the rules by trying; without names, write the table")
    parser.add_argument("names", nargs="*", help="qualified names of overloads")
    options = parser.parse_args()
    if not options.make:
        print(format_rules({name: found for name, found in all_rules() if not options.names or name in options.names}), end="")
        return
    from metatensor.distributed.tensor.sharding.making import make_rules, make_table, sharded_overloads

    if options.names:
        print(format_rules({overload.qualname: make_rules(op, overload)
                            for op, overload in sharded_overloads() if overload.qualname in options.names}), end="")  # fmt: skip
        return
    FILE.write_text(HEADER + format_rules(make_table()), encoding="utf-8")


if __name__ == "__main__":
    main()
