"""A model built eagerly and deferred from one seed, and whether two are the same."""

import metatensor as mt
from metatensor.testing.deferral import differences


def deferred(build, seed=0):
    mt.manual_seed(seed)
    with mt.deferred_init():
        return build()


def eager(build, seed=0):
    mt.manual_seed(seed)
    return build()


def same(one, other):
    assert differences(one, other) == []
