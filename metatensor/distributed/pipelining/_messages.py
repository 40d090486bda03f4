"""What stages send each other: tensors, and once their shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import metatensor as mt
from metatensor.distributed._objects import recv_object_list, send_object_list
from metatensor.distributed._point_to_point import irecv, isend
from metatensor.distributed._single import NoData

__all__ = ["Arriving", "Sender", "TensorSpec", "announce", "is_alone", "learn", "listed", "specs_of"]


class TensorSpec(NamedTuple):
    """Shape and dtype of a tensor that a stage sends, and whether it gets a gradient back."""

    shape: tuple[int, ...]
    dtype: str
    requires_grad: bool

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"

    def empty(self, device: Any) -> Any:
        """Return a new tensor."""
        return mt.empty(self.shape, dtype=getattr(mt, self.dtype), device=device)


def specs_of(tensors: Sequence[Any]) -> list[TensorSpec]:
    """Return the specs of tensors."""
    return [TensorSpec(tuple(one.shape), str(one.dtype).rpartition(".")[2], bool(one.requires_grad)) for one in tensors]


def listed(specs: Sequence[TensorSpec]) -> str:
    """Return specs as text for messages."""
    return ", ".join(map(str, specs)) or "nothing"


class Sender:
    """Sends tensors to one rank. A message is sent once the last one has arrived, so that few of them are kept."""

    def __init__(self) -> None:
        self._works: list[Any] = []

    def send(self, tensors: Sequence[Any], group: Any, peer: int) -> None:
        """Begin to send tensors to a rank of the group."""
        self.finish()
        for tensor in tensors:
            self._works.append(isend(tensor.detach(), group=group, group_dst=peer))

    def finish(self) -> None:
        """Wait until everything has been sent."""
        while self._works:
            self._works.pop(0).wait()


class Arriving:
    """Tensors that another rank sends."""

    def __init__(self, specs: Sequence[TensorSpec], device: Any, group: Any, peer: int) -> None:
        self._tensors = [one.empty(device) for one in specs]
        self._works = [irecv(one, group=group, group_src=peer) for one in self._tensors]

    def wait(self) -> list[Any]:
        """Return the tensors once they have arrived."""
        for work in self._works:
            work.wait()  # type: ignore[union-attr]
        self._works = []
        return self._tensors


def is_alone(group: Any) -> bool:
    """Return True if the other ranks are not run, so that nothing can be learned from them."""
    return group.size() > 1 and isinstance(group.communicator(), NoData)


def announce(specs: Sequence[TensorSpec], group: Any, peer: int) -> None:
    """Tell a rank the specs of what it will receive."""
    if not is_alone(group):
        send_object_list([[tuple(one) for one in specs]], group=group, group_dst=peer)


def learn(group: Any, peer: int) -> list[TensorSpec] | None:
    """Return the specs that a rank announces, or None if the other ranks are not run."""
    if is_alone(group):
        return None
    found: list[Any] = [None]
    recv_object_list(found, group=group, group_src=peer)
    return [TensorSpec(*one) for one in found[0]]
