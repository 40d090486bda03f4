"""All forms of ``map_location``."""

import pytest

import metatensor as mt
from metatensor.checkpoint import Places


def test_a_device_or_its_name_takes_everything():
    for given in ("meta", mt.device("meta")):
        place = Places(given)
        assert place.fixed == mt.device("meta")
        assert place("cpu") == place("cuda:3", 8) == mt.device("meta")


def test_none_keeps_the_location_and_cpu_is_the_default_device():
    place = Places()
    assert place.fixed is None
    assert place("cuda:1") == mt.device("cuda:1")
    assert place("cpu") == mt.get_default_device()
    with mt.device("meta"):
        assert place("cpu").type == "meta"


def test_a_mapping_leaves_other_locations_alone():
    place = Places({"cuda:0": "meta", "cuda:1": mt.device("cpu")})
    assert [str(place(location)) for location in ("cuda:0", "cuda:1", "cuda:2", "cpu")] == ["meta", "cpu", "cuda:2", "cpu"]


@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        (lambda storage, location: storage, "cpu"),
        (lambda storage, location: storage.cuda(1), "cuda:1"),
        (lambda storage, location: storage.cuda(), "cuda"),
        (lambda storage, location: storage.cuda().cpu(), "cpu"),
        (lambda storage, location: storage.to("meta"), "meta"),
        (lambda storage, location: "meta", "meta"),
        (lambda storage, location: mt.device("meta"), "meta"),
        (lambda storage, location: None, "cuda:0"),
        (lambda storage, location: "meta" if storage.nbytes() == 8 and location == "cuda:0" else "cpu", "meta"),
    ],
)
def test_a_callable_is_given_a_storage_and_the_location(ask, expected):
    assert str(Places(ask)("cuda:0", 8)) == expected


def test_what_is_none_of_these():
    with pytest.raises(TypeError, match="map_location must be a device"):
        Places(3.5)
    with pytest.raises(RuntimeError, match="not available here; pass map_location"):
        Places()("nowhere:at:all")


def test_a_callable_that_gives_something_else():
    place = Places(lambda storage, location: 3)
    with pytest.raises(TypeError, match="it returned int"):
        place("cpu", 4)
