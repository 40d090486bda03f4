"""Collectives on tensors. They check their arguments and leave moving data to the communicator of the group.

The arguments have PyTorch's names. With ``async_op`` a collective returns a `Work`; until it has completed, the tensors
must not be used. A root is a rank in the world, or, in the arguments ``group_src`` and ``group_dst``, a rank in the
group. A rank that is not in the group returns None at once. Tensors without data have their sizes and dtypes
checked, and no data is moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import metatensor as mt
from metatensor.distributed._checks import check_list, check_reducible, check_sizes, check_splits, check_tensors, root_in
from metatensor.distributed._group import ProcessGroup, ReduceOp, Work, get_world_size, member, the_group
from metatensor.distributed._running import run

__all__ = [
    "all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_single", "all_reduce", "all_reduce_coalesced", "all_to_all",
    "all_to_all_single", "barrier", "broadcast", "gather", "monitored_barrier", "reduce", "reduce_scatter", "reduce_scatter_single",
    "reduce_scatter_tensor",
    "scatter",
]  # fmt: skip


def _of_op(op: ReduceOp) -> str:
    return op.name.lower()


def _of_root(group: ProcessGroup, root: int) -> str:
    return f"root {group.ranks[root]}"


# One tensor -----------------------------------------------------------------------------------------------------------


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Reduce ``tensor`` over the ranks of the group, in place.

    Examples
    --------
    >>> import metatensor as mt
    >>> from metatensor import distributed
    >>> def add():
    ...     distributed.init_process_group()
    ...     x = mt.full((2,), float(distributed.get_rank()))
    ...     distributed.all_reduce(x)
    ...     return x.tolist()
    >>> distributed.sim.run(add, world_size=3)
    [[3.0, 3.0], [3.0, 3.0], [3.0, 3.0]]
    """
    check_reducible("all_reduce", op, tensor)
    if not member(group):
        return None
    return run(
        "all_reduce", the_group(group), tensor, lambda comm, staged: comm.all_reduce(staged.change(tensor), op), detail=_of_op(op),
        async_op=async_op, result=[tensor],
    )  # fmt: skip


