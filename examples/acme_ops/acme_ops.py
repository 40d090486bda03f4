"""A package with a custom operator: the example of docs/custom-ops.md."""

import numpy as np

import metatensor as mt
from metatensor.hookspecs import hookimpl


@mt.op("acme::swiglu")
def swiglu(x: mt.Tensor, gate: mt.Tensor) -> mt.Spec:
    """Compute x * silu(gate), element by element."""
    if x.shape != gate.shape or x.dtype != gate.dtype:
        raise ValueError(f"acme::swiglu: x and gate differ: {x.shape} {x.dtype}, {gate.shape} {gate.dtype}")
    return mt.Spec(x.shape, x.dtype)


@swiglu.kernel("cpu")
def _(out, x, gate):
    x, gate = np.asarray(x), np.asarray(gate)
    np.multiply(x, gate / (1 + np.exp(-gate)), out=np.asarray(out))


@swiglu.decomposition
def _(x, gate):
    return x * mt.nn.functional.silu(gate)


@swiglu.flops
def _(out, x, gate):
    return 0  # by convention: neither a matrix product nor a convolution


@hookimpl
def metatensor_ops(register):
    """Register the operators. The first use of mt.ops.acme calls this function of the module named in pyproject.toml."""
    register(swiglu)
