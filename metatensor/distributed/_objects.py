"""Collectives on picklable objects. Each rank receives copies.

They serialize with pickle, as PyTorch's do: use them only between processes that trust each other.
"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import metatensor as mt
from metatensor.distributed._checks import check_list, root_in
from metatensor.distributed._group import ProcessGroup, member, the_group
from metatensor.distributed._point_to_point import recv, send
from metatensor.distributed._running import run
from metatensor.distributed.work import Work

__all__ = [
    "all_gather_object", "broadcast_object_list", "gather_object", "recv_object_list", "scatter_object_list", "send_object_list",
]  # fmt: skip


def _exchange(kind: str, group: ProcessGroup, obj: Any, detail: str = "") -> list[Any]:
    """Return copies of the objects of all ranks."""
    if group.size() == 1:
        return [copy.deepcopy(obj)]
    data = pickle.dumps(obj)
    received: list[bytes] = []

    def start(communicator: Any, staged: Any) -> Work:
        received.extend(communicator.exchange(data))
        return Work()

    run(kind, group, None, start, detail=detail, nbytes=len(data))
    return [pickle.loads(one) for one in received]


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Store a copy of the object of each rank in ``object_list``, which must have one element per rank."""
    if member(group):
        found = the_group(group)
        check_list("all_gather_object", object_list, found.size())
        object_list[:] = _exchange("all_gather_object", found, obj)


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None, group: Any = None, group_dst: int | None = None
) -> None:
    """Store a copy of the object of each rank in ``object_gather_list`` on one rank. Other ranks pass no list."""
    if member(group):
        found = the_group(group)
        root = root_in("gather_object", found, dst, group_dst)
        if found._rank == root:
            check_list("gather_object", object_gather_list, found.size())
        gathered = _exchange("gather_object", found, obj, f"root {found.ranks[root]}")
        if found._rank == root:
            assert object_gather_list is not None
            object_gather_list[:] = gathered


def broadcast_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None
) -> None:
    """Replace the elements of ``object_list`` with copies of those of one rank. All lists have the same length."""
    if not member(group):
        return
    found = the_group(group)
    root = root_in("broadcast_object_list", found, src, group_src)
    if found.size() > 1:
        given = _exchange("broadcast_object_list", found, list(object_list) if found._rank == root else len(object_list),
                          f"root {found.ranks[root]}")[root]  # fmt: skip
        if len(given) != len(object_list):
            raise RuntimeError(f"torch.distributed.broadcast_object_list: the list has {len(object_list)} elements, that of the source "
                               f"{len(given)}")
        if found._rank != root:
            object_list[:] = given


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None, src: int | None = None,
    group: Any = None, group_src: int | None = None,
) -> None:  # fmt: skip
    """Store a copy of the r-th object of one rank's input list as the first element of the output list of rank r."""
    if not member(group):
        return
    found = the_group(group)
    root = root_in("scatter_object_list", found, src, group_src)
    if not scatter_object_output_list:
        raise ValueError("torch.distributed.scatter_object_list: the output list must have at least one element, got 0")
    if found._rank == root:
        check_list("scatter_object_list", scatter_object_input_list, found.size())
    given = list(scatter_object_input_list or ()) if found._rank == root else None
    scattered = _exchange("scatter_object_list", found, given, f"root {found.ranks[root]}")[root if found.size() > 1 else 0]
    scatter_object_output_list[0] = scattered[found._rank]


# Point to point -------------------------------------------------------------------------------------------------------


def send_object_list(
    object_list: list[Any], dst: int | None = None, group: Any = None, device: Any = None, group_dst: int | None = None,
    use_batch: bool = False,
) -> None:  # fmt: skip
    """Send a list of objects to another rank, which calls `recv_object_list`."""
    if not member(group):
        return
    place = device or the_group(group).communicator().data_device()
    parts = [pickle.dumps(one) for one in object_list]
    send(mt.tensor([len(part) for part in parts], dtype=mt.int64, device=place), dst, group, group_dst=group_dst)
    send(mt.frombuffer(bytearray(b"".join(parts)), dtype=mt.uint8).to(place), dst, group, group_dst=group_dst)


def recv_object_list(
    object_list: list[Any], src: int | None = None, group: Any = None, device: Any = None, group_src: int | None = None,
    use_batch: bool = False,
) -> int:  # fmt: skip
    """Replace the elements of ``object_list`` with those that another rank sends. Return the rank of the sender, or -1."""
    if not member(group):
        return -1
    place = device or the_group(group).communicator().data_device()
    sizes = mt.empty(len(object_list), dtype=mt.int64, device=place)
    source = recv(sizes, src, group, group_src=group_src)
    lengths = sizes.tolist()
    data = mt.empty(sum(lengths), dtype=mt.uint8, device=place)
    recv(data, source, group)
    whole, start = data.cpu().numpy().tobytes(), 0
    for index, length in enumerate(lengths):
        object_list[index] = pickle.loads(whole[start : start + length])
        start += length
    return source
