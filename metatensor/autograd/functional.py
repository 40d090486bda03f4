"""Derivatives of functions of one or several tensors.

In all of them, `func` takes one or several tensors and returns one tensor or a tuple of tensors. Several inputs are
given as a tuple, and the derivatives are then a tuple too. If an output does not depend on an input, the derivative is
zero; with ``strict=True``, RuntimeError is raised instead. With ``create_graph=True``, the results can be
differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor._core import duals
from metatensor.autograd.forward_ad import _dual, _unpacked

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _tuple(values: Any, where: str, what: str) -> tuple[bool, tuple]:
    """Return whether `values` is a tuple, and the values as a tuple. Raise TypeError if one is not a tensor."""
    many = isinstance(values, tuple)
    found = values if many else (values,)
    for value in found:
        if not isinstance(value, mt.Tensor):
            raise TypeError(f"{where}: {what} must be a Tensor or a tuple of Tensors, got {type(value).__name__}")
    return many, found


def _form(many: bool, values: Any) -> Any:
    return tuple(values) if many else values[0]


def _arguments(inputs: tuple, create_graph: bool, need_graph: bool = True) -> tuple:
    """Return new tensors to differentiate with respect to. With `create_graph`, they are connected to `inputs`."""
    made = []
    for x in inputs:
        if create_graph and (x.requires_grad or not need_graph):
            made.append(x.view_as(x))
        else:
            made.append(x.detach().requires_grad_(need_graph))
    return tuple(made)


def _result(values: tuple, create_graph: bool) -> tuple:
    return values if create_graph else tuple(t.detach() for t in values)


def _vector(v: Any, like: tuple, where: str, many: bool, what: str) -> tuple:
    """Return `v` as a tuple of tensors with the shapes of `like`. None stands for 1 if `like` is a single number."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"{where}: v may be None only if {what} is a single tensor of one element")
        return (mt.ones_like(like[0]).detach(),)
    _, found = _tuple(v, where, "v")
    if len(found) != len(like):
        raise RuntimeError(f"{where}: v has {len(found)} tensors, but {what} has {len(like)}")
    for i, (a, b) in enumerate(zip(found, like, strict=True)):
        if a.shape != b.shape:
            raise RuntimeError(f"{where}: tensor {i} of v has shape {list(a.shape)}, expected {list(b.shape)}")
    return tuple(a if a.requires_grad else a.detach() for a in found)


def _check_outputs(outputs: tuple, where: str, strict: bool) -> None:
    if strict:
        for i, y in enumerate(outputs):
            if not y.requires_grad:
                raise RuntimeError(f"{where}: output {i} does not require grad, so it does not depend on the inputs; that is an error "
                                   "with strict=True")


def _filled(found: Any, inputs: tuple, where: str, strict: bool, create_graph: bool, what: str) -> tuple:
    """Return the gradients, with zeros in place of None."""
    made = []
    for i, (g, x) in enumerate(zip(found, inputs, strict=True)):
        if g is None and strict:
            raise RuntimeError(f"{where}: {what} does not depend on input {i}; that is an error with strict=True")
        if g is not None and strict and create_graph and not g.requires_grad:
            raise RuntimeError(f"{where}: the derivative of {what} by input {i} does not depend on the inputs; that is an error with "
                               "strict=True")
        made.append(mt.zeros_like(x).detach() if g is None else g)
    return tuple(made)


