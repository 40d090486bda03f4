"""Build a model eagerly and deferred from the same seed, and compare the two."""

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
