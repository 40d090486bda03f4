"""One call in four places: metatensor and PyTorch, on meta and with values."""

import numpy as np

import metatensor as mt
from ops.pairs import same


def twin(tensor, device="cpu"):
    """A tensor of PyTorch as one of metatensor with the same sizes, strides, dtype and, on a real device, values."""
    import torch

    dtype = getattr(mt, str(tensor.dtype).removeprefix("torch."))
    if device == "meta":
        return mt.empty_strided(tuple(tensor.shape), tensor.stride(), dtype=dtype, device="meta")
    if tensor.dtype in (torch.bfloat16, torch.float16):
        return mt.from_numpy(tensor.float().numpy()).to(dtype)
    return mt.from_numpy(tensor.numpy())


def shadow(tensor):
    import torch

    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def attempt(call, library, tensors):
    """The result of a call, or the exception that it raised."""
    try:
        return call(library, *tensors)
    except Exception as error:
        return error


def flat(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def metadata(result):
    """Shape, dtype and strides of each tensor in a result; a stride that has no meaning counts as any other."""
    rows = []
    for t in flat(result):
        strides = tuple(s for s, n in zip(t.stride(), t.shape) if n > 1) if 0 not in t.shape else ()
        rows.append((tuple(t.shape), str(t.dtype).partition(".")[2], strides))
    return rows


def raises_alike(ours, *theirs):
    """Whether an exception is of the class of one of others, or below it."""
    names = {cls.__name__ for cls in type(ours).__mro__}
    return any(isinstance(error, Exception) and type(error).__name__ in names for error in theirs)


def agree(call, *tensors, tolerance=None, values=True, lenient=()):
    """Fail unless metatensor does with ``call(library, *tensors)`` what PyTorch does.

    ``tensors`` are PyTorch's, on the CPU. Metadata must be those of PyTorch's meta or CPU result, values those of its
    CPU result, and what its CPU raises must be raised, on meta too. ``lenient`` lists classes of exceptions of
    PyTorch's that say only that it lacks a kernel.
    """
    import torch

    there, there_meta = attempt(call, torch, tensors), attempt(call, torch, [shadow(t) for t in tensors])
    if isinstance(there, lenient):
        return
    here, here_meta = (attempt(call, mt, [twin(t, d) for t in tensors]) for d in ("cpu", "meta"))
    if isinstance(there, Exception):
        for got in (here, here_meta):
            assert isinstance(got, Exception), f"no error for: {there!r}"
            assert raises_alike(got, there, there_meta), (got, there, there_meta)
        return
    expected = [metadata(r) for r in (there, there_meta) if not isinstance(r, Exception)]
    for got in (here_meta, here):
        if isinstance(got, Exception) and raises_alike(got, there_meta):
            continue  # PyTorch disagrees with itself
        if isinstance(got, Exception):
            raise AssertionError(f"raised where PyTorch gives {expected}") from got
        assert metadata(got) in expected
    if values and not isinstance(here, Exception):
        same(tuple(flat(here)), tuple(flat(there)), tolerance)


def tensors_of(seed, *shapes, dtype="float32", device="cpu"):
    """PyTorch tensors of normal values, the same for one seed."""
    import torch

    generator = np.random.default_rng(seed)
    return [torch.from_numpy(generator.standard_normal(s)).to(getattr(torch, dtype)) for s in shapes]
