"""Functions shared by `torch.cuda`, `torch.xpu` and similar modules. They query the backend of one device type.

The plugin of a type is imported at the first query. If there is no plugin, nothing is imported.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import metatensor as mt

__all__ = ["DeviceApi", "backend", "device_context"]


def backend(type: str) -> Any:
    """Return the backend of a device type, or None if there is no plugin for it or the plugin fails to load."""
    from metatensor import plugins  # imported lazily, because many programs import torch.cuda and never use it

    if type not in plugins.device_types():
        return None
    try:
        return plugins.backend(type)
    except RuntimeError:
        return None


class DeviceApi:
    """The functions of the module of one device type.

    Parameters
    ----------
    type : str
        The device type.
    error : type
        Class of the exception that is raised if there is no device. Default: AssertionError.
    """

    def __init__(self, type: str, error: type[Exception] = AssertionError) -> None:
        self.type, self.error = type, error

    def require(self) -> Any:
        """Return the backend. Raise `error`, with the reason, if there is no device."""
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
        """Return the index of a device given as an int, a str or a device. None means the current device."""
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
        """Return the number of available devices."""
        found = backend(self.type)
        return 0 if found is None else int(found.device_count())

    def is_available(self) -> bool:
        """Return whether there is a device."""
        return self.device_count() > 0

    def is_initialized(self) -> bool:
        """Return whether there is a device. Devices need no initialization."""
        return self.is_available()

    def init(self) -> None:
        """Raise an error if there is no device."""
        self.require()

    def current_device(self) -> int:
        """Return the index of the current device, which is used for a device without an index."""
        return int(self.require().current_index())

    def set_device(self, device: Any) -> None:
        """Set the current device. A negative index has no effect."""
        if not (isinstance(device, int) and device < 0):
            index = self.index(device)
            self.require().set_current_index(index)

    def synchronize(self, device: Any = None) -> None:
        """Wait until a device has finished all its work."""
        self.require().synchronize(self.index(device))

    def get_device_properties(self, device: Any = None) -> SimpleNamespace:
        """Return the properties of a device as attributes: ``name``, ``total_memory``, ``major``, ``minor``, ..."""
        return SimpleNamespace(**self.require().properties(self.index(device)))

    def get_device_name(self, device: Any = None) -> str:
        """Return the name of a device."""
        return str(self.get_device_properties(device).name)

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        """Return the compute capability of a device as (major, minor)."""
        known = vars(self.get_device_properties(device))
        return int(known.get("major", 0)), int(known.get("minor", 0))

    def is_bf16_supported(self, including_emulation: bool = True) -> bool:
        """Return whether the current device supports bfloat16. With `including_emulation`, every device does."""
        return self.is_available() and (including_emulation or self.get_device_capability()[0] >= 8)

    def is_current_stream_capturing(self) -> bool:
        """Return False, because streams cannot be captured."""
        return False

    # Memory -----------------------------------------------------------------------

    def memory_stats(self, device: Any = None) -> OrderedDict[str, int]:
        """Return the memory statistics of the backend by name. The dict is empty if there is no device."""
        return OrderedDict(sorted(self.require().memory_stats(self.index(device)).items()) if self.is_available() else ())

    def memory_allocated(self, device: Any = None) -> int:
        """Return the number of bytes in use by tensors."""
        return self.memory_stats(device).get("allocated_bytes.all.current", 0)

    def max_memory_allocated(self, device: Any = None) -> int:
        """Return the peak of `memory_allocated`."""
        return self.memory_stats(device).get("allocated_bytes.all.peak", 0)

    def memory_reserved(self, device: Any = None) -> int:
        """Return the number of bytes reserved from the device, in use or cached."""
        stats = self.memory_stats(device)
        return stats.get("reserved_bytes.all.current", stats.get("allocated_bytes.all.current", 0))

    def max_memory_reserved(self, device: Any = None) -> int:
        """Return the peak of `memory_reserved`.

        If the backend does not record it, return the current value or the peak of `memory_allocated`, whichever is
        larger.
        """
        stats = self.memory_stats(device)
        return stats.get("reserved_bytes.all.peak", max(self.memory_reserved(device), self.max_memory_allocated(device)))

    def reset_peak_memory_stats(self, device: Any = None) -> None:
        """Reset the peaks to the current values."""
        self.require().reset_peak_memory_stats(self.index(device))

    def mem_get_info(self, device: Any = None) -> tuple[int, int]:
        """Return the free and the total memory of a device in bytes.

        Raise NotImplementedError if the backend does not report them.
        """
        stats = self.require().memory_stats(self.index(device))
        if "device_bytes.total" not in stats:
            raise NotImplementedError(f"torch.{self.type}.mem_get_info: the {self.type} backend does not report its memory")
        return stats["device_bytes.free"], stats["device_bytes.total"]

    def empty_cache(self) -> None:
        """Release cached memory. Do nothing if there is no device."""
        if self.is_available():
            self.require().empty_cache()

    # Random numbers ---------------------------------------------------------------

    def generator(self, device: Any = None) -> Any:
        """Return the generator of a device.

        All devices share the process's generator, so that a seed has the same effect on each.
        """
        self.index(device)
        return mt.default_generator

    def generators(self) -> tuple[Any, ...]:
        """Return the generators of all devices."""
        return tuple(self.generator(index) for index in range(self.device_count()))

    def manual_seed(self, seed: int) -> None:
        """Seed the generator of the current device. Do nothing if there is no device."""
        if self.is_available():
            self.generator().manual_seed(int(seed))

    def manual_seed_all(self, seed: int) -> None:
        """Seed the generators of all devices."""
        for one in self.generators():
            one.manual_seed(int(seed))

    def seed(self) -> None:
        """Seed the generator of the current device randomly."""
        if self.is_available():
            self.generator().seed()

    def seed_all(self) -> None:
        """Seed the generators of all devices with one random seed."""
        made = [one.seed() for one in self.generators()[:1]]
        if made:
            self.manual_seed_all(made[0])

    def initial_seed(self) -> int:
        """Return the seed of the current device's generator."""
        return int(self.generator().initial_seed())

    def get_rng_state(self, device: Any = None) -> Any:
        """Return the state of a device's generator."""
        return self.generator(device).get_state()

    def set_rng_state(self, new_state: Any, device: Any = None) -> None:
        """Set the state of a device's generator. Do nothing if there is no device."""
        if self.is_available():
            self.generator(device).set_state(new_state)

    def get_rng_state_all(self) -> list[Any]:
        """Return the states of the generators of all devices."""
        return [one.get_state() for one in self.generators()]

    def set_rng_state_all(self, new_states: Sequence[Any]) -> None:
        """Set the states of the generators of all devices."""
        for index, state in enumerate(new_states):
            self.set_rng_state(state, index)


def device_context(api: DeviceApi) -> Any:
    """Return the context manager ``torch.<type>.device``."""

    class device:
        """Context manager that sets the current device. None or a negative index has no effect."""

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
