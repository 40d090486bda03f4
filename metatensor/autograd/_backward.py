"""`backward` and `grad`, the functions that start a backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import metatensor as mt
from metatensor._core.engine import gradient_edge, run_backward
from metatensor._core.history import accumulate
from metatensor.autograd.graph import GradientEdge

__all__ = ["backward", "grad"]


def _sequence(values: Any) -> tuple:
    return (values,) if isinstance(values, (mt.Tensor, GradientEdge)) else tuple(values)


def _target(where: str, i: int, into: Any) -> tuple[Any, int]:
    """Return the edge of an input whose gradient is requested."""
    if not isinstance(into, (mt.Tensor, GradientEdge)):
        raise RuntimeError(f"{where}: input {i} is {type(into).__name__}, not a Tensor or GradientEdge")
    if isinstance(into, mt.Tensor) and not into.requires_grad:
        raise RuntimeError(f"{where}: input {i}, of shape {list(into.shape)}, does not require grad; call requires_grad_() "
                           "before it is used")  # fmt: skip
    return _edge(where, into)


def _edge(where: str, root: Any) -> tuple[Any, int]:
    if isinstance(root, GradientEdge):
        return root.node, root.output_nr
    if not isinstance(root, mt.Tensor):
        raise TypeError(f"{where}: expected Tensors, got {type(root).__name__}")
    if not root.requires_grad:
        raise RuntimeError(f"{where}: the tensor of shape {list(root.shape)} does not require grad and has no grad_fn; it does not depend "
                           "on a tensor that requires grad, or was computed under no_grad() or detached")  # fmt: skip
    return gradient_edge(root)


def _first_gradient(where: str, root: Any, given: Any) -> Any:
    """Return the initial gradient of `root`: `given`, or 1 if that is None and `root` is a scalar."""
    if given is None:
        if not isinstance(root, mt.Tensor):
            raise RuntimeError(f"{where}: a GradientEdge needs an explicit gradient; it defaults to 1 only for a scalar tensor")
        if root.numel() != 1:
            raise RuntimeError(f"{where}: the tensor has shape {list(root.shape)}; without a gradient it must have one element. "
                               "Sum it, or pass a gradient of its shape")  # fmt: skip
        if not root.is_floating_point():
            raise RuntimeError(f"{where}: pass a gradient: it defaults to 1 only for a real scalar, and the tensor is "
                               f"{root.dtype}")  # fmt: skip
        return mt.ones_like(root, memory_format=mt.preserve_format)
    if isinstance(root, mt.Tensor):
        if given.device != root.device:
            raise RuntimeError(f"{where}: the gradient is on {given.device}, but the tensor is on {root.device}; move it with to()")
        if given.shape != root.shape:
            raise RuntimeError(f"{where}: the gradient has shape {list(given.shape)}, but the tensor has shape {list(root.shape)}")
        if given.dtype.is_complex != root.dtype.is_complex:
            raise RuntimeError(f"{where}: the gradient is {given.dtype}, but the tensor is {root.dtype}: both must be complex, or none")
    return given


def _check_batched(grads: list, roots: tuple, where: str) -> None:
    sizes = {g.shape[0] for g in grads if g is not None and g.dim()}
    if len(sizes) != 1 or any(g is None or g.dim() == 0 for g in grads):
        raise RuntimeError(f"{where}: with is_grads_batched all gradients need a leading batch dimension of the same size")
    for g, root in zip(grads, roots, strict=True):
        if isinstance(root, mt.Tensor) and g.shape[1:] != root.shape:
            raise RuntimeError(f"{where}: a batch of gradients has shape {list(g.shape)}, but the tensor has shape {list(root.shape)}")


def _pairs(where: str, tensors: Any, gradients: Any) -> tuple[tuple, tuple]:
    roots = _sequence(tensors)
    if not isinstance(gradients, (mt.Tensor, Sequence)) and gradients is not None:
        raise TypeError(f"{where}: expected a Tensor, a sequence or None as gradients, got {type(gradients).__name__}")
    given = (None,) * len(roots) if gradients is None else (gradients,) if isinstance(gradients, mt.Tensor) else tuple(gradients)
    for g in given:
        if g is not None and not isinstance(g, mt.Tensor):
            raise TypeError(f"{where}: expected Tensors or None as gradients, got {type(g).__name__}")
    if len(given) != len(roots):
        raise RuntimeError(f"{where}: got {len(given)} gradients for {len(roots)} tensors")
    return roots, given


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Compute the gradients of `tensors` with respect to the leaves and add them to the leaves' ``grad``.

    Parameters
    ----------
    tensors : Tensor, GradientEdge or sequence
        The tensors to differentiate. They require grad.
    grad_tensors : Tensor, None or sequence, optional
        The gradient of each tensor, of the same shape. The results are vector-Jacobian products with these gradients.
        None stands for 1 and requires a tensor of one element.
    retain_graph : bool, optional
        Keep the saved values, so that backward can run through the graph again. Default: `create_graph`.
    create_graph : bool
        Record the computation of the gradients, so that they can be differentiated. Default False.
    grad_variables : optional
        An old name of `grad_tensors`.
    inputs : Tensor, GradientEdge or sequence, optional
        Accumulate the gradients of these tensors only.

    Raises
    ------
    RuntimeError
        If a tensor does not require grad, a gradient is missing or does not fit, or saved values were freed or changed.

    Examples
    --------
    >>> import metatensor as mt
    >>> x = mt.tensor([1.0, 2.0], device="cpu", requires_grad=True)
    >>> mt.autograd.backward((x * x).sum())
    >>> x.grad
    tensor([2., 4.])
    """
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError("backward: grad_variables is a former name of grad_tensors; pass one of them")
        grad_tensors = grad_variables
    roots, given = _pairs("backward", tensors, grad_tensors)
    edges = [_edge("backward", root) for root in roots]
    gradients = [_first_gradient("backward", root, g) for root, g in zip(roots, given, strict=True)]
    keep = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        run_backward(edges, gradients, keep, create_graph)
        return
    into = _sequence(inputs)
    if not into:
        raise RuntimeError("backward: inputs is empty; leave it out to compute the gradients of all leaves")
    targets = [_target("backward", i, t) for i, t in enumerate(into)]
    found = run_backward(edges, gradients, keep, create_graph, targets, accumulate=True)
    for target, value in zip(into, found, strict=True):
        if value is not None and isinstance(target, mt.Tensor):
            with mt.set_grad_enabled(create_graph):
                accumulate(target, value)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple:
    """Return the gradients of `outputs` with respect to `inputs`, without changing any ``grad``.

    Parameters
    ----------
    outputs : Tensor, GradientEdge or sequence
        The tensors to differentiate.
    inputs : Tensor, GradientEdge or sequence
        The tensors, leaves or not, whose gradients are returned.
    grad_outputs : Tensor, None or sequence, optional
        The gradient of each output. None stands for 1 and requires an output of one element.
    retain_graph, create_graph : bool
        As for `backward`.
    only_inputs : bool
        Must be True.
    allow_unused : bool, optional
        Return None for an input that the outputs do not depend on, instead of raising. Default: `materialize_grads`.
    is_grads_batched : bool
        Whether the gradients in `grad_outputs` have an additional first dimension, the batch. The results then have it
        too. Default False.
    materialize_grads : bool
        Return zeros instead of None. Default False.

    Returns
    -------
    tuple of Tensor or None
        The gradient of each input.

    Raises
    ------
    RuntimeError
        If an input does not require grad, or no output depends on it and `allow_unused` is not True.

    Examples
    --------
    >>> import metatensor as mt
    >>> x = mt.tensor(3.0, device="cpu", requires_grad=True)
    >>> mt.autograd.grad(x * x, x)
    (tensor(6.),)
    """
    if not only_inputs:
        raise ValueError("grad: only_inputs must be True; call backward to accumulate into the leaves")
    if materialize_grads and allow_unused is False:
        raise ValueError("grad: materialize_grads needs allow_unused; pass True or leave it out")
    roots, given = _pairs("grad", outputs, grad_outputs)
    into = _sequence(inputs)
    if not into:
        raise RuntimeError("grad: inputs is empty; name the tensors whose gradients are wanted")
    edges = [_edge("grad", root) for root in roots]
    targets = [_target("grad", i, t) for i, t in enumerate(into)]
    keep = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        _check_batched(list(given), roots, "grad")

        present: list = []

        def one(*gradients: Any) -> tuple:
            made = run_backward(edges, list(gradients), True, create_graph, targets)
            present[:] = [g is not None for g in made]
            return tuple(g for g in made if g is not None)

        rows = iter(mt.func.vmap(one)(*given))
        found = [next(rows) if there else None for there in present]
    else:
        gradients = [_first_gradient("grad", root, g) for root, g in zip(roots, given, strict=True)]
        found = run_backward(edges, gradients, keep, create_graph, targets)
    for i, value in enumerate(found):
        if value is not None:
            continue
        if materialize_grads and isinstance(into[i], mt.Tensor):
            found[i] = mt.zeros_like(into[i])
        elif not (allow_unused or materialize_grads):
            raise RuntimeError(f"grad: the outputs do not depend on input {i}; pass allow_unused=True to get None for it")
    return tuple(found)
