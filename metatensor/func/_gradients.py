"""Transforms that differentiate functions.

The arguments to differentiate with respect to are replaced by aliases with nodes of their own, so a transform finds its own
gradients whatever else is recorded. Results are detached unless they also depend on other tensors that require grad.

Inside `vmap`, the aliases hold all members, also of arguments that the members share, and the gradients are those of the
members.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor._core import duals
from metatensor._core.engine import gradient_edge, run_backward
from metatensor._core.tensor import Tensor
from metatensor.autograd.forward_ad import _dual, _unpacked
from metatensor.func import _tree
from metatensor.func._batched import Level, peel, wrap
from metatensor.func._recorded import (
    _has_batch,
    _innermost,
    _members,
    _named,
    _outputs,
    _positions,
    _real,
    _Recorded,
    _tensors,
    _whole,
    _with_aux,
)

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp"]


# Reverse mode -----------------------------------------------------------------------------------------------------------


def grad_and_value(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes the gradient and the value of `func`.

    Parameters
    ----------
    func : callable
        Function that returns a 0-d tensor, or with `has_aux` a tuple of that and anything else.
    argnums : int or tuple of int
        The arguments to differentiate with respect to: tensors, or nested containers of tensors. Default: the first.
    has_aux : bool
        Whether `func` returns a second value, which is returned unchanged.

    Returns
    -------
    callable
        Function that returns ``(gradient, value)``, or ``(gradient, (value, aux))``. The gradient has the structure of the
        argument, or is a tuple if `argnums` is one.

    Raises
    ------
    RuntimeError
        If `argnums` does not fit, or the function does not return a 0-d tensor.
    ValueError
        If an argument holds anything but tensors.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.func.grad_and_value(lambda x: (x * x).sum())(mt.tensor([1.0, 2.0], device="cpu"))
    (tensor([2., 4.]), tensor(5.))
    """

    def transformed(*args: Any, **kwargs: Any) -> Any:
        return _grad_and_value(func, argnums, has_aux, args, kwargs)

    return _named(func, transformed)


