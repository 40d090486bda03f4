"""Passes: functions from a program to a program that computes the same."""

from metatensor.program.passes.cleaning import common_subexpressions, dead_code, views_and_copies
from metatensor.program.passes.functional import functionalize

__all__ = ["common_subexpressions", "dead_code", "functionalize", "views_and_copies"]
