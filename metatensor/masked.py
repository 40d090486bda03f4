"""Reductions and normalisations over the elements that a mask shows: the operators of the namespace `masked`."""

from metatensor._core.op import namespace as _namespace

globals().update(_namespace("masked"))
