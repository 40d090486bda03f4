"""Where the tensors of a checkpoint go: ``map_location`` in each of its forms, as one callable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from metatensor._core.device import Device as device
from metatensor.checkpoint.errors import CheckpointError
from metatensor.serialization import restored

__all__ = ["FakePlaces", "NoDevice", "Places", "StoredAt", "is_device"]


class StoredAt:
    """What a callable ``map_location`` is given for a storage: how large it is, and where it stands to be loaded.

    It is on the cpu, as PyTorch's are at that moment; `cuda`, `cpu` and `to` say where it shall go instead. It has no
    bytes: they are read once it is known where to.
    """

    def __init__(self, nbytes: int, place: Any = "cpu") -> None:
        self._nbytes = nbytes
        self.device = device(place)

    def nbytes(self) -> int:
        """Its bytes."""
        return self._nbytes

    size = nbytes
    __len__ = nbytes

    def to(self, device: Any, non_blocking: bool = False) -> StoredAt:
        """The same on ``device``."""
        return StoredAt(self._nbytes, device)

    def cpu(self) -> StoredAt:
        """The same on the cpu."""
        return self.to("cpu")

    def cuda(self, device: Any = None, non_blocking: bool = False) -> StoredAt:
        """The same on a CUDA device, the first one unless told."""
        if device is None:
            return self.to("cuda")
        return self.to(f"cuda:{device}" if isinstance(device, int) else device)

    def untyped(self) -> StoredAt:
        """Itself."""
        return self

    @property
    def is_cuda(self) -> bool:
        """Whether it goes to a CUDA device."""
        return bool(self.device.type == "cuda")

    def __repr__(self) -> str:
        return f"StoredAt(nbytes={self._nbytes}, device={self.device})"


class Places:
    """``place(location, nbytes)`` is the device for what was saved at ``location`` ("cpu", "cuda:0").

    Args:
        map_location: None (where it was; what was on the cpu goes to the default device), a device or its name, a
            mapping of locations to those, or a callable as in PyTorch: it is given a `StoredAt` and the location, and
            returns one, a device, or None for the place where it was.
        mmap: whether devices that can use a file's bytes where they lie shall do so.
    """

    def __init__(self, map_location: Any = None, mmap: bool = False) -> None:
        self.fixed: Any = None
        """The device where everything goes, or None where that depends."""
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
        """The device for ``nbytes`` bytes saved at ``location``. `NoDevice` where that is none."""
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
                        "load: a map_location that is called must give what it was given, moved (storage.cpu()), a device, or None; "
                        f"it gave {type(answer).__name__}"
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


# The devices that PyTorch's files name, whether or not they are here.
_OF_PYTORCH = frozenset((
    "cpu", "cuda", "fpga", "hip", "hpu", "ipu", "maia", "meta", "mkldnn", "mps", "mtia", "musa", "npu", "privateuseone", "vulkan", "xla",
    "xpu",
))  # fmt: skip


def is_device(name: str) -> bool:
    """Whether a file may name a device so. The names of devices are kept for ever, so that a file must not make them up."""
    from metatensor import plugins

    kind, _, index = name.partition(":")
    return (kind in _OF_PYTORCH or kind in plugins.device_types()) and (not index or (index.isdecimal() and len(index) <= 3))


class NoDevice(CheckpointError, RuntimeError):
    """A checkpoint of tensors that were on a device which is not here."""


class FakePlaces(Places):
    """Sends all tensors to meta, and remembers the devices that ``real`` has for them."""

    def __init__(self, real: Places) -> None:
        super().__init__("meta")
        self.real = real
        self._devices: dict[int, Any] = {}

    def note(self, refs: Iterable[Any]) -> None:
        """Take note of where storages of a file were."""
        for ref in refs:
            self._devices[id(ref.storage)] = self.real(ref.location, ref.nbytes)

    def device_of(self, tensor: Any) -> Any:
        """Return the device of a tensor that was loaded: that of its storage, or that for what was on the cpu."""
        found = self._devices.get(id(tensor.untyped_storage()))
        return self.real("cpu", tensor.nbytes) if found is None else found


def _named(location: str) -> Any:
    if is_device(location):
        return device(location)
    raise NoDevice("the checkpoint", f"it was saved on {location[:60]!r}, which is no device here; map_location says where it shall go")
