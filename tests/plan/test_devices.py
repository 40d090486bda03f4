"""Devices as texts."""

import pytest

from metatensor.devices.profiles import device_profile
from metatensor.plan import DeviceError, places_of


def test_several_kinds():
    places = places_of("2xH100, 1x4090:20GB, cpu:64GB, disk")
    assert [place.name for place in places] == ["0", "1", "2", "cpu", "disk"]
    assert [place.memory for place in places] == [81559 * 2**20, 81559 * 2**20, 20 * 10**9, 64 * 10**9, None]
    assert places[2].title == "2 (rtx-4090)" and places[3].profile is None


def test_profiles_and_lists():
    t4 = device_profile("t4")
    assert [place.profile for place in places_of([t4, "t4"])] == [t4, t4]
    assert places_of(t4)[0].profile is t4


@pytest.mark.parametrize(("text", "message"), [
    ("8xH10", "Did you mean h100"),
    ("", "not of the form"),
    ("H100,,disk", "not of the form"),
    ("0xH100", "at least one"),
    ("cpu", "write it after the name"),
    ("H100:much", "not a size"),
    ("disk,H100", "devices first"),
    ("2xcpu:4GB", "there is one"),
    ("disk,disk", "once each"),
])  # fmt: skip
def test_errors(text, message):
    with pytest.raises(DeviceError, match=message):
        places_of(text)
