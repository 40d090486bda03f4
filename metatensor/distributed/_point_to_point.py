"""Messages from one rank to another."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from metatensor.distributed._checks import check_tensors, root_in
from metatensor.distributed._group import ProcessGroup, member, the_group
from metatensor.distributed._running import run
from metatensor.distributed.work import Work

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]


def _peer(name: str, group: Any, rank: int | None, group_rank: int | None) -> tuple[ProcessGroup, int]:
    """Return the group and the peer's rank within it. Raise ValueError if the peer is this process."""
    found = the_group(group)
    if found.size() == 1:
        raise ValueError(f"torch.distributed.{name}: this process is the only one in the group and cannot send to itself")
    peer = root_in(name, found, rank, group_rank, default=None)
    if peer == found._rank:
        raise ValueError(f"torch.distributed.{name}: rank {found.ranks[peer]} cannot send to itself")
    return found, peer


def isend(tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> Work | None:
    """Begin to send ``tensor`` to another rank. Return a `Work`, or None if this rank is not in the group."""
    return _send("isend", tensor, dst, group, tag, group_dst)


def _send(name: str, tensor: Any, dst: int | None, group: Any, tag: int, group_dst: int | None, async_op: bool = True) -> Work | None:
    if not member(group):
        return None
    check_tensors(name, tensor)
    found, peer = _peer(name, group, dst, group_dst)
    return run(
        "send", found, tensor, lambda comm, staged: comm.send(staged.read(tensor), peer, tag), detail=f"to {found.ranks[peer]}",
        async_op=async_op, result=[tensor],
    )  # fmt: skip


def send(tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Send ``tensor`` to another rank, and wait until it can be changed again."""
    _send("send", tensor, dst, group, tag, group_dst, async_op=False)


def irecv(tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> Work | None:
    """Begin to receive ``tensor`` from another rank; None means any. Return a `Work`, or None outside of the group."""
    return _recv("irecv", tensor, src, group, tag, group_src)


class _ReceivingWork(Work):
    """The handle of a receive operation."""

    def __init__(self, whole: Work, parts: list[Work], group: ProcessGroup) -> None:
        super().__init__(whole.result())
        self._whole, self._part, self._group = whole, parts, group

    def wait(self, timeout: Any = None) -> bool:
        return self._whole.wait(timeout)

    def is_completed(self) -> bool:
        return self._whole.is_completed()

    def exception(self) -> BaseException | None:
        return self._whole.exception()

    def source_rank(self) -> int:
        """Return the rank, in the group, that sent the tensor."""
        self._whole.wait()
        return int(self._part[0].source_rank())  # type: ignore[attr-defined]


def _recv(name: str, tensor: Any, src: int | None, group: Any, tag: int, group_src: int | None) -> Work | None:
    if not member(group):
        return None
    check_tensors(name, tensor)
    found, peer = the_group(group), None
    if src is not None or group_src is not None or found.size() == 1:
        found, peer = _peer(name, group, src, group_src)
    parts: list[Work] = []

    def start(communicator: Any, staged: Any) -> Work:
        parts.append(communicator.recv(staged.write(tensor), peer, tag))
        return parts[0]

    origin = "from any" if peer is None else f"from {found.ranks[peer]}"
    whole = run("recv", found, tensor, start, detail=origin, async_op=True, result=[tensor])
    assert whole is not None
    return _ReceivingWork(whole, parts, found)


def recv(tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """Receive ``tensor`` from another rank; None means any. Return the rank of the sender, or -1 outside of the group."""
    work = _recv("recv", tensor, src, group, tag, group_src)
    if work is None:
        return -1
    assert isinstance(work, _ReceivingWork)
    return the_group(group).ranks[work.source_rank()]


class P2POp:
    """One `isend` or `irecv` of a batch."""

    def __init__(
        self, op: Any, tensor: Any, peer: int | None = None, group: Any = None, tag: int = 0, group_peer: int | None = None
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError("torch.distributed.P2POp: op must be isend or irecv")
        self.op, self.tensor, self.peer, self.group, self.tag, self.group_peer = op, tensor, peer, group, tag, group_peer


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begin several operations together, in any order. Return a `Work` for each.

    Raise ValueError unless all are of the same group.
    """
    if len({id(one.group) for one in p2p_op_list}) > 1:
        raise ValueError("torch.distributed.batch_isend_irecv: the operations belong to different groups")
    with ExitStack() as stack:
        if p2p_op_list and member(p2p_op_list[0].group):
            from metatensor.distributed._running import place_of

            found = the_group(p2p_op_list[0].group)
            for place in sorted({place_of(one.tensor) for one in p2p_op_list}):
                stack.enter_context(found.communicator(place).batch())
        works = []
        for one in p2p_op_list:
            to = {"group_dst" if one.op is isend else "group_src": one.group_peer}
            works.append(one.op(one.tensor, one.peer, one.group, one.tag, **to))
    return [work for work in works if work is not None]