def _gradients(
    outputs: tuple, inputs: tuple, weights: Any = None, create_graph: bool = False, keep: Any = None, batched: bool = False
) -> tuple:
    """Return the gradients of the outputs that require grad, with None for an input on which none of them depends."""
    given = (None,) * len(outputs) if weights is None else weights
    pairs = [(y, w) for y, w in zip(outputs, given, strict=True) if y.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    return mt.autograd.grad([y for y, _ in pairs], inputs, [w for _, w in pairs], retain_graph=keep, create_graph=create_graph,
                            allow_unused=True, is_grads_batched=batched)  # fmt: skip


def vjp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """Return the value of a function, and the product of a vector with its Jacobian.

    Parameters
    ----------
    func : callable
    inputs : Tensor or tuple of Tensor
    v : Tensor or tuple of Tensor, optional
        A tensor for each output. It is optional if there is a single output of one element.
    create_graph, strict : bool
        See the module's documentation.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.autograd.functional.vjp(lambda x: x * x, mt.tensor([1.0, 2.0], device="cpu"), mt.ones(2, device="cpu"))
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    many, given = _tuple(inputs, "vjp", "inputs")
    with mt.enable_grad():
        arguments = _arguments(given, create_graph)
        returned = func(*arguments)
        many_out, outputs = _tuple(returned, "vjp", "what the function returns")
        _check_outputs(outputs, "vjp", strict)
        weights = _vector(v, outputs, "vjp", many_out, "the output")
    with mt.set_grad_enabled(create_graph or mt.is_grad_enabled()):
        found = _filled(_gradients(outputs, arguments, weights, create_graph), arguments, "vjp", strict, create_graph, "the output")
    return _form(many_out, _result(outputs, create_graph)), _form(many, _result(found, create_graph))


def _pushed(where: str, func: Any, arguments: tuple, vectors: tuple) -> tuple[bool, tuple, tuple]:
    """Return whether `func` returned a tuple, its outputs, and their tangents, with None for an absent tangent."""
    number = duals.enter_level()
    try:
        given = [_dual(x, t, number) for x, t in zip(arguments, vectors, strict=True)]
        many, outputs = _tuple(func(*given), where, "what the function returns")
        pairs = [_unpacked(y, number) for y in outputs]
        return many, tuple(y for y, _ in pairs), tuple(t for _, t in pairs)
    finally:
        duals.leave_level(number)


def jvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """Return the value of a function, and the product of its Jacobian with a vector.

    Parameters
    ----------
    func : callable
    inputs : Tensor or tuple of Tensor
    v : Tensor or tuple of Tensor, optional
        A tensor for each input. May be left out for a single input of one element.
    create_graph, strict : bool
        See the module's documentation.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.autograd.functional.jvp(lambda x: x * x, mt.tensor([1.0, 2.0], device="cpu"), mt.ones(2, device="cpu"))
    (tensor([1., 4.]), tensor([2., 4.]))
    """
    _, given = _tuple(inputs, "jvp", "inputs")
    with mt.set_grad_enabled(create_graph or strict):
        vectors = _vector(v, given, "jvp", True, "the input")
        arguments = _arguments(given, create_graph, create_graph or strict)
        many, outputs, tangents = _pushed("jvp", func, arguments, vectors)
        if strict:
            _check_outputs(outputs, "jvp", True)
            weights = tuple(mt.zeros_like(y).detach() for y in outputs)
            _filled(_gradients(outputs, arguments, weights, keep=True), arguments, "jvp", True, False, "the output")
        found = tuple(mt.zeros_like(y).detach() if t is None else t for y, t in zip(outputs, tangents, strict=True))
    return _form(many, _result(outputs, create_graph)), _form(many, _result(found, create_graph))


def _rows(outputs: tuple, arguments: tuple, create_graph: bool, strict: bool) -> list:
    """Return the Jacobian for each output and input. This runs one backward pass for each element of the outputs."""
    made = []
    for i, y in enumerate(outputs):
        rows: list[list] = [[] for _ in arguments]
        for j in range(y.numel()):
            weight = mt.zeros_like(y, memory_format=mt.contiguous_format).detach()
            weight.view(-1)[j] = 1
            found = _gradients((y,), arguments, (weight,), create_graph, keep=True)
            for k, (row, g, x) in enumerate(zip(rows, found, arguments, strict=True)):
                if g is None and strict:
                    raise RuntimeError(f"jacobian: output {i} does not depend on input {k}; that is an error with strict=True")
                if g is not None and strict and create_graph and not g.requires_grad:
                    raise RuntimeError(f"jacobian: the derivative of output {i} by input {k} does not depend on the inputs; that is an "
                                       "error with strict=True")
                row.append(mt.zeros_like(x).detach() if g is None else g)
        made.append([mt.stack(row).view(*y.shape, *x.shape) if row else x.new_zeros((*y.shape, *x.shape))
                     for row, x in zip(rows, arguments, strict=True)])
    return made


def _rows_at_once(outputs: tuple, arguments: tuple, create_graph: bool) -> list:
    made = []
    for y in outputs:
        n = y.numel()
        found: Any = (None,) * len(arguments)
        if n:
            basis = mt.zeros((n, n), dtype=y.dtype, device=y.device)
            basis.fill_diagonal_(1)
            found = _gradients((y,), arguments, (basis.view(n, *y.shape),), create_graph, keep=True, batched=True)
        made.append([x.new_zeros((*y.shape, *x.shape)) if g is None else g.reshape(*y.shape, *x.shape)
                     for g, x in zip(found, arguments, strict=True)])
    return made


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Return the Jacobian of a function.

    Parameters
    ----------
    func : callable
    inputs : Tensor or tuple of Tensor
    create_graph, strict : bool
        See the module's documentation.
    vectorize : bool
        Compute all rows or columns as one batch. Default False.
    strategy : {"reverse-mode", "forward-mode"}
        Reverse mode computes rows, forward mode computes columns. Forward mode needs ``vectorize=True``.

    Returns
    -------
    Tensor or nested tuple of Tensor
        For each output and each input, a tensor of shape ``(*output.shape, *input.shape)``. Outputs form the outer
        tuple and inputs the inner one, if they were tuples.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.autograd.functional.jacobian(lambda x: x * x, mt.tensor([1.0, 2.0], device="cpu"))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(f"jacobian: strategy must be 'forward-mode' or 'reverse-mode', got {strategy!r}")
    many, given = _tuple(inputs, "jacobian", "inputs")
    if strict and vectorize:
        raise RuntimeError("jacobian: strict=True needs vectorize=False")
    if strategy == "forward-mode":
        return _forward_jacobian(func, many, given, create_graph, strict, vectorize)
    with mt.enable_grad():
        arguments = _arguments(given, create_graph)
        many_out, outputs = _tuple(func(*arguments), "jacobian", "what the function returns")
        _check_outputs(outputs, "jacobian", strict)
        made = _rows_at_once(outputs, arguments, create_graph) if vectorize else _rows(outputs, arguments, create_graph, strict)
    return _form(many_out, [_form(many, _result(tuple(row), create_graph)) for row in made])


def _forward_jacobian(func: Any, many: bool, given: tuple, create_graph: bool, strict: bool, vectorize: bool) -> Any:
    if not vectorize:
        raise NotImplementedError("jacobian: the strategy 'forward-mode' needs vectorize=True")
    form = []

    def checked(*arguments: Any) -> Any:
        many_out, outputs = _tuple(func(*arguments), "jacobian", "what the function returns")
        form.append(many_out)
        return outputs

    with mt.set_grad_enabled(create_graph or mt.is_grad_enabled()):
        arguments = _arguments(given, create_graph, create_graph)
        made = mt.func.jacfwd(checked, tuple(range(len(given))))(*arguments)
    return _form(form[0], [_form(many, _result(tuple(row), create_graph)) for row in made])


def _scalar(func: Any, where: str) -> Any:
    """Return a function that calls `func` and checks that it returns a tensor of one element."""

    def checked(*arguments: Any) -> Any:
        many, outputs = _tuple(func(*arguments), where, "what the function returns")
        if many or outputs[0].numel() != 1:
            got = f"{len(outputs)} tensors" if many else f"shape {list(outputs[0].shape)}"
            raise RuntimeError(f"{where}: the function must return a tensor of one element, got {got}")
        return outputs[0].squeeze()

    return checked


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Return the Hessian of a function that returns a tensor of one element.

    Parameters
    ----------
    func : callable
    inputs : Tensor or tuple of Tensor
    create_graph, strict : bool
        See the module's documentation.
    vectorize : bool
        Compute all rows as one batch. Default False.
    outer_jacobian_strategy : {"reverse-mode", "forward-mode"}
        The mode in which the gradients are differentiated. Forward mode needs ``vectorize=True``.

    Returns
    -------
    Tensor or tuple of tuple of Tensor
        For each pair of inputs, a tensor of shape ``(*first.shape, *second.shape)``.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.autograd.functional.hessian(lambda x: (x**3).sum(), mt.tensor([1.0, 2.0], device="cpu"))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    many, given = _tuple(inputs, "hessian", "inputs")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError("hessian: outer_jacobian_strategy must be 'forward-mode' or 'reverse-mode', "
                             f"got {outer_jacobian_strategy!r}")  # fmt: skip
    checked = _scalar(func, "hessian")

    def gradient(*arguments: Any) -> Any:
        if outer_jacobian_strategy == "forward-mode":
            # The arguments carry tangents, so they must not be detached.
            arguments = tuple(duals.fresh(x, True)[0] if not x.requires_grad else x for x in arguments)
        found = jacobian(checked, arguments, create_graph=True)
        if strict and any(not g.requires_grad for g in found):
            raise RuntimeError("hessian: the gradient does not depend on an input; that is an error with strict=True")
        return found

    made = jacobian(gradient, given, create_graph, strict, vectorize, outer_jacobian_strategy)
    return made if many else made[0][0]


def vhp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """Return the value of a function that returns a tensor of one element, and the product of a vector with its Hessian.

    Parameters
    ----------
    func : callable
    inputs : Tensor or tuple of Tensor
    v : Tensor or tuple of Tensor, optional
        A tensor for each input. May be left out for a single input of one element.
    create_graph, strict : bool
        See the module's documentation.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.autograd.functional.vhp(lambda x: (x**3).sum(), mt.tensor([1.0, 2.0], device="cpu"), mt.ones(2, device="cpu"))
    (tensor(9.), tensor([ 6., 12.]))
    """
    return _second("vhp", func, inputs, v, create_graph, strict)


def hvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> tuple[Any, Any]:
    """Return the value of a function that returns a tensor of one element, and the product of its Hessian with a vector.

    Because the Hessian is symmetric, this is the same product that `vhp` computes.

    Parameters
    ----------
    func : callable
    inputs : Tensor or tuple of Tensor
    v : Tensor or tuple of Tensor, optional
        A tensor for each input. May be left out for a single input of one element.
    create_graph, strict : bool
        See the module's documentation.

    Examples
    --------
    >>> import metatensor as mt
    >>> mt.autograd.functional.hvp(lambda x: (x**3).sum(), mt.tensor([1.0, 2.0], device="cpu"), mt.ones(2, device="cpu"))
    (tensor(9.), tensor([ 6., 12.]))
    """
    return _second("hvp", func, inputs, v, create_graph, strict)


def _second(where: str, func: Any, inputs: Any, v: Any, create_graph: bool, strict: bool) -> tuple[Any, Any]:
    many, given = _tuple(inputs, where, "inputs")
    with mt.enable_grad():
        arguments = _arguments(given, create_graph)
        vectors = _vector(v, given, where, many, "the input")
        output = _scalar(func, where)(*arguments)
        _check_outputs((output,), where, strict)
        first = _filled(_gradients((output,), arguments, None, True), arguments, where, strict, True, "the output")
    with mt.set_grad_enabled(create_graph or mt.is_grad_enabled()):
        found = _gradients(first, arguments, vectors, create_graph)
        products = _filled(found, arguments, where, strict, create_graph, "the gradient")
    return _result((output,), create_graph)[0], _form(many, _result(products, create_graph))
