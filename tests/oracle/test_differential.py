"""Variants of calls, compared with PyTorch live. Differences are listed in `differences.json`, which never grows."""

import pytest

pytestmark = pytest.mark.torch
PARTS = 24


@pytest.fixture(scope="module")
def differential():
    torch = pytest.importorskip("torch")
    pytest.importorskip("expecttest")  # PyTorch's operator database imports it
    from oracle import differential, value_floor

    if not torch.__version__.startswith(value_floor.VERSION):
        pytest.skip(f"the differences are those of PyTorch {value_floor.VERSION}, this is {torch.__version__}")
    return differential


@pytest.mark.parametrize("part", range(1, PARTS + 1))
def test_no_more_calls_differ_than_listed(differential, part):
    found = differential.tallies((part, PARTS))
    worse = differential.more(found, differential.load())
    assert not worse, "calls differ from PyTorch's (see tests/oracle/README.md):\n" + "\n".join(f"{k}: {v}" for k, v in worse.items())
    assert sum(tally.compared for tally in found.values()) > 100


def test_the_list_names_operators_and_families(differential):
    from oracle import database, further, variants

    names = {database.name_of(entry) for entry in (*database.entries(), *further.further_entries())}
    listed = differential.load()
    assert set(listed) <= names and {family for row in listed.values() for family in row} <= set(variants.FAMILIES)


def test_a_difference_is_found(differential):
    """An operator that ignores NaN is detected."""
    import metatensor as mt

    class Wrong:
        """Metatensor with another `amax`."""

        def __getattr__(self, name):
            return (lambda x, *args, **kwargs: mt.amax(x.nan_to_num(0.0), *args, **kwargs)) if name == "amax" else getattr(mt, name)

    from oracle import database

    differ = differential.Differ(mt, ("float32",), 2)
    (entry,) = database.entries({"amax"})
    assert not differ.tally(entry, families=("values",)).different
    differ.ours = lambda function, name=None: Wrong().amax
    assert differ.tally(entry, families=("values",)).different["values"] > 1
