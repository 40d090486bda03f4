"""Initializers: functions that fill a tensor in place, without recording gradients, and return it.

``fan_in`` and ``fan_out`` are the numbers of inputs per output and of outputs per input of a weight (out, in, ...).

On the meta device nothing is written, but shapes are checked and the generator advances as on other devices.
Therefore values drawn later do not depend on the device on which a model was built.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any

import metatensor as mt
from metatensor.nn._parameter import fans as _calculate_fan_in_and_fan_out
from metatensor.nn._parameter import fill, without_grad

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

_SQRT_5 = math.sqrt(5)

# Calling the functions of the class avoids a bound method per call.
_uniform_ = mt.Tensor.uniform_
_normal_ = mt.Tensor.normal_
_fill_ = mt.Tensor.fill_

_GAINS = {
    "linear": 1.0,
    "conv1d": 1.0,
    "conv2d": 1.0,
    "conv3d": 1.0,
    "conv_transpose1d": 1.0,
    "conv_transpose2d": 1.0,
    "conv_transpose3d": 1.0,
    "sigmoid": 1.0,
    "tanh": 5.0 / 3.0,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4.0,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the recommended factor for initial values of a layer that is followed by a nonlinearity.

    The factor keeps the variance of activations constant: 1 for linear and convolution layers and for "sigmoid", 5/3
    for "tanh", sqrt(2) for "relu", 3/4 for "selu", and sqrt(2 / (1 + slope**2)) for "leaky_relu" (He et al., 2015).

    Parameters
    ----------
    nonlinearity : str
        Name of a function of `metatensor.nn.functional`.
    param : float, optional
        Negative slope of "leaky_relu". Default 0.01.

    Raises
    ------
    ValueError
        If the name is unknown or the slope is not a number.

    Examples
    --------
    >>> import metatensor as mt
    >>> round(mt.nn.init.calculate_gain("relu"), 4)
    1.4142
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if type(slope) is not float and (isinstance(slope, bool) or not isinstance(slope, (int, float))):
            raise ValueError(f"calculate_gain: the slope of leaky_relu must be a number, not {param!r}")
        return math.sqrt(2.0 / (1 + slope * slope))
    try:
        return _GAINS[nonlinearity]
    except (KeyError, TypeError):
        raise ValueError(f"calculate_gain: unknown nonlinearity {nonlinearity!r}") from None


def uniform_(tensor: mt.Tensor, a: float = 0.0, b: float = 1.0, generator: mt.Generator | None = None) -> mt.Tensor:
    """Fill a tensor with values from the uniform distribution on [a, b).

    Parameters
    ----------
    tensor : Tensor
        Tensor of any shape.
    a, b : float
        Bounds. Defaults 0 and 1.
    generator : Generator, optional
        Source of random numbers. Default: the device's generator.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.init.uniform_(mt.empty(2, 3)).shape
    metatensor.Size([2, 3])
    """
    if generator is None:
        return fill(_uniform_, tensor, a, b)
    return without_grad(tensor.uniform_, a, b, generator=generator)


def normal_(
    tensor: mt.Tensor, mean: float = 0.0, std: float = 1.0, generator: mt.Generator | None = None
) -> mt.Tensor:
    """Fill a tensor with values from a normal distribution.

    Parameters
    ----------
    tensor : Tensor
        Tensor of any shape.
    mean, std : float
        Mean and standard deviation. Defaults 0 and 1.
    generator : Generator, optional
        Source of random numbers. Default: the device's generator.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.init.normal_(mt.empty(2, 3), std=0.02).shape
    metatensor.Size([2, 3])
    """
    if generator is None:
        return fill(_normal_, tensor, mean, std)
    return without_grad(tensor.normal_, mean, std, generator=generator)


def trunc_normal_(
    tensor: mt.Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: mt.Generator | None = None,
) -> mt.Tensor:
    """Fill a tensor with values from a normal distribution restricted to [a, b].

    Values are drawn by inverting the distribution function. If the mean is more than two standard deviations
    outside [a, b], the result is inexact and a warning is given.

    Parameters
    ----------
    tensor : Tensor
        Tensor of any shape.
    mean, std : float
        Mean and standard deviation of the unrestricted distribution. Defaults 0 and 1.
    a, b : float
        Bounds. Defaults -2 and 2.
    generator : Generator, optional
        Source of random numbers. Default: the device's generator.

    Examples
    --------
    >>> import metatensor as mt
    >>> bool((mt.nn.init.trunc_normal_(mt.empty(100, device="cpu")).abs() <= 2).all())
    True
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn("trunc_normal_: the mean is more than 2 std outside [a, b]; the distribution may be inexact", stacklevel=2)
    low, high = ((1.0 + math.erf((edge - mean) / std / math.sqrt(2.0))) / 2.0 for edge in (a, b))
    return without_grad(_trunc_normal, tensor, mean, std, a, b, 2 * low - 1, 2 * high - 1, generator)


