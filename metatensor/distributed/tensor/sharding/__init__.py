"""Sharding rules: along which dimensions an operator may be cut, and how the results of the parts are joined.

The rules are found by trying and kept in ``rules.txt``. Its lines have these forms; see docs/dtensor.md for examples:

* ``cut input, mat2 -> sum``: dimensions of ``input`` and ``mat2`` that change size together may be cut, and the results
  of the parts are added. ``cat`` joins along the dimension that follows.
* ``pass sum of input -> sum``: if ``input`` is a partial sum, so is the result.
* ``keep inputs``: ``inputs`` is not redistributed, because the operator does not read its elements.
* ``where right=(-1,), reduction=1``: the rule applies to axes and calls with these properties.

``python -m distributed.oracle_rules --make``, in tests, makes the table.
"""

from metatensor.distributed.tensor.sharding.table import Cut, Pass, Rules, all_rules, rules_of

__all__ = ["Cut", "Pass", "Rules", "all_rules", "rules_of"]
