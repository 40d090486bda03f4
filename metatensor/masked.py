"""Reductions and normalizations over the unmasked elements of a tensor: the operators of the namespace `masked`."""

from metatensor._core.op import namespace as _namespace

globals().update(_namespace("masked"))