def _grad_and_value(func: Any, argnums: Any, has_aux: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    at = _positions("grad", argnums, len(args))
    chosen = [args[i] for i in at]
    leaves = _tensors("grad", chosen)

    def of_leaves(aliases: list[Any]) -> tuple[Any, Any]:
        given = list(args)
        for i, value in zip(at, _tree.unflatten(chosen, aliases), strict=True):
            given[i] = value
        value, aux = _with_aux("grad", func(*given, **kwargs), has_aux)
        if not isinstance(value, Tensor):
            raise RuntimeError(f"grad: the function must return a Tensor, not {type(value).__name__}")
        if value.dim() != 0:
            raise RuntimeError(f"grad: the function must return a 0-d tensor, but its result has shape {list(value.shape)}")
        if not value.is_floating_point():
            raise RuntimeError(f"grad: the function must return a real floating-point tensor, not {value.dtype}")
        return value, aux

    call = _Recorded("grad", of_leaves, leaves)
    found = _tree.unflatten(chosen, call.gradients([mt.ones_like(call.output).detach()], call.nested))
    gradients = found[0] if isinstance(argnums, int) else tuple(found)
    value = call.visible(call.output)
    return gradients, (value, call.visible(call.aux)) if has_aux else value


def grad(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes the gradient of `func`.

    Parameters
    ----------
    func : callable
        Function that returns a 0-d tensor, or with `has_aux` a tuple of that and anything else.
    argnums : int or tuple of int
        The arguments to differentiate with respect to: tensors, or nested containers of tensors. Default: the first.
    has_aux : bool
        Whether `func` returns a second value. Then the result is ``(gradient, aux)``.

    Returns
    -------
    callable
        Function with the arguments of `func` that returns the gradient, a tuple if `argnums` is one.

    Raises
    ------
    RuntimeError
        If `argnums` does not fit, or the function does not return a 0-d tensor.
    ValueError
        If an argument holds anything but tensors.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.func.grad(mt.sin)(mt.tensor(0.0, device="cpu"))
    tensor(1.)
    >>> mt.func.grad(mt.func.grad(lambda x: x**3))(mt.tensor(2.0, device="cpu"))
    tensor(12.)
    """

    def transformed(*args: Any, **kwargs: Any) -> Any:
        gradients, value = _grad_and_value(func, argnums, has_aux, args, kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return _named(func, transformed)


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return the value of a function and a function that computes products of vectors with its Jacobian.

    Parameters
    ----------
    func : callable
        Function of `primals` that returns tensors in nested containers, or with `has_aux` a tuple of that and anything else.
    *primals : Tensor, or nested containers of Tensors
        The arguments.
    has_aux : bool
        Whether `func` returns a second value, which is returned as a third result.

    Returns
    -------
    output : Any
        The value.
    vjp_fn : callable
        Takes a gradient for each tensor of the output, in the same structure. Returns the gradients of the arguments, as a
        tuple even for one argument. It may be called more than once.

    Examples
    --------
    >>> import metatensor as mt
    >>> y, pullback = mt.func.vjp(lambda x: x * x, mt.tensor([1.0, 2.0], device="cpu"))
    >>> pullback(mt.ones(2, device="cpu"))
    (tensor([2., 4.]),)
    """
    call, output, aux = _recorded_vjp("vjp", func, primals, has_aux)

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        if _tree.structure(cotangents) != _tree.structure(call.output):
            raise RuntimeError(f"vjp: the gradients have the structure {_tree.structure(cotangents)}, but the output "
                               f"{_tree.structure(call.output)}")
        found = _pulled_back(call, _tree.flatten(cotangents), retain_graph, create_graph)
        made = tuple(_tree.unflatten(list(primals), found))
        return made

    return (output, vjp_fn, aux) if has_aux else (output, vjp_fn)


def _recorded_vjp(where: str, func: Any, primals: Any, has_aux: bool) -> tuple[Any, Any, Any]:
    leaves = _tensors(where, list(primals))

    def of_leaves(aliases: list[Any]) -> tuple[Any, Any]:
        return _with_aux(where, func(*_tree.unflatten(list(primals), aliases)), has_aux)

    call = _Recorded(where, of_leaves, leaves)
    return call, call.visible(call.output), call.visible(call.aux)


def _pulled_back(call: _Recorded, cotangents: list[Any], keep: bool = True, create: bool | None = None) -> list[Any]:
    for y, g in zip(call.outputs, cotangents, strict=True):
        if not isinstance(g, Tensor) or g.shape != y.shape:
            got = list(g.shape) if isinstance(g, Tensor) else type(g).__name__
            raise RuntimeError(f"{call.where}: a gradient has shape {got}, but the output has shape {list(y.shape)}")
    if create is None:
        create = mt.is_grad_enabled() and (call.nested or any(_innermost(g).requires_grad for g in cotangents))
    return call.gradients(cotangents, keep or create, create)


def jacrev(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of `func` in reverse mode: all its rows at once, as a batch.

    Parameters
    ----------
    func : callable
        Function that returns tensors in nested containers, or with `has_aux` a tuple of that and anything else.
    argnums : int or tuple of int
        The arguments to differentiate with respect to. Default: the first.
    has_aux : bool
        Whether `func` returns a second value. Then the result is ``(jacobian, aux)``.
    chunk_size : int, optional
        The number of rows computed at once. Default: all.

    Returns
    -------
    callable
        Function that returns the derivatives. In the structure of the output, each tensor is replaced by its derivative by
        each argument, of shape ``(*output.shape, *argument.shape)``.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.func.jacrev(lambda x: x * x)(mt.tensor([1.0, 2.0], device="cpu"))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if chunk_size is not None and not chunk_size > 0:
        raise ValueError(f"jacrev: chunk_size must be positive, got {chunk_size}")

    def transformed(*args: Any, **kwargs: Any) -> Any:
        at = _positions("jacrev", argnums, len(args))

        def of_chosen(*chosen: Any) -> Any:
            given = list(args)
            for i, value in zip(at, chosen, strict=True):
                given[i] = value
            return func(*given, **kwargs)

        primals = tuple(args[i] for i in at)
        _real("jacrev", _tree.flatten(primals), "arguments")
        call, _, aux = _recorded_vjp("jacrev", of_chosen, primals, has_aux)
        _real("jacrev", call.outputs, "outputs")
        rows = []
        for k, y in enumerate(call.outputs):
            found = _rows(call, k, y, chunk_size)
            shaped = [g.reshape(*y.shape, *x.shape) for g, x in zip(found, call.leaves, strict=True)]
            made = _tree.unflatten(list(primals), shaped)
            rows.append(made[0] if isinstance(argnums, int) else tuple(made))
        result = _placed_in(call.output, rows)
        return (result, aux) if has_aux else result

    return _named(func, transformed)


def _rows(call: _Recorded, k: int, y: Any, chunk_size: int | None) -> list[Any]:
    """Return the gradients of each element of output `k`, along a first dimension."""
    n = y.numel()
    zeros = [mt.zeros(other.shape, dtype=other.dtype, device=other.device) for other in call.outputs]
    parts = []
    step = chunk_size or max(n, 1)
    for start in range(0, max(n, 1), step):
        count = min(step, n - start)
        basis = mt.zeros((count, n), dtype=y.dtype, device=y.device)
        basis.diagonal(start).fill_(1)
        basis = basis.reshape(count, *y.shape)
        if count == 0:
            return [x.new_zeros((0, *x.shape)) for x in call.leaves]
        with Level(count, "error") as level:
            level.for_tangents = True
            cotangents = [wrap(basis, level) if i == k else zero for i, zero in enumerate(zeros)]
            found = _pulled_back(call, cotangents)
            parts.append([peel(g, level) for g in found])
    if len(parts) == 1:
        return parts[0]
    return [mt.cat(list(column)) for column in zip(*parts, strict=True)]


def _placed_in(tree: Any, values: list[Any]) -> Any:
    """Return a container like `tree` with `values`, which may be containers themselves, as its leaves."""
    rest = iter(values)
    return _tree.tree_map(lambda _: next(rest), tree)


# Forward mode ----------------------------------------------------------------------------------------------------------------


def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """Return the value of a function and the product of its Jacobian with a vector, computed in forward mode.

    Parameters
    ----------
    func : callable
        Function of `primals` that returns tensors in nested containers, or with `has_aux` a tuple of that and anything else.
    primals : tuple
        The arguments: tensors, or nested containers of tensors.
    tangents : tuple
        A tangent for each of them, in the same structure.
    strict : bool
        Raise RuntimeError if an output does not depend on the arguments, instead of returning zeros. Default False.
    has_aux : bool
        Whether `func` returns a second value, which is returned as a third result.

    Returns
    -------
    output, tangent : Any
        The value and its tangent, in the same structure.

    Examples
    --------
    >>> import metatensor as mt
    >>> x = mt.tensor([1.0, 2.0], device="cpu")
    >>> mt.func.jvp(lambda x: x * x, (x,), (mt.ones(2, device="cpu"),))
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    for name, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, tuple):
            raise RuntimeError(f"jvp: {name} must be a tuple, not {type(given).__name__}; for one argument pass (x,)")
    if not primals:
        raise RuntimeError("jvp: primals is empty")
    if _tree.structure(primals) != _tree.structure(tangents):
        raise RuntimeError(f"jvp: the primals have the structure {_tree.structure(primals)}, but the tangents "
                           f"{_tree.structure(tangents)}")
    leaves, directions = _tensors("jvp", primals), _tensors("jvp", tangents, "tangents")
    output, found, aux = _pushed("jvp", func, primals, leaves, directions, strict, has_aux)
    made = _tree.unflatten(output, found)
    return (output, made, aux) if has_aux else (output, made)


def _pushed(where: str, func: Any, primals: Any, leaves: list[Any], directions: list[Any], strict: bool, has_aux: bool) -> Any:
    """Call `func` at a new level of forward mode. Return the output, the tangents of its tensors, and aux."""
    number = duals.enter_level()
    try:
        given = []
        for x, t in zip(leaves, directions, strict=True):
            if x.shape != t.shape:
                raise RuntimeError(f"{where}: a tangent has shape {list(t.shape)}, but its tensor has shape {list(x.shape)}")
            if not (x.is_floating_point() or x.is_complex()):
                raise RuntimeError(f"{where}: only floating-point and complex tensors have tangents, got {x.dtype}")
            given.append(_dual(x, t, number))
        output, aux = _with_aux(where, func(*_tree.unflatten(primals, given)), has_aux)
        found = []

        def without(x: Any) -> Any:
            return _unpacked(x, number)[0] if isinstance(x, Tensor) else x

        for y in _outputs(where, output):
            tangent = _unpacked(y, number)[1]
            if tangent is None:
                if strict:
                    raise RuntimeError(f"{where}: an output of shape {list(y.shape)} does not depend on the arguments")
                tangent = mt.zeros_like(without(y)).detach()
            found.append(tangent)
        return _tree.tree_map(without, output), found, _tree.tree_map(without, aux)
    finally:
        duals.leave_level(number)


def jacfwd(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of `func` in forward mode: all its columns at once, as a batch.

    Parameters
    ----------
    func : callable
        Function that returns tensors in nested containers, or with `has_aux` a tuple of that and anything else.
    argnums : int or tuple of int
        The arguments to differentiate with respect to. Default: the first.
    has_aux : bool
        Whether `func` returns a second value. Then the result is ``(jacobian, aux)``.
    randomness : {"error", "different", "same"}
        What random operators in `func` do: see `vmap`.

    Returns
    -------
    callable
        Function that returns the derivatives. In the structure of the output, each tensor is replaced by its derivative by
        each argument, of shape ``(*output.shape, *argument.shape)``.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.func.jacfwd(lambda x: x * x)(mt.tensor([1.0, 2.0], device="cpu"))
    tensor([[2., 0.],
            [0., 4.]])
    """

    def transformed(*args: Any, **kwargs: Any) -> Any:
        at = _positions("jacfwd", argnums, len(args))
        chosen = tuple(args[i] for i in at)
        leaves = _tensors("jacfwd", chosen)
        _real("jacfwd", leaves, "arguments")

        def of_chosen(*values: Any) -> Any:
            given = list(args)
            for i, value in zip(at, values, strict=True):
                given[i] = value
            return func(*given, **kwargs)

        total = sum(x.numel() for x in leaves)
        with Level(total, randomness) as level:
            level.for_tangents = True
            output, found, aux = _pushed("jacfwd", of_chosen, chosen, leaves, _basis(leaves, total, level), False, has_aux)
            if any(_has_batch(y, level) for y in _tree.flatten([output, aux]) if isinstance(y, Tensor)):
                raise RuntimeError("jacfwd: the value of the function differs between the columns, because it depends on its tangents")
            columns = [peel(t, level) for t in found]
        _real("jacfwd", _tree.flatten(output), "outputs")
        rows = []
        for y, t in zip(_tree.flatten(output), columns, strict=True):
            parts, start = [], 0
            for x in leaves:
                part = t.narrow(0, start, x.numel()).movedim(0, -1)
                parts.append(part.reshape(*y.shape, *x.shape))
                start += x.numel()
            made = list(_tree.unflatten(chosen, parts))
            rows.append(made[0] if isinstance(argnums, int) else tuple(made))
        result = _placed_in(output, rows)
        return (result, aux) if has_aux else result

    return _named(func, transformed)


def _basis(leaves: list[Any], total: int, level: Level) -> list[Any]:
    """Return tangents whose members are the unit vectors."""
    made, start = [], 0
    for x in leaves:
        n = x.numel()
        basis = mt.zeros((total, n), dtype=x.dtype, device=x.device)
        basis.narrow(0, start, n).fill_diagonal_(1) if n else None
        made.append(wrap(basis.reshape(total, *x.shape), level))
        start += n
    return made


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """Return a function that computes the second derivatives of `func`: `jacfwd` of `jacrev`.

    Parameters
    ----------
    func : callable
        Function that returns tensors in nested containers.
    argnums : int or tuple of int
        The arguments to differentiate with respect to. Default: the first.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.func.hessian(lambda x: (x**3).sum())(mt.tensor([1.0, 2.0], device="cpu"))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)


def linearize(func: Callable[..., Any], *primals: Any) -> Any:
    """Return the value of a function, and a function that computes products of its Jacobian with vectors.

    The function is run once; its Jacobian is then applied without running it again.

    Parameters
    ----------
    func : callable
        Function of `primals` that returns tensors in nested containers.
    *primals : Tensor, or nested containers of Tensors
        The arguments.

    Returns
    -------
    output : Any
        The value.
    jvp_fn : callable
        Takes a tangent for each argument and returns the tangent of the output.

    Examples
    --------
    >>> import metatensor as mt
    >>> y, push = mt.func.linearize(mt.sin, mt.tensor([0.0], device="cpu"))
    >>> push(mt.tensor([2.0], device="cpu"))
    tensor([2.])
    """
    call, output, _ = _recorded_vjp("linearize", func, primals, False)
    levels = call.levels
    # The gradients are linear in those of the outputs, so their own gradients are the tangents.
    weights = [mt.zeros(y.shape, dtype=y.dtype, device=y.device) for y in call.wholes]
    aliases = [duals.fresh(w, False) for w in weights]
    with mt.enable_grad():
        edges = [(k, gradient_edge(y)) for k, y in enumerate(call.wholes) if _innermost(y).requires_grad]
        inputs = [(node, 0) for node in call.nodes]
        found = run_backward([e for _, e in edges], [aliases[k][0] for k, _ in edges], True, True, inputs) if edges else []

    def jvp_fn(*tangents: Any) -> Any:
        if _tree.structure(tangents) != _tree.structure(primals):
            raise RuntimeError(f"linearize: the tangents have the structure {_tree.structure(tangents)}, but the arguments "
                               f"{_tree.structure(primals)}")
        given = _tensors("linearize", tangents, "tangents")
        for x, t in zip(call.leaves, given, strict=True):
            if x.shape != t.shape:
                raise RuntimeError(f"linearize: a tangent has shape {list(t.shape)}, but its tensor has shape {list(x.shape)}")
            if x.dtype is not t.dtype:
                raise RuntimeError(f"linearize: a tangent is {t.dtype}, but its tensor is {x.dtype}")
        pairs = [(g, _whole(t, levels)) for g, t in zip(found, given) if g is not None and g.requires_grad]
        create = mt.is_grad_enabled() and (call.nested or any(_innermost(t).requires_grad for t in given))
        targets = [(node, 0) for _, node in aliases]
        made = (run_backward([gradient_edge(g) for g, _ in pairs], [t for _, t in pairs], True, create, targets) if pairs
                else [None] * len(targets))
        results = [_members(mt.zeros_like(w) if t is None else t, levels) for w, t in zip(weights, made, strict=True)]
        return _tree.unflatten(call.output, results)

    return output, jvp_fn
