"""Compare gradients with finite differences."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import metatensor as mt
from metatensor._core.duals import fresh

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """Raised by `gradcheck` if a gradient is wrong."""


def _tensors(values: Any) -> tuple:
    return tuple(v for v in (values if isinstance(values, (tuple, list)) else (values,)) if isinstance(v, mt.Tensor))


def _outputs(func: Callable, inputs: tuple) -> tuple:
    return tuple(t for t in _tensors(func(*inputs)) if t.requires_grad)


def _differences(func: Callable, inputs: tuple, x: Any, eps: float) -> list:
    """Return, for each output, a matrix of shape (x.numel(), output.numel()): its derivatives by the elements of `x`.

    If `x` is complex, as many further rows follow, with the derivatives by the imaginary parts.
    """
    rows: list = []
    values = x.data  # has a version counter of its own, so that writes to it do not invalidate saved values
    steps = (eps, eps * 1j) if x.is_complex() else (eps,)
    for step in steps:
        for i in range(x.numel()):
            found = []
            for sign in (1, -1):
                index = _unraveled(i, x.shape)
                before = values[index].item()
                values[index] = before + sign * step
                found.append([_numbers(t) for t in _tensors(func(*inputs))])
                values[index] = before
            rows.append([(a - b).reshape(-1) / (2 * eps) for a, b in zip(*found, strict=True)])
    return [mt.stack([row[k] for row in rows]) for k in range(len(rows[0]))] if rows else []


def _numbers(t: Any) -> Any:
    """Return a copy of a result, or zeros if the result is neither floating-point nor complex."""
    return t.detach().clone() if t.is_floating_point() or t.is_complex() else mt.zeros_like(t, dtype=mt.float64)


def _unraveled(i: int, shape: Sequence[int]) -> tuple[int, ...]:
    index = []
    for size in reversed(shape):
        i, k = divmod(i, size)
        index.append(k)
    return tuple(reversed(index))


def _analytic(func: Callable, inputs: tuple, differentiated: list, k: int) -> list:
    """Return, for each input, the gradients of the elements of output `k`.

    The matrix for an input has shape (output.numel(), input.numel()), or twice as many rows if the output is complex:
    the gradients of the real parts, then those of the imaginary parts.
    """
    output = _outputs(func, inputs)[k]
    columns: list[list] = [[] for _ in differentiated]
    for part in (1, 1j) if output.is_complex() else (1,):
        for i in range(output.numel()):
            weight = mt.zeros_like(output, memory_format=mt.contiguous_format)
            weight.view(-1)[i] = part
            found = mt.autograd.grad(output, differentiated, weight, retain_graph=True, allow_unused=True)
            for column, g, x in zip(columns, found, differentiated, strict=True):
                column.append(mt.zeros(x.numel(), dtype=x.dtype, device=x.device) if g is None else g.reshape(-1))
    return [mt.stack(column) if column else None for column in columns]


def _expected(numeric: Any, x: Any, output: Any) -> Any:
    """Return the gradients that finite differences predict, in the layout of `_analytic`.

    The real and the imaginary part of an output count as separate functions. The gradient of each with respect to
    ``z = x + iy`` is ``d/dx + i d/dy``.
    """
    n = x.numel()
    parts = [numeric.real, numeric.imag] if output.is_complex() else [numeric.real if numeric.is_complex() else numeric]
    rows = [(p[:n] + 1j * p[n:] if x.is_complex() else p).transpose(0, 1) for p in parts]
    return mt.cat(rows) if len(rows) > 1 else rows[0]


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the gradients of a function with central differences, ``(f(x + eps) - f(x - eps)) / (2 eps)``.

    Parameters
    ----------
    func : callable
        The function to check. Its results are tensors.
    inputs : Tensor or tuple
        The arguments. Those that require grad should be float64 or complex128, on a device with data.
    eps : float
        The step of the differences.
    atol, rtol : float
        Tolerances of the comparison.
    raise_exception : bool
        Raise GradcheckError, rather than return False, if a gradient is wrong.
    nondet_tol : float
        Largest allowed difference between the gradients of two runs.
    check_undefined_grad : bool
        Also check that an absent gradient of an output counts as zeros.
    check_grad_dtypes : bool
        Also check that each gradient has the dtype of its tensor.
    check_batched_grad : bool
        Also compute the gradients of a batch under `vmap`, and compare them.
    check_forward_ad : bool
        Also compare the tangents that forward mode computes with the differences. Default False.
    check_batched_forward_grad : bool
        Also compute the tangents of a batch under `vmap`, and compare them.
    check_backward_ad : bool
        Compare the gradients that backward computes. Default True.
    fast_mode, masked
        Accepted for compatibility. The whole Jacobian is always compared.

    Returns
    -------
    bool
        True if all gradients are right.

    Raises
    ------
    GradcheckError
        If a gradient is wrong and `raise_exception` is True.
    ValueError
        If no input requires grad.

    Examples
    --------
    >>> import metatensor as mt
    >>> x = mt.tensor([0.5, 2.0], dtype=mt.float64, device="cpu", requires_grad=True)
    >>> mt.autograd.gradcheck(mt.sin, (x,))
    True
    """
    if not check_forward_ad and not check_backward_ad:
        raise ValueError("gradcheck: one of check_forward_ad and check_backward_ad must be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise ValueError("gradcheck: check_batched_forward_grad needs check_forward_ad=True")
    if not check_backward_ad and (check_batched_grad or check_grad_dtypes):
        raise ValueError("gradcheck: check_batched_grad and check_grad_dtypes need check_backward_ad=True")
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    differentiated = [x for x in given if isinstance(x, mt.Tensor) and x.requires_grad]
    if not differentiated:
        raise ValueError("gradcheck: at least one input must require grad")
    for i, x in enumerate(differentiated):
        if x.dtype not in (mt.float64, mt.complex128):
            warnings.warn(f"gradcheck: input {i} is {x.dtype}; differences of less than double precision are inaccurate", stacklevel=2)
    try:
        if check_forward_ad:
            _check_forward(func, given, differentiated, eps, atol, rtol, check_batched_forward_grad)
        if not check_backward_ad:
            return True
        _check(func, given, differentiated, eps, atol, rtol, nondet_tol, check_grad_dtypes)
        if check_undefined_grad:
            _check_undefined(func, given, differentiated)
        if check_batched_grad:
            _check_batched(func, given, differentiated, atol, rtol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check(func: Callable, given: tuple, differentiated: list, eps: float, atol: float, rtol: float, nondet: float, dtypes: bool) -> None:
    every = _tensors(func(*given))
    outputs = [t for t in every if t.requires_grad]
    numeric = {id(x): _differences(func, given, x, eps) for x in differentiated}
    for t in every:
        if t.requires_grad or not (t.is_floating_point() or t.is_complex()):
            continue
        place = next(i for i, o in enumerate(every) if o is t)
        if any(found and bool((found[place].abs() > atol).any()) for found in numeric.values()):
            raise GradcheckError(f"gradcheck: output {place} depends on an input but does not require grad")
    places = [i for i, t in enumerate(every) if t.requires_grad]
    for k, (place, output) in enumerate(zip(places, outputs, strict=True)):
        found = _analytic(func, given, differentiated, k)
        again = _analytic(func, given, differentiated, k)
        for i, (x, a, b) in enumerate(zip(differentiated, found, again, strict=True)):
            if a is None or not numeric[id(x)]:
                continue
            if dtypes and a.dtype is not x.dtype:
                raise GradcheckError(f"gradcheck: the gradient for input {i} is {a.dtype}, but the input is {x.dtype}")
            if bool(((a - b).abs() > nondet).any()):
                raise GradcheckError(f"gradcheck: two backward passes gave different gradients for input {i}")
            expected = _expected(numeric[id(x)][place], x, output)
            if not mt.allclose(a, expected.to(a.dtype), rtol=rtol, atol=atol, equal_nan=True):
                raise GradcheckError(
                    f"gradcheck: the gradient of output {k} for input {i} is wrong\nbackward:\n{a}\ndifferences:\n{expected}"
                )


def _check_forward(func: Callable, given: tuple, differentiated: list, eps: float, atol: float, rtol: float, batched: bool) -> None:
    """Compare the tangents in the direction of each element of each input with differences."""
    for k, x in enumerate(differentiated):
        numeric = _differences(func, given, x, eps)
        directions = _units(x)
        found = [_tangents(func, given, x, t) for t in directions]
        if not found:
            continue
        for i, (column, want) in enumerate(zip(zip(*found, strict=True), numeric, strict=True)):
            got = mt.stack([t.reshape(-1) for t in column])
            if not mt.allclose(got, want.to(got.dtype), rtol=rtol, atol=atol, equal_nan=True):
                raise GradcheckError(f"gradcheck: the tangent of output {i} for input {k} is wrong\nforward:\n{got}\ndifferences:\n{want}")
        if batched:
            together = mt.func.vmap(lambda t, x=x: tuple(_tangents(func, given, x, t)))(mt.stack(directions))
            for i, (column, want) in enumerate(zip(zip(*found, strict=True), together, strict=True)):
                if not mt.allclose(mt.stack(list(column)), want, rtol=rtol, atol=atol, equal_nan=True):
                    raise GradcheckError(f"gradcheck: the tangents of a batch of output {i} for input {k} differ from those of its members")


def _units(x: Any) -> list:
    """Return the unit tangents of `x`: one for each element and, if `x` is complex, one for each imaginary part."""
    made = []
    for part in (1, 1j) if x.is_complex() else (1,):
        for i in range(x.numel()):
            unit = mt.zeros(x.shape, dtype=x.dtype, device=x.device)
            unit.view(-1)[i] = part
            made.append(unit)
    return made


def _tangents(func: Callable, given: tuple, x: Any, tangent: Any) -> list:
    """Return the tangents of all outputs if `x` has the tangent `tangent`."""
    from metatensor.autograd import forward_ad

    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x.detach(), tangent)
        outputs = _tensors(func(*[dual if y is x else y.detach() if isinstance(y, mt.Tensor) else y for y in given]))
        pairs = [forward_ad.unpack_dual(y) for y in outputs]
    return [mt.zeros_like(primal).detach() if t is None else t for primal, t in pairs]


def _check_undefined(func: Callable, given: tuple, differentiated: list) -> None:
    """Check that an absent gradient of one output, with zeros for the others, results in absent or zero gradients."""
    outputs = _outputs(func, given)
    if len(outputs) < 2:
        return
    for k in range(len(outputs)):
        outputs = _outputs(func, given)
        weights = [mt.zeros_like(o) for i, o in enumerate(outputs) if i != k]
        found = mt.autograd.grad([o for i, o in enumerate(outputs) if i != k], differentiated, weights, allow_unused=True)
        if any(g is not None and bool((g != 0).any()) for g in found):
            raise GradcheckError(f"gradcheck: without a gradient for output {k}, zeros for the others gave a gradient that is not zero")


def _check_batched(func: Callable, given: tuple, differentiated: list, atol: float, rtol: float) -> None:
    for output in _outputs(func, given):
        weights = [mt.randn_like(output) for _ in range(2)]
        one = [mt.autograd.grad(output, differentiated, w, retain_graph=True, allow_unused=True) for w in weights]
        many = mt.autograd.grad(output, differentiated, mt.stack(weights), retain_graph=True, allow_unused=True, is_grads_batched=True)
        for i, g in enumerate(many):
            if g is not None and not mt.allclose(g, mt.stack([o[i] for o in one]), rtol=rtol, atol=atol, equal_nan=True):
                raise GradcheckError(f"gradcheck: the gradients of a batch for input {i} differ from those of its members")


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Compare the second derivatives of a function with central differences of its gradients.

    Parameters
    ----------
    func : callable
        The function to check. Its results are tensors.
    inputs : Tensor or tuple
        The arguments, as for `gradcheck`.
    grad_outputs : Tensor or tuple, optional
        The gradients of the outputs. Random by default.
    gen_non_contig_grad_outputs : bool
        Make the random `grad_outputs` non-contiguous. Default False.
    check_fwd_over_rev, check_rev_over_rev : bool
        Whether to differentiate the gradients in forward mode, and in reverse mode. Default: only in reverse mode.

    The other parameters are those of `gradcheck`.

    Returns
    -------
    bool
        True if all gradients are right.

    Raises
    ------
    GradcheckError
        If a gradient is wrong and `raise_exception` is True.
    """
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    outputs = _outputs(func, given)
    if grad_outputs is None:
        weights = tuple(_drawn(o, gen_non_contig_grad_outputs) for o in outputs)
    else:
        weights = _tensors(grad_outputs)
    n = len(weights)
    differentiated = [i for i, x in enumerate(given) if isinstance(x, mt.Tensor) and x.requires_grad]

    def gradients(*args: Any) -> tuple:
        args = tuple(fresh(x, True)[0] if isinstance(x, mt.Tensor) and not x.requires_grad and (i in differentiated or i >= len(args) - n)
                     else x for i, x in enumerate(args))
        made = _outputs(func, args[:-n])
        found = mt.autograd.grad(made, [args[i] for i in differentiated], args[-n:], create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradients, (*given, *weights), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes, check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev, check_backward_ad=check_rev_over_rev, fast_mode=fast_mode, masked=masked,
    )  # fmt: skip


def _drawn(output: Any, strided: bool) -> Any:
    made = mt.randn(output.shape, dtype=output.dtype, device=output.device)
    if strided and made.dim():
        made = mt.stack([made, made], -1)[..., 0]
    return made.requires_grad_()
