"""The state of the random number generator, and `fork_rng`, which restores it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from contextlib import contextmanager
from typing import Any

from metatensor import default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from metatensor.torch_api.torch._devices import DeviceApi

__all__ = ["default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]


@contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None, enabled: bool = True, _caller: str = "fork_rng", _devices_kw: str = "devices",
    device_type: str | None = None,
) -> Any:  # fmt: skip
    """Return a context manager that restores the random states of the cpu and of devices on exit.

    Parameters
    ----------
    devices : iterable of device, optional
        Default: all devices of the type.
    enabled : bool
        If False, the context manager does nothing. Default: True.
    device_type : str, optional
        Default: the type of the accelerator, or cuda if there is none.
    """
    if not enabled:
        yield
        return
    api = None
    if device_type not in ("cpu", "meta"):
        from metatensor.torch_api.torch import accelerator

        found = accelerator.current_accelerator() if device_type is None else None
        api = DeviceApi(device_type or ("cuda" if found is None else found.type))
    places = [] if api is None else list(range(api.device_count()) if devices is None else devices)
    if api is not None and devices is None and len(places) > 1:
        warnings.warn(f"torch.random.{_caller}: the states of {len(places)} devices are saved and restored; "
                      f"name the ones in use ({_devices_kw})",
                      stacklevel=3)  # fmt: skip
    state = get_rng_state()
    states = [api.get_rng_state(place) for place in places] if api is not None else []
    try:
        yield
    finally:
        set_rng_state(state)
        for place, kept in zip(places, states):
            assert api is not None
            api.set_rng_state(kept, place)
