"""Names of backends, and which communicator serves which type of device."""

from __future__ import annotations

from typing import Any, ClassVar

from metatensor.distributed.communicators import Communicator, communicator_names, find_communicator

__all__ = ["Backend", "named_communicators", "usable_communicator"]


class Backend(str):
    """The name of a backend, in lower case. Any name is accepted; a single process needs no backend."""

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"
    FAKE = "fake"
    backend_list: ClassVar[list[str]] = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    default_device_backend_map: ClassVar[dict[str, str]] = {"cpu": GLOO, "cuda": NCCL, "xpu": XCCL, "mps": GLOO}

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend: expected a name, got {type(name).__name__}")
        return super().__new__(cls, name.lower())


def named_communicators(backend: str) -> dict[str, str]:
    """Return the names in ``"cpu:mpi,cuda:nccl"`` by device type, or ``{"": name}`` for a single name.

    Raise ValueError if a part of a list has no device type.
    """
    parts = [part.strip() for part in backend.lower().split(",")]
    if len(parts) == 1 and ":" not in parts[0]:
        return {"": parts[0]}
    found = {}
    for part in parts:
        device, colon, name = part.partition(":")
        if not colon or not device or not name:
            raise ValueError(f"torch.distributed: cannot read the backend {backend!r}; a list has the form 'cpu:mpi,cuda:nccl'")
        found[device] = name
    return found


def usable_communicator(name: str, size: int) -> Communicator:
    """Return the communicator ``name`` for a world of ``size`` ranks.

    Raise NotImplementedError if it is not installed or cannot be used on this machine.
    """
    found: Any = find_communicator(name)
    if found is None:
        reason = (
            f"no communicator {name!r} is installed (there are {', '.join(communicator_names())}; "
            "metatensor-mpi provides 'mpi', metatensor-nccl provides 'nccl')"
        )
    else:
        reason = found.unavailable_reason()
        if not reason:
            return found  # type: ignore[no-any-return]
        reason = f"the communicator {name!r} cannot be used: {reason}"
    raise NotImplementedError(f"torch.distributed: {reason}; without one the world size must be 1, got {size}")
