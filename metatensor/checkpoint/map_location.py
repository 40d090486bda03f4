"""Find the device for each stored tensor from a ``map_location`` of any form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from metatensor._core.device import Device as device
from metatensor.checkpoint.errors import CheckpointError
from metatensor.serialization import restored

__all__ = ["FakePlaces", "NoDevice", "Places", "StoredAt", "is_device"]


class StoredAt:
    """The argument of a callable ``map_location``: a placeholder for a storage in the file.

    It has a size but no bytes. They are read once the device is known. Like PyTorch's storages at this point, it is on
    the cpu. `cuda`, `cpu` and `to` return a placeholder on another device.
    """

    def __init__(self, nbytes: int, place: Any = "cpu") -> None:
        self._nbytes = nbytes
        self.device = device(place)

    def nbytes(self) -> int:
        """Return the size in bytes."""
        return self._nbytes

    size = nbytes
    __len__ = nbytes

    def to(self, device: Any, non_blocking: bool = False) -> StoredAt:
        """Return a placeholder of the same size on ``device``."""
        return StoredAt(self._nbytes, device)

    def cpu(self) -> StoredAt:
        """Return a placeholder of the same size on the cpu."""
        return self.to("cpu")

    def cuda(self, device: Any = None, non_blocking: bool = False) -> StoredAt:
        """Return a placeholder of the same size on a CUDA device, by default "cuda"."""
        if device is None:
            return self.to("cuda")
        return self.to(f"cuda:{device}" if isinstance(device, int) else device)

    def untyped(self) -> StoredAt:
        """Return this placeholder."""
        return self

    @property
    def is_cuda(self) -> bool:
        """True if the placeholder is on a CUDA device."""
        return bool(self.device.type == "cuda")

    def __repr__(self) -> str:
        return f"StoredAt(nbytes={self._nbytes}, device={self.device})"


class Places:
    """A ``map_location`` as a callable that returns the device for a storage: ``place(location, nbytes)``.

    Parameters
    ----------
    map_location : device, str, mapping, callable or None
        One device for everything, a mapping from locations to devices, or a callable. The callable receives a
        `StoredAt` and the location. It returns a `StoredAt`, a device, or None for the location itself. By default
        every storage goes to its location, where "cpu" means the default device.
    mmap : bool, default False
        Use mapped bytes of the file in place on devices that can do so.

    Examples
    --------
    >>> from metatensor.checkpoint import Places
    >>> place = Places({"cuda:0": "meta"})
    >>> place("cuda:0"), place("cpu")
    (device(type='meta'), device(type='cpu'))
    """

    def __init__(self, map_location: Any = None, mmap: bool = False) -> None:
        self.fixed: Any = None
        """The device for all storages; None if it depends on the storage."""
        self.mmap = mmap
        self._table: Mapping[Any, Any] | None = None
        self._ask: Callable[..., Any] | None = None
        if isinstance(map_location, (str, device)):
            self.fixed = device(map_location)
        elif isinstance(map_location, Mapping):
            self._table = {str(key): value for key, value in map_location.items()}
        elif callable(map_location):
            self._ask = map_location
        elif map_location is not None:
            raise TypeError(
                "load: map_location must be a device, its name, a dict of locations or a callable, "
                f"got {type(map_location).__name__}"
            )

    def __call__(self, location: str = "cpu", nbytes: int = 0) -> Any:
        """Return the device for ``nbytes`` bytes saved at ``location``. Raise `NoDevice` if there is none."""
        if self.fixed is not None:
            return self.fixed
        if self._table is not None:
            mapped = self._table.get(location)
            if mapped is not None:
                return device(mapped)
        elif self._ask is not None:
            answer = self._ask(StoredAt(nbytes), location)
            if answer is not None:
                if not isinstance(answer, (str, device)) and not isinstance(getattr(answer, "device", None), device):
                    raise TypeError(
                        "load: a callable map_location must return its argument moved to a device (storage.cpu()), a device, or None; "
                        f"it returned {type(answer).__name__}"
                    )
                return device(answer if isinstance(answer, (str, device)) else answer.device)
        else:
            answer = restored(StoredAt(nbytes), location)
            if answer is not None:
                return device(answer.device)
            if location == "cpu":
                import metatensor as mt

                return mt.get_default_device()
        return _named(location)


# Device types that may occur in PyTorch's files, whether or not they are available.
_OF_PYTORCH = frozenset((
    "cpu", "cuda", "fpga", "hip", "hpu", "ipu", "maia", "meta", "mkldnn", "mps", "mtia", "musa", "npu", "privateuseone", "vulkan", "xla",
    "xpu",
))  # fmt: skip


def is_device(name: str) -> bool:
    """Return True if a file may use this device name.

    Device names are interned forever, so files must not invent new ones.
    """
    from metatensor import plugins

    kind, _, index = name.partition(":")
    return (kind in _OF_PYTORCH or kind in plugins.device_types()) and (not index or (index.isdecimal() and len(index) <= 3))


class NoDevice(CheckpointError, RuntimeError):
    """Raised if tensors of a checkpoint were saved on, or must be loaded to, an unavailable device."""


class FakePlaces(Places):
    """A `Places` that loads all tensors onto meta and records the devices that ``real`` chooses for them."""

    def __init__(self, real: Places) -> None:
        super().__init__("meta")
        self.real = real
        self._devices: dict[int, Any] = {}

    def note(self, refs: Iterable[Any]) -> None:
        """Record the devices of a file's storages."""
        for ref in refs:
            self._devices[id(ref.storage)] = self.real(ref.location, ref.nbytes)

    def device_of(self, tensor: Any) -> Any:
        """Return the device recorded for a tensor's storage.

        Without a record, return the device for data saved on cpu.
        """
        found = self._devices.get(id(tensor.untyped_storage()))
        return self.real("cpu", tensor.nbytes) if found is None else found


def _named(location: str) -> Any:
    if is_device(location):
        return device(location)
    raise NoDevice("the checkpoint", f"it was saved on {location[:60]!r}, which is not available here; pass "
                                     "map_location to choose a device")
