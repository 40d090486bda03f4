"""Passes: functions from a program to a program that computes the same results."""

from metatensor.program.passes.chaining import chain
from metatensor.program.passes.cleaning import common_subexpressions, dead_code, views_and_copies
from metatensor.program.passes.constants import constant_folding, fuse_batch_norm
from metatensor.program.passes.decomposing import decompose
from metatensor.program.passes.dtypes import change_dtype
from metatensor.program.passes.functional import functionalize
from metatensor.program.passes.splitting import Parts, split

__all__ = [
    "Parts", "chain", "change_dtype", "common_subexpressions", "constant_folding", "dead_code", "decompose", "functionalize",
    "fuse_batch_norm", "split", "views_and_copies",
]
