"""``python -m metatensor.distributed.tensor.sharding [--try] [NAME ...]``: list the rules, or what trying finds."""

from __future__ import annotations

import argparse

from metatensor.distributed.tensor.sharding.table import all_rules, format_rules


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m metatensor.distributed.tensor.sharding", description=__doc__)
    parser.add_argument("--try", action="store_true", dest="trying", help="find the rules by trying; this does not change the table")
    parser.add_argument("names", nargs="*", help="qualified names of overloads")
    options = parser.parse_args()
    if not options.trying:
        print(format_rules({name: found for name, found in all_rules() if not options.names or name in options.names}), end="")
        return
    from metatensor.distributed.tensor.sharding.making import make_rules, sharded_overloads

    print(format_rules({overload.qualname: make_rules(op, overload) for op, overload in sharded_overloads()
                        if not options.names or overload.qualname in options.names}), end="")  # fmt: skip


if __name__ == "__main__":
    main()