def _trunc_normal(
    tensor: mt.Tensor, mean: float, std: float, a: float, b: float, low: float, high: float, generator: Any
) -> mt.Tensor:
    tensor.uniform_(low, high, generator=generator)
    return tensor.erfinv_().mul_(std * math.sqrt(2.0)).add_(mean).clamp_(a, b)


def _no_grad_uniform_(tensor: mt.Tensor, a: float, b: float, generator: mt.Generator | None = None) -> mt.Tensor:
    return uniform_(tensor, a, b, generator)


def _no_grad_normal_(tensor: mt.Tensor, mean: float, std: float, generator: mt.Generator | None = None) -> mt.Tensor:
    return normal_(tensor, mean, std, generator)


def _no_grad_trunc_normal_(
    tensor: mt.Tensor, mean: float, std: float, a: float, b: float, generator: mt.Generator | None = None
) -> mt.Tensor:
    return trunc_normal_(tensor, mean, std, a, b, generator)


def _no_grad_fill_(tensor: mt.Tensor, val: float) -> mt.Tensor:
    return constant_(tensor, val)


def _no_grad_zero_(tensor: mt.Tensor) -> mt.Tensor:
    return constant_(tensor, 0.0)


def constant_(tensor: mt.Tensor, val: float) -> mt.Tensor:
    """Fill a tensor with the value ``val``."""
    return fill(_fill_, tensor, val)


def ones_(tensor: mt.Tensor) -> mt.Tensor:
    """Fill a tensor with ones."""
    return fill(_fill_, tensor, 1.0)


def zeros_(tensor: mt.Tensor) -> mt.Tensor:
    """Fill a tensor with zeros."""
    return fill(_fill_, tensor, 0.0)


