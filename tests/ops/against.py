"""Make a call in metatensor and in PyTorch, on meta and on the CPU, and compare the results."""

import numpy as np

import metatensor as mt
from ops.pairs import same


def twin(tensor, device="cpu"):
    """Return a metatensor tensor with sizes, strides and dtype of a PyTorch tensor, and with its values if not on meta."""
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
    """Return the result of a call, or the exception that it raised."""
    try:
        return call(library, *tensors)
    except Exception as error:
        return error


def flat(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def metadata(result):
    """Return shape, dtype and strides of each tensor in a result, without the strides of dimensions of size 1."""
    rows = []
    for t in flat(result):
        strides = tuple(s for s, n in zip(t.stride(), t.shape) if n > 1) if 0 not in t.shape else ()
        rows.append((tuple(t.shape), str(t.dtype).partition(".")[2], strides))
    return rows


def raises_alike(ours, *theirs):
    """Return True if the class of ``ours`` is, or derives from, the class of an exception in ``theirs``, by name."""
    names = {cls.__name__ for cls in type(ours).__mro__}
    return any(isinstance(error, Exception) and type(error).__name__ in names for error in theirs)


def agree(call, *tensors, tolerance=None, values=True, lenient=()):
    """Check that ``call(library, *tensors)`` behaves in metatensor as in PyTorch.

    ``tensors`` are PyTorch tensors on the CPU. PyTorch makes the call on the CPU and on meta, and so does metatensor. The
    metadata of both results of metatensor must equal those of one of PyTorch's results. The values must equal those of
    PyTorch's CPU result. If PyTorch raises an exception on the CPU, metatensor must raise one on both devices. An
    exception of PyTorch whose class is in ``lenient`` ends the check: PyTorch only lacks a kernel.
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
            continue  # PyTorch raises on meta only, and so may metatensor
        if isinstance(got, Exception):
            raise AssertionError(f"raised where PyTorch gives {expected}") from got
        assert metadata(got) in expected
    if values and not isinstance(here, Exception):
        same(tuple(flat(here)), tuple(flat(there)), tolerance)


def tensors_of(seed, *shapes, dtype="float32", device="cpu"):
    """Return PyTorch tensors with normally distributed values from the generator seeded with ``seed``."""
    import torch

    generator = np.random.default_rng(seed)
    return [torch.from_numpy(generator.standard_normal(s)).to(getattr(torch, dtype)) for s in shapes]
