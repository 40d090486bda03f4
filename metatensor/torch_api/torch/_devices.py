"""What `torch.cuda`, `torch.xpu` and their like have in common: questions to the backend of one device type.

A plugin is loaded by the first question about its type; where there is none, nothing is imported.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import metatensor as mt

__all__ = ["DeviceApi", "backend", "device_context"]


def backend(type: str) -> Any:
    """The backend of a device type, or None where no plugin provides it, or its plugin is blocked or broken."""
    from metatensor import plugins  # imported here, as a module may be imported and never asked

    if type not in plugins.device_types():
        return None
    try:
        return plugins.backend(type)
    except RuntimeError:
        return None


class DeviceApi:
    """The functions of the module of one device type; ``error`` is what PyTorch raises where there is no device."""

    def __init__(self, type: str, error: type[Exception] = AssertionError) -> None:
        self.type, self.error = type, error

    def require(self) -> Any:
        """The backend, which has a device; else ``error`` with the reason."""
        found = backend(self.type)
        if found is not None and found.is_available():
            return found
        from metatensor import plugins

        try:
            reason = plugins.backend(self.type).unavailable_reason()
        except RuntimeError as failure:
            reason = str(failure)
        raise self.error(f"torch.{self.type}: there is no {self.type} device: {reason}")

    def index(self, device: Any) -> int:
        """The number of a device given as a number, a string, a device, or None for the current one."""
        number = device
        if not isinstance(device, int) and device is not None:
            place = mt.device(device)
            if place.type != self.type:
                raise ValueError(f"torch.{self.type}: expected a {self.type} device, got {place}")
            number = place.index
        found = self.require()
        if number is None:
            return int(found.current_index())
        found.check_index(number)
        return int(number)

    # Devices ----------------------------------------------------------------------

    def device_count(self) -> int:
        """How many devices can be used now."""
        found = backend(self.type)
        return 0 if found is None else int(found.device_count())

    def is_available(self) -> bool:
        """Whether there is a device to use."""
        return self.device_count() > 0

    def is_initialized(self) -> bool:
        """Whether there is a device to use: devices need no start."""
        return self.is_available()

    def init(self) -> None:
        """An error where there is no device."""
        self.require()

    def current_device(self) -> int:
        """The number of the device that is meant where only the type is named."""
        return int(self.require().current_index())

    def set_device(self, device: Any) -> None:
        """Make a device the current one; no effect for a negative number."""
        if not (isinstance(device, int) and device < 0):
            index = self.index(device)
            self.require().set_current_index(index)

    def synchronize(self, device: Any = None) -> None:
        """Wait until a device has done all that it was asked for."""
        self.require().synchronize(self.index(device))

    def get_device_properties(self, device: Any = None) -> SimpleNamespace:
        """What is known of a device, as attributes: ``name``, ``total_memory``, ``major``, ``minor``, ..."""
        return SimpleNamespace(**self.require().properties(self.index(device)))

    def get_device_name(self, device: Any = None) -> str:
        """The name of a device."""
        return str(self.get_device_properties(device).name)

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        """The version of a device's architecture."""
        known = vars(self.get_device_properties(device))
        return int(known.get("major", 0)), int(known.get("minor", 0))

    def is_bf16_supported(self, including_emulation: bool = True) -> bool:
        """Whether there is a device; without emulation, one that computes with bfloat16 by itself."""
        return self.is_available() and (including_emulation or self.get_device_capability()[0] >= 8)

    def is_current_stream_capturing(self) -> bool:
        """False: nothing is captured."""
        return False

    # Memory -----------------------------------------------------------------------

    def memory_stats(self, device: Any = None) -> OrderedDict[str, int]:
        """The backend's figures by name; empty where there is no device."""
        return OrderedDict(sorted(self.require().memory_stats(self.index(device)).items()) if self.is_available() else ())

    def memory_allocated(self, device: Any = None) -> int:
        """The bytes of all tensors."""
        return self.memory_stats(device).get("allocated_bytes.all.current", 0)

    def max_memory_allocated(self, device: Any = None) -> int:
        """The largest that `memory_allocated` has been."""
        return self.memory_stats(device).get("allocated_bytes.all.peak", 0)

    def memory_reserved(self, device: Any = None) -> int:
        """The bytes taken from the device, in use or kept for later."""
        stats = self.memory_stats(device)
        return stats.get("reserved_bytes.all.current", stats.get("allocated_bytes.all.current", 0))

    def max_memory_reserved(self, device: Any = None) -> int:
        """The largest that `memory_reserved` has been, where the backend knows; else what it is, or the peak of tensors."""
        stats = self.memory_stats(device)
        return stats.get("reserved_bytes.all.peak", max(self.memory_reserved(device), self.max_memory_allocated(device)))

    def reset_peak_memory_stats(self, device: Any = None) -> None:
        """Let the peaks start again from what is in use."""
        self.require().reset_peak_memory_stats(self.index(device))

    def mem_get_info(self, device: Any = None) -> tuple[int, int]:
        """The free and all bytes of a device. NotImplementedError where its backend does not tell."""
        stats = self.require().memory_stats(self.index(device))
        if "device_bytes.total" not in stats:
            raise NotImplementedError(f"torch.{self.type}.mem_get_info: the {self.type} backend does not tell its free memory")
        return stats["device_bytes.free"], stats["device_bytes.total"]

    def empty_cache(self) -> None:
        """Give back memory that is kept for later; no effect where there is no device."""
        if self.is_available():
            self.require().empty_cache()

    # Random numbers ---------------------------------------------------------------

    def generator(self, device: Any = None) -> Any:
        """The generator that random operators on a device use: the process's, so that a seed means the same everywhere."""
        self.index(device)
        return mt.default_generator

    def generators(self) -> tuple[Any, ...]:
        """The generators of all devices."""
        return tuple(self.generator(index) for index in range(self.device_count()))

    def manual_seed(self, seed: int) -> None:
        """Seed the current device's generator; no effect where there is no device."""
        if self.is_available():
            self.generator().manual_seed(int(seed))

    def manual_seed_all(self, seed: int) -> None:
        """Seed the generators of all devices."""
        for one in self.generators():
            one.manual_seed(int(seed))

    def seed(self) -> None:
        """Seed the current device's generator from the system."""
        if self.is_available():
            self.generator().seed()

    def seed_all(self) -> None:
        """Seed the generators of all devices alike from the system."""
        made = [one.seed() for one in self.generators()[:1]]
        if made:
            self.manual_seed_all(made[0])

    def initial_seed(self) -> int:
        """The seed of the current device's generator."""
        return int(self.generator().initial_seed())

    def get_rng_state(self, device: Any = None) -> Any:
        """The state of a device's generator."""
        return self.generator(device).get_state()

    def set_rng_state(self, new_state: Any, device: Any = None) -> None:
        """Set the state of a device's generator; no effect where there is no device."""
        if self.is_available():
            self.generator(device).set_state(new_state)

    def get_rng_state_all(self) -> list[Any]:
        """The states of all devices' generators."""
        return [one.get_state() for one in self.generators()]

    def set_rng_state_all(self, new_states: Sequence[Any]) -> None:
        """Set the states of all devices' generators."""
        for index, state in enumerate(new_states):
            self.set_rng_state(state, index)


def device_context(api: DeviceApi) -> Any:
    """The context manager ``torch.<type>.device``."""

    class device:
        """A context in which a device is the current one; for None or a negative number, no effect."""

        def __init__(self, device: Any) -> None:
            self._device = device
            self._before: int | None = None

        def __enter__(self) -> None:
            if self._device is None or isinstance(self._device, int) and self._device < 0:
                return
            self._before = api.current_device()
            api.set_device(self._device)

        def __exit__(self, *_: Any) -> None:
            if self._before is not None:
                api.set_device(self._before)

    device.__module__ = f"torch.{api.type}"
    device.__qualname__ = "device"
    return device
