"""Devices as they are written in a plan: ``8xH100``, or ``1x4090,1x3060,cpu:64GB,disk``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from metatensor.analysis.sizes import SizeError, parse_bytes
from metatensor.devices.profiles import DeviceProfile, device_profile

__all__ = ["DeviceError", "Place", "places_of"]

SPEC = re.compile(r"(?:(?P<count>\d+)\s*[xX]\s*)?(?P<name>[^:]+?)(?::(?P<memory>[^:]+))?")


class DeviceError(ValueError):
    """Devices that cannot be understood. The message says what was expected."""


@dataclass(frozen=True)
class Place:
    """Something that holds tensors: a device, the memory of the host, or a disk."""

    name: str
    """An index for devices, as in a ``device_map``: 0, 1, ...; ``"cpu"`` or ``"disk"``."""
    kind: str
    """``"device"``, ``"cpu"`` or ``"disk"``."""
    memory: int | None
    """Bytes that it can hold. None for a disk, which has no limit here."""
    profile: DeviceProfile | None = None

    @property
    def title(self) -> str:
        """The name and the profile's name."""
        return f"{self.name} ({self.profile.name})" if self.profile is not None else self.name


def places_of(devices: Any) -> list[Place]:
    """Return the places that ``devices`` names, in order.

    Parameters
    ----------
    devices : str, DeviceProfile or sequence
        A text such as ``"8xH100"`` or ``"1x4090,1x3060,cpu:64GB,disk"``, a profile, or a list of names and profiles. A size
        after a colon replaces the memory of the profile.

    Raises
    ------
    DeviceError
        If a part is no device, or if the memory of a place is unknown.
    """
    parts = [part.strip() for part in devices.split(",")] if isinstance(devices, str) else devices
    parts = list(parts) if isinstance(parts, (list, tuple)) else [parts]
    places: list[Place] = []
    for part in parts:
        if isinstance(part, DeviceProfile):
            places.append(_device(part, len(places), None))
            continue
        match = SPEC.fullmatch(str(part))
        if match is None or not part:
            raise DeviceError(f"devices: {part!r} is not of the form 8xH100, cpu:64GB or disk")
        count, size = int(match["count"] or 1), _size(match["memory"])
        if not 1 <= count <= 1 << 20:
            raise DeviceError(f"devices: {part!r} has {count} devices; there must be at least one, and at most {1 << 20:,}")
        if match["name"].lower() in ("cpu", "disk"):
            places.append(_host(match["name"].lower(), count, size, part))
            continue
        try:
            profile = device_profile(match["name"])
        except ValueError as error:
            raise DeviceError(f"devices: {error}") from None
        places += [_device(profile, len(places) + i, size) for i in range(count)]
    names = [place.name for place in places]
    if len(set(names)) < len(names):
        raise DeviceError("devices: cpu and disk can be given once each")
    if [place.kind for place in places] != sorted((place.kind for place in places), key=["device", "cpu", "disk"].index):
        raise DeviceError("devices: write the devices first, then cpu, then disk")
    return places


def _device(profile: DeviceProfile, index: int, memory: int | None) -> Place:
    memory = memory or profile.visible_memory or profile.memory
    if memory is None:
        raise DeviceError(f"devices: the memory of {profile.name} is unknown; write it after the name, {profile.name}:24GB")
    return Place(str(index), "device", memory, profile)


def _host(name: str, count: int, memory: int | None, text: str) -> Place:
    if count != 1:
        raise DeviceError(f"devices: {text!r} asks for {count} of {name}; there is one")
    if name == "cpu" and memory is None:
        raise DeviceError("devices: the size of the host's memory is unknown; write it after the name, cpu:64GB")
    return Place(name, name, memory)


def _size(text: str | None) -> int | None:
    try:
        return None if text is None else parse_bytes(text)
    except SizeError as error:
        raise DeviceError(f"devices: {error}") from None
