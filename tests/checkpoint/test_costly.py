"""Files that would be too costly are refused in time. This reads a sample of them, `costly.py` reads all."""

import os

import pytest

import metatensor as mt
from metatensor.checkpoint import CheckpointError, inspect, load
from metatensor.checkpoint.budget import Budget, Claims, current, shared
from metatensor.checkpoint.listing import unique

from . import costly
from .hostile import P2, tensor, text

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="memory is measured by /proc")

SAMPLE = [
    *list(costly.FILES)[::67],
    "equal frozensets in dict",
    "integers on one path of 17 bits in dict, the same",
    "a range of 100000 bits, stored",
    "paths of one name, 28 deep, compressed",
    "20000 tensors 20 graphs deep, names of 65536",
    "chunks (30, 30), overlap",
    "5000 tensors of 262144 elements in one range",
    "a device's tensor of 2**33 elements in one, older",
]


def test_there_are_enough_of_them():
    assert len(costly.FILES) >= 500


@pytest.mark.slow
@pytest.mark.parametrize("label", dict.fromkeys(SAMPLE))
def test_a_costly_file(tmp_path, label):
    mt.ones(2, device="cpu").sum().item()
    # On a loaded machine the same work takes up to twice the processor time. `python -m checkpoint.costly` is strict.
    wrong, _, _, outcomes = costly.trial(label, tmp_path, 2 * costly.SECONDS)
    assert not wrong, outcomes


@pytest.mark.slow
def test_honest_keys_are_not_refused(tmp_path):
    """Many numbers, tuples and sets are used as keys, as in vocabularies and optimizers."""
    value = {
        "vocabulary": {i: str(i) for i in range(60_000)},
        "addresses": {140_000_000_000_000 + 64 * i: i for i in range(20_000)},
        "fractions": {i / 7: i for i in range(20_000)},
        "pairs": {("layer", i): i for i in range(20_000)},
        "places": {(i, j): 0 for i in range(150) for j in range(150)},
        "set": {i * 1000 for i in range(20_000)},
        "texts": {f"name {i}" * 40 for i in range(1000)},
        "small": [{(1, 2): 0, (i, i + 1): 1} for i in range(2000)],
    }
    mt.save(value, tmp_path / "x.pt")
    assert load(tmp_path / "x.pt") == value
    assert inspect(tmp_path / "x.pt").tensors == {}


def charged(tmp_path, keys, searches):
    """Return the cost of a pickle of a dict with ``keys``, in which the key 0 is then set ``searches`` times."""
    items = b"".join(key + b"N" for key in costly.small(keys)) + b"K\0N" * searches
    path = write(tmp_path, costly.packed(P2 + b"}(" + items + b"u."))
    with shared(Budget(1 << 40)) as budget:
        assert len(load(path)) == len({0, *keys})
    return (1 << 40) - budget.left


@pytest.mark.slow
def test_searching_a_path_of_integers_is_charged(tmp_path):
    """Looking up the last key of a probe path is charged as many steps as the path is long; without a path it is charged one step."""
    path, line = costly.orbit(14, 8000), range(8001)
    assert len(set(path)) > 7900
    paths, lines = ([charged(tmp_path, [*dict.fromkeys(keys)], n) for n in (1000, 3000)] for keys in (path, line))
    assert paths[1] - paths[0] > 2000 * 16 * 7000
    assert lines[1] - lines[0] < 2000 * 200


def test_duplicate_paths_have_names_of_their_own(tmp_path):
    inner = text("a") + b"}" + text("b") + tensor() + b"ss"
    pickle = P2 + b"}" + inner + text("a.b") + tensor() + b"s."
    found = inspect(write(tmp_path, costly.packed(pickle)))
    assert list(found.tensors) == ["a.b", "a.b'"]
    names = [name for name, _ in unique([("a", 1), ("a", 2), ("a'", 3), ("a", 4), ("a", 5)])]
    assert len(set(names)) == 5 and names[:2] == ["a", "a'"]


def write(folder, content):
    path = folder / "x.pt"
    path.write_bytes(content)
    return path


def test_budgets():
    with shared() as outer:
        assert current() is outer
        with shared() as inner:
            assert inner is outer
        with shared(Budget(10)) as own:
            assert current() is own
            claims = Claims("f", 100, "they take")
            claims.add(400)
            claims.add(10)
            with pytest.raises(CheckpointError, match="f: they take beyond the bound"):
                claims.add(1)
        assert current() is outer
    assert current() is not outer
