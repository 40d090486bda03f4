"""Compare Fourier transforms in metatensor and PyTorch, on meta and on cpu, including strides."""

import warnings

import numpy as np

import metatensor as mt
from ops.against import shadow

TOLERANCE = {"float32": 1e-4, "float64": 1e-10}


def example(layout, dtype, seed=0):
    """Return a PyTorch tensor with layout (sizes, strides) and normal values (0 and 1 for integers)."""
    import torch

    sizes, strides = layout
    points = 1 + sum((max(n, 1) - 1) * step for n, step in zip(sizes, strides))
    values = np.random.default_rng(seed).standard_normal((2, points))
    numbers = values[0] + 1j * values[1] if dtype.startswith("complex") else values[0]
    if dtype in ("bool", "int64", "uint8"):
        numbers = numbers > 0
    return torch.from_numpy(numbers).to(getattr(torch, dtype)).as_strided(sizes, strides)


def on(device, tensor):
    """Return a metatensor tensor that equals a PyTorch tensor on cpu."""
    sizes, strides = tuple(tensor.shape), tensor.stride()
    dtype = getattr(mt, str(tensor.dtype).removeprefix("torch."))
    if device == "meta":
        return mt.empty_strided(sizes, strides, dtype=dtype, device="meta")
    storage = tensor.as_strided((tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,))
    return mt.from_numpy(storage.numpy().copy()).as_strided(sizes, strides)


def attempt(call, library, tensors):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call(library, *tensors)
    except Exception as error:
        return error


def described(result):
    """Return sizes, dtype, whether it is a conjugate view, and the strides of dimensions with more than one element."""
    strides = [step for step, n in zip(result.stride(), result.shape) if n != 1 and 0 not in result.shape]
    return tuple(result.shape), str(result.dtype).rpartition(".")[2], result.is_conj(), strides


def array(result):
    return result.detach().resolve_conj().numpy()


def agree(call, *tensors, metadata=True):
    """Check that ``call(library, *tensors)`` gives the result of PyTorch. ``tensors`` are PyTorch tensors on cpu.

    With ``metadata=False``, results on meta are compared with PyTorch's cpu, for calls that its meta device lacks.
    """
    import torch

    for device in ("meta", "cpu"):
        theirs = attempt(call, torch, [shadow(t) if metadata and device == "meta" else t for t in tensors])
        ours = attempt(call, mt, [on(device, t) for t in tensors])
        if isinstance(theirs, Exception) and "MKL FFT error" in str(theirs):
            continue  # PyTorch has no transforms of empty tensors
        if isinstance(theirs, Exception):
            names = {cls.__name__ for cls in type(ours).__mro__}
            assert type(theirs).__name__ in names, f"{device}: gave {ours!r}, PyTorch {theirs!r}"
            continue
        if isinstance(ours, Exception):
            raise AssertionError(f"{device}: raised where PyTorch gives {described(theirs)}") from ours
        if device == "meta" or torch.backends.mkl.is_available():
            assert described(ours) == described(theirs), device
        if device == "cpu":
            expected = array(theirs)
            tolerance = TOLERANCE[str(expected.real.dtype)] * max(1, np.abs(expected).max(initial=0))
            np.testing.assert_allclose(array(ours), expected, rtol=0, atol=tolerance)