def eye_(tensor: mt.Tensor) -> mt.Tensor:
    """Fill a matrix with the identity: ones on the diagonal, zeros elsewhere.

    Raise ValueError if the tensor does not have 2 dimensions.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.init.eye_(mt.empty(2, 3, device="cpu"))
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    if tensor.dim() != 2:
        raise ValueError(f"eye_: expected 2 dimensions, got shape {list(tensor.shape)}")
    return without_grad(tensor.copy_, mt.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


def dirac_(tensor: mt.Tensor, groups: int = 1) -> mt.Tensor:
    """Fill the weight of a convolution so that it passes on as many input channels unchanged as possible.

    Parameters
    ----------
    tensor : Tensor
        Weight (out_channels, in_channels / groups, ...) of 3 to 5 dimensions.
    groups : int
        Groups of the convolution. Default 1.

    Raises
    ------
    ValueError
        If the tensor has another number of dimensions or ``groups`` does not divide the first.
    """
    if tensor.dim() not in (3, 4, 5):
        raise ValueError(f"dirac_: expected 3, 4 or 5 dimensions, got shape {list(tensor.shape)}")
    if tensor.shape[0] % groups:
        raise ValueError(f"dirac_: the first dimension, {tensor.shape[0]}, is not divisible by groups={groups}")
    return without_grad(_dirac, tensor, groups)


def _dirac(tensor: mt.Tensor, groups: int) -> mt.Tensor:
    per_group = tensor.shape[0] // groups
    passed = min(per_group, tensor.shape[1])
    centre = tuple(size // 2 for size in tensor.shape[2:])
    channels = mt.arange(passed, device=tensor.device)
    tensor.zero_()
    for group in range(groups):
        index = (channels + group * per_group, channels, *centre)
        tensor[index] = 1
    return tensor


def _calculate_correct_fan(tensor: mt.Tensor, mode: str) -> int:
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    if mode == "fan_in":
        return fan_in
    if mode == "fan_out":
        return fan_out
    if mode.lower() in ("fan_in", "fan_out"):
        return _calculate_correct_fan(tensor, mode.lower())
    raise ValueError(f"the mode must be 'fan_in' or 'fan_out', not {mode!r}")


def xavier_uniform_(tensor: mt.Tensor, gain: float = 1.0, generator: mt.Generator | None = None) -> mt.Tensor:
    """Fill a weight with uniform values within ±gain * sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010).

    Parameters
    ----------
    tensor : Tensor
        Weight (out, in, ...) of at least 2 dimensions.
    gain : float
        Factor. Default 1. See `calculate_gain`.
    generator : Generator, optional
        Source of random numbers. Default: the device's generator.

    Raises
    ------
    ValueError
        If the tensor has fewer than 2 dimensions.
    """
    bound = gain * math.sqrt(6.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: mt.Tensor, gain: float = 1.0, generator: mt.Generator | None = None) -> mt.Tensor:
    """Fill a weight with normal values of standard deviation gain * sqrt(2 / (fan_in + fan_out)).

    The formula is that of Glorot and Bengio (2010). See `xavier_uniform_` for the parameters.
    """
    std = gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return normal_(tensor, 0.0, std, generator)


def kaiming_uniform_(
    tensor: mt.Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: mt.Generator | None = None,
) -> mt.Tensor:
    """Fill a weight with uniform values within ±gain * sqrt(3 / fan) (He et al., 2015).

    The gain is ``calculate_gain(nonlinearity, a)``. A tensor without elements is left unchanged, with a warning.

    Parameters
    ----------
    tensor : Tensor
        Weight (out, in, ...) of at least 2 dimensions.
    a : float
        Negative slope if ``nonlinearity`` is "leaky_relu". Default 0.
    mode : str
        "fan_in" (the default) or "fan_out", which selects ``fan``.
    nonlinearity : str
        Nonlinearity that follows the layer. Default "leaky_relu".
    generator : Generator, optional
        Source of random numbers. Default: the device's generator.

    Raises
    ------
    ValueError
        If ``mode`` or ``nonlinearity`` is unknown or the tensor has fewer than 2 dimensions.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.nn.init.kaiming_uniform_(mt.empty(4, 3), nonlinearity="relu").shape
    metatensor.Size([4, 3])
    """
    if tensor.numel() == 0:
        return _nothing_to_do("kaiming_uniform_", tensor)
    bound = calculate_gain(nonlinearity, a) * math.sqrt(3.0 / _calculate_correct_fan(tensor, mode))
    if generator is None:
        return fill(_uniform_, tensor, -bound, bound)
    return uniform_(tensor, -bound, bound, generator)


def _uniform_by_fan_in_(weight: mt.Tensor, bias: mt.Tensor | None) -> None:
    """Fill the weight and bias of a layer with uniform values within ±1 / sqrt(fan_in)."""
    kaiming_uniform_(weight, a=_SQRT_5)
    if bias is not None:
        _uniform_within_([bias], math.prod(weight.shape[1:]))


def _uniform_within_(tensors: Iterable[mt.Tensor], size: int) -> None:
    """Fill tensors with uniform values within ±1 / sqrt(size), or with zeros if the size is 0."""
    bound = 1 / math.sqrt(size) if size > 0 else 0.0
    for tensor in tensors:
        uniform_(tensor, -bound, bound)


def kaiming_normal_(
    tensor: mt.Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: mt.Generator | None = None,
) -> mt.Tensor:
    """Fill a weight with normal values of standard deviation gain / sqrt(fan) (He et al., 2015).

    See `kaiming_uniform_` for the parameters.
    """
    if tensor.numel() == 0:
        return _nothing_to_do("kaiming_normal_", tensor)
    std = calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))
    return normal_(tensor, 0.0, std, generator)


def _nothing_to_do(name: str, tensor: mt.Tensor) -> mt.Tensor:
    warnings.warn(f"{name}: the tensor has no elements (shape {list(tensor.shape)})", stacklevel=3)
    return tensor


def orthogonal_(tensor: mt.Tensor, gain: float = 1, generator: mt.Generator | None = None) -> mt.Tensor:
    """Fill a weight with a (semi-)orthogonal matrix times ``gain`` (Saxe et al., 2013).

    Dimensions after the first are flattened into one to form the matrix.

    Parameters
    ----------
    tensor : Tensor
        Weight of at least 2 dimensions.
    gain : float
        Factor. Default 1.
    generator : Generator, optional
        Source of random numbers. Default: the device's generator.

    Raises
    ------
    ValueError
        If the tensor has fewer than 2 dimensions.

    Notes
    -----
    Under deferred initialization, a slice of the matrix cannot be computed without the rest.
    """
    if tensor.dim() < 2:
        raise ValueError(f"orthogonal_: expected at least 2 dimensions, got shape {list(tensor.shape)}")
    if tensor.numel() == 0:
        return tensor
    return without_grad(_orthogonal, tensor, gain, generator)


def _orthogonal(tensor: mt.Tensor, gain: float, generator: Any) -> mt.Tensor:
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    dtype = tensor.dtype if tensor.itemsize >= 4 else mt.float32
    drawn = mt.empty((rows, columns), dtype=dtype, device=tensor.device).normal_(0, 1, generator=generator)
    wide = rows <= columns
    q, r = mt.linalg.qr(drawn.t() if wide else drawn)
    # With the signs that make the diagonal of R positive, Q is uniformly distributed.
    q = q * r.diagonal().sgn()
    return tensor.copy_((q.t() if wide else q).reshape(tensor.shape)).mul_(gain)


def sparse_(
    tensor: mt.Tensor, sparsity: float, std: float = 0.01, generator: mt.Generator | None = None
) -> mt.Tensor:
    """Fill a matrix with normal values and set the fraction ``sparsity`` of each column to 0 (Martens, 2010).

    Parameters
    ----------
    tensor : Tensor
        Matrix.
    sparsity : float
        Fraction of zeros per column, rounded up to whole elements.
    std : float
        Standard deviation of the other values. Default 0.01.
    generator : Generator, optional
        Source of random numbers. Default: the device's generator.

    Raises
    ------
    ValueError
        If the tensor does not have 2 dimensions.
    """
    if tensor.dim() != 2:
        raise ValueError(f"sparse_: expected 2 dimensions, got shape {list(tensor.shape)}")
    return without_grad(_sparse, tensor, math.ceil(sparsity * tensor.shape[0]), std, generator)


def _sparse(tensor: mt.Tensor, zeros: int, std: float, generator: Any) -> mt.Tensor:
    tensor.normal_(0, std, generator=generator)
    order = mt.empty(tensor.shape, device=tensor.device).uniform_(0, 1, generator=generator).argsort(dim=0)
    return tensor.scatter_(0, order[:zeros], 0.0)


def _without_underscore(new: Any) -> Any:
    old = new.__name__[:-1]

    def deprecated(*args: Any, **kwargs: Any) -> mt.Tensor:
        warnings.warn(f"nn.init.{old} is called nn.init.{old}_ now", FutureWarning, stacklevel=2)
        return new(*args, **kwargs)

    deprecated.__name__ = deprecated.__qualname__ = old
    deprecated.__doc__ = f"Deprecated name of `{new.__name__}`."
    return deprecated


uniform = _without_underscore(uniform_)
normal = _without_underscore(normal_)
constant = _without_underscore(constant_)
eye = _without_underscore(eye_)
dirac = _without_underscore(dirac_)
xavier_uniform = _without_underscore(xavier_uniform_)
xavier_normal = _without_underscore(xavier_normal_)
kaiming_uniform = _without_underscore(kaiming_uniform_)
kaiming_normal = _without_underscore(kaiming_normal_)
orthogonal = _without_underscore(orthogonal_)
sparse = _without_underscore(sparse_)