def reduce(
    tensor: Any, dst: int | None = None, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Reduce ``tensor`` to one rank, in place. The tensors of the other ranks are unchanged."""
    check_reducible("reduce", op, tensor)
    if not member(group):
        return None
    found = the_group(group)
    root = root_in("reduce", found, dst, group_dst)
    return run(
        "reduce", found, tensor,
        lambda comm, staged: comm.reduce((staged.change if found._rank == root else staged.read)(tensor), op, root),
        detail=f"{_of_op(op)} {_of_root(found, root)}", async_op=async_op, result=[tensor],
    )  # fmt: skip


def broadcast(
    tensor: Any, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """Copy the tensor of one rank to the tensors of all ranks."""
    check_tensors("broadcast", tensor)
    if not member(group):
        return None
    found = the_group(group)
    root = root_in("broadcast", found, src, group_src)
    return run(
        "broadcast", found, tensor,
        lambda comm, staged: comm.broadcast((staged.read if found._rank == root else staged.write)(tensor), root),
        detail=_of_root(found, root), async_op=async_op, result=[tensor],
    )  # fmt: skip


# Gathering and scattering ---------------------------------------------------------------------------------------------


def all_gather(tensor_list: list[Any], tensor: Any, group: Any = None, async_op: bool = False) -> Work | None:
    """Copy the tensor of each rank to the element of ``tensor_list`` with its rank."""
    check_tensors("all_gather", tensor_list, tensor)
    if not member(group):
        return None
    found = the_group(group)
    for one in check_list("all_gather", tensor_list, found.size()):
        check_sizes("all_gather", one, tensor)
    return run(
        "all_gather", found, tensor, lambda comm, staged: comm.all_gather(staged.divided(tensor_list), staged.read(tensor)),
        nbytes=_nbytes(tensor) * found.size(), async_op=async_op, result=tensor_list,
    )  # fmt: skip


def _nbytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def all_gather_into_tensor(output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False) -> Work | None:
    """Copy the elements of the tensors of all ranks to ``output_tensor``, one after the other.

    ``output_tensor`` has as many elements as the inputs of all ranks, and any shape.
    """
    check_tensors("all_gather_into_tensor", output_tensor, input_tensor)
    if not member(group):
        return None
    found = the_group(group)
    check_sizes("all_gather_into_tensor", output_tensor, input_tensor, found.size())
    return run(
        "all_gather", found, output_tensor,
        lambda comm, staged: comm.all_gather(staged.write(output_tensor), staged.read(input_tensor)), async_op=async_op,
        result=[output_tensor],
    )  # fmt: skip


def _list_of_root(
    name: str, group: Any, rank: Any, group_rank: Any, given: Any, role: str
) -> tuple[ProcessGroup, int, bool, Sequence[Any]]:
    """Return the group, its root, whether this rank is the root, and the list that only the root gives."""
    found = the_group(group)
    root = root_in(name, found, rank, group_rank)
    here = found._rank == root
    if not here and given:
        raise ValueError(f"torch.distributed.{name}: only the {role}, rank {found.ranks[root]}, gives a {name}_list")
    return found, root, here, check_list(name, given, found.size()) if here else ()


def gather(
    tensor: Any, gather_list: list[Any] | None = None, dst: int | None = None, group: Any = None, async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Copy the tensor of each rank to an element of ``gather_list`` on one rank. Other ranks pass no list."""
    check_tensors("gather", tensor)
    if not member(group):
        return None
    found, root, here, outputs = _list_of_root("gather", group, dst, group_dst, gather_list, "destination")
    for one in outputs:
        check_sizes("gather", one, tensor)
    return run(
        "gather", found, tensor,
        lambda comm, staged: comm.gather(staged.divided(outputs) if here else None, staged.read(tensor), root),
        detail=_of_root(found, root), async_op=async_op, result=gather_list,
    )  # fmt: skip


def scatter(
    tensor: Any, scatter_list: list[Any] | None = None, src: int | None = None, group: Any = None, async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Copy each element of the ``scatter_list`` of one rank to the tensor of a rank. Other ranks pass no list."""
    check_tensors("scatter", tensor)
    if not member(group):
        return None
    found, root, here, inputs = _list_of_root("scatter", group, src, group_src, scatter_list, "source")
    for one in inputs:
        check_sizes("scatter", tensor, one)
    return run(
        "scatter", found, tensor,
        lambda comm, staged: comm.scatter(staged.write(tensor), staged.joined(inputs) if here else None, root),
        detail=_of_root(found, root), async_op=async_op, result=[tensor],
    )  # fmt: skip


# Reducing and scattering ----------------------------------------------------------------------------------------------


def reduce_scatter(
    output: Any, input_list: list[Any], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Reduce the r-th elements of the lists of all ranks to the output of rank r."""
    check_reducible("reduce_scatter", op, output)
    if not member(group):
        return None
    found = the_group(group)
    check_tensors("reduce_scatter", input_list)
    check_list("reduce_scatter", input_list, found.size())
    check_sizes("reduce_scatter", output, input_list[found._rank])
    for one in input_list:
        check_sizes("reduce_scatter", output, one)
    return run(
        "reduce_scatter", found, output,
        lambda comm, staged: comm.reduce_scatter(staged.write(output), staged.joined(input_list), op), detail=_of_op(op),
        nbytes=_nbytes(output) * found.size(), async_op=async_op, result=[output],
    )  # fmt: skip


def reduce_scatter_tensor(output: Any, input: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Reduce the inputs of all ranks. Rank r receives the r-th of equal parts of the result."""
    check_reducible("reduce_scatter_tensor", op, output)
    check_tensors("reduce_scatter_tensor", input)
    if not member(group):
        return None
    found = the_group(group)
    check_sizes("reduce_scatter_tensor", output, input, found.size(), of="input")
    return run(
        "reduce_scatter", found, input, lambda comm, staged: comm.reduce_scatter(staged.write(output), staged.read(input), op),
        detail=_of_op(op), async_op=async_op, result=[output],
    )  # fmt: skip


# All to all -----------------------------------------------------------------------------------------------------------


def all_to_all(output_tensor_list: list[Any], input_tensor_list: list[Any], group: Any = None, async_op: bool = False) -> Work | None:
    """Send the r-th tensor of the input list to rank r, and receive the r-th tensor of the output list from it."""
    check_tensors("all_to_all", output_tensor_list, input_tensor_list)
    if not member(group):
        return None
    found = the_group(group)
    check_list("all_to_all", output_tensor_list, found.size())
    check_list("all_to_all", input_tensor_list, found.size())
    check_sizes("all_to_all", output_tensor_list[found._rank], input_tensor_list[found._rank])
    if len({(one.dtype, one.device) for one in (*output_tensor_list, *input_tensor_list)}) > 1:
        raise TypeError("torch.distributed.all_to_all: the tensors differ in dtype or device")
    received, sent = ([one.numel() for one in tensors] for tensors in (output_tensor_list, input_tensor_list))
    return run(
        "all_to_all", found, input_tensor_list[0],
        lambda comm, staged: comm.all_to_all(staged.divided(output_tensor_list), staged.joined(input_tensor_list), received, sent),
        nbytes=sum(map(_nbytes, input_tensor_list)), async_op=async_op, result=output_tensor_list,
    )  # fmt: skip


def all_to_all_single(
    output: Any, input: Any, output_split_sizes: Sequence[int] | None = None, input_split_sizes: Sequence[int] | None = None,
    group: Any = None, async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Send the r-th part of the rows of ``input`` to rank r, and receive the r-th part of the rows of ``output`` from it.

    The split sizes are numbers of rows, one for each rank. The default is equal parts.
    """
    check_tensors("all_to_all_single", output, input)
    if not member(group):
        return None
    found = the_group(group)
    received = check_splits("all_to_all_single", output_split_sizes, output, found.size(), "output")
    sent = check_splits("all_to_all_single", input_split_sizes, input, found.size(), "input")
    if found.size() == 1 or not (output_split_sizes or input_split_sizes):
        check_sizes("all_to_all_single", output, input)
    elif output.dtype != input.dtype or output.device != input.device:
        raise TypeError(f"torch.distributed.all_to_all_single: the output is {output.dtype} on {output.device}, but the input is "
                        f"{input.dtype} on {input.device}")
    return run(
        "all_to_all", found, input,
        lambda comm, staged: comm.all_to_all(
            staged.write(output), staged.read(input), _elements(output, received), _elements(input, sent)
        ),
        async_op=async_op, result=[output],
    )  # fmt: skip


def _elements(tensor: Any, rows: Sequence[int]) -> list[int]:
    each = 1
    for size in tensor.shape[1:]:
        each *= size
    return [count * each for count in rows]


all_gather_single, reduce_scatter_single = all_gather_into_tensor, reduce_scatter_tensor


# Several tensors ------------------------------------------------------------------------------------------------------


def all_reduce_coalesced(tensors: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Reduce each of ``tensors`` over the group, in place."""
    given = [tensors] if isinstance(tensors, mt.Tensor) else list(tensors)
    check_reducible("all_reduce_coalesced", op, *given)
    if not member(group):
        return None
    return _together([all_reduce(one, op, group, True) for one in given], async_op, given)


def all_gather_coalesced(
    output_tensor_lists: list[list[Any]], input_tensor_list: list[Any], group: Any = None, async_op: bool = False
) -> Work | None:
    """Gather each of the input tensors to the output list with the same index."""
    if not member(group):
        return None
    if len(output_tensor_lists) != len(input_tensor_list):
        raise ValueError(
            f"torch.distributed.all_gather_coalesced: {len(output_tensor_lists)} outputs for {len(input_tensor_list)} inputs"
        )
    works = [all_gather(outputs, given, group, True) for outputs, given in zip(output_tensor_lists, input_tensor_list)]
    return _together(works, async_op, output_tensor_lists)


def _together(works: Sequence[Work | None], async_op: bool, result: Any) -> Work | None:
    from metatensor.distributed.work import PendingWork

    whole = PendingWork([work for work in works if work is not None], None, result)
    if async_op:
        return whole
    whole.wait()
    return None


# Waiting --------------------------------------------------------------------------------------------------------------


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: Any = None) -> Work | None:
    """Wait until all ranks of the group have called this function, at most for ``timeout`` (default: that of the group)."""
    if not member(group):
        return None
    work = run("barrier", the_group(group), None, lambda comm, staged: comm.barrier(), async_op=async_op or timeout is not None)
    if async_op or work is None:
        return work
    work.wait(timeout)
    return None


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """Wait until all ranks of the group have called this function.

    Raise RuntimeError after ``timeout`` (a timedelta; default: that of the group).
    """
    if not member(group) or get_world_size(group) == 1:
        return
    barrier(group, timeout=timeout)
