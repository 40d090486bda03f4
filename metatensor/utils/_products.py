"""Decomposition of operators into matrix products and convolutions, as on PyTorch's meta device.

A `Product` contains only shapes. Which product a `matmul` becomes depends on the strides of its operands and on
whether they require gradients. A product with a vector may become `mv`, which PyTorch's counter does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any, NamedTuple

from metatensor._core.layout import broadcast_shapes

__all__ = ["PRODUCTS", "Product"]

Shape = tuple[int, ...]


class Product(NamedTuple):
    """A product as an operator of ``torch.ops.aten``: its name, its arguments with shapes in place of tensors, and its
    output shape.
    """

    name: str
    shapes: tuple[Any, ...]
    out: Shape | None = None


class _Operand(NamedTuple):
    """The properties of a tensor that determine how it is multiplied."""

    shape: Shape
    stride: Shape
    requires_grad: bool = False

    @classmethod
    def of(cls, tensor: Any) -> _Operand:
        """Return the operand for a tensor.

        In PyTorch a view that was created without recording gradients requires gradients if its base does.
        """
        base = tensor if tensor._base is None else tensor._base
        return cls(tuple(tensor.shape), tuple(tensor.stride()), tensor.requires_grad or base.requires_grad)

    @classmethod
    def dense(cls, *shape: int) -> _Operand:
        return cls(shape, tuple(prod(shape[at + 1 :]) for at in range(len(shape))))

    @property
    def transposed(self) -> _Operand:
        """The operand with its last two dimensions exchanged."""
        shape, stride = list(self.shape), list(self.stride)
        shape[-2:], stride[-2:] = shape[:-3:-1], stride[:-3:-1]
        return _Operand(tuple(shape), tuple(stride), self.requires_grad)

    def has_rows(self) -> bool:
        """Return whether all dimensions but the last can be flattened into one without a copy."""
        shape, stride = self.shape, self.stride
        return 0 in shape or all(stride[at] == stride[at + 1] * shape[at + 1] for at in range(len(shape) - 2))


def _product(a: _Operand, b: _Operand, out: bool = False) -> Iterator[Product]:
    """Yield the products of a matmul. `out` tells whether it has an out= argument."""
    if len(b.shape) == 1 and len(a.shape) <= 2:
        return
    if len(a.shape) <= 2 and len(b.shape) == 2:
        yield Product("mm", (a.shape if len(a.shape) == 2 else (1, *a.shape), b.shape))
        return
    swapped = len(a.shape) < len(b.shape)
    large, small = (b.transposed, a) if swapped else (a, b)
    if len(small.shape) <= 2 and (small.requires_grad and not out or len(a.shape) != 2 and large.has_rows()):
        if len(small.shape) == 2:
            rows = (prod(large.shape[:-1]), large.shape[-1])
            yield Product("mm", (rows, small.transposed.shape if swapped else small.shape))
        return
    left = a.shape if len(a.shape) > 1 else (1, *a.shape)
    right = b.shape if len(b.shape) > 1 else (*b.shape, 1)
    batch = prod(broadcast_shapes(left[:-2], right[:-2]))
    yield Product("bmm", ((batch, *left[-2:]), (batch, *right[-2:])))


# One function for each operator. It receives the result and the arguments ----------------------------------------------


def matmul(result: Any, input: Any, other: Any, out: Any = None) -> Iterator[Product]:
    """Yield the products of a matmul of operands of any number of dimensions."""
    return _product(_Operand.of(input), _Operand.of(other), out is not None)


def linear(result: Any, input: Any, weight: Any, bias: Any = None) -> Iterator[Product]:
    """Yield the product of a linear layer. It includes the bias if PyTorch fuses product and addition."""
    shape = tuple(input.shape)
    if bias is not None and weight.dim() == 2 and (len(shape) == 2 or input.is_contiguous()):
        yield Product("addmm", (tuple(bias.shape), (prod(shape[:-1]), shape[-1]), tuple(weight.shape)[::-1]))
    else:
        matrix = _Operand.of(weight)
        yield from _product(_Operand.of(input), matrix.transposed if weight.dim() == 2 else matrix)


def attention(
    result: Any,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: Any = None,
    enable_gqa: bool = False,
) -> Iterator[Product]:
    """Yield the products of attention: query with key, then the scores with value."""
    if not (query.numel() and key.numel() and value.numel()):
        return
    keys, values = _Operand.of(key), _Operand.of(value)
    if enable_gqa:
        heads = query.shape[-3]
        keys, values = (_Operand.dense(*x.shape[:-3], heads, *x.shape[-2:]) for x in (keys, values))
    scores = (*broadcast_shapes(query.shape[:-2], keys.shape[:-2]), query.shape[-2], keys.shape[-2])
    yield from _product(_Operand.of(query)._replace(requires_grad=False), keys.transposed)
    yield from _product(_Operand.dense(*scores), values)


def _convolution(result: Any, input: Any, weight: Any, transposed: bool) -> Iterator[Product]:
    """Yield the products of a convolution: one, or three for complex numbers. A missing batch dimension is added.
    """
    shapes = tuple(input.shape), tuple(result.shape)
    if input.dim() < weight.dim():
        shapes = (1, *shapes[0]), (1, *shapes[1])
    product = Product("convolution", (shapes[0], tuple(weight.shape), None, None, None, None, transposed), shapes[1])
    for _ in range(3 if result.is_complex() else 1):
        yield product


def convolution(result: Any, input: Any, weight: Any, *_: Any, **__: Any) -> Iterator[Product]:
    """Yield the products of a convolution."""
    return _convolution(result, input, weight, False)


def transposed_convolution(result: Any, input: Any, weight: Any, *_: Any, **__: Any) -> Iterator[Product]:
    """Yield the products of a transposed convolution."""
    return _convolution(result, input, weight, True)


def convolution_backward(result: Any, grad: Any, input: Any, weight: Any, *rest: Any) -> Iterator[Product]:
    """Yield the products in the gradients of a convolution. In PyTorch's order of arguments, the bias sizes come fourth."""
    shapes = tuple(tuple(t.shape) for t in (grad, input, weight))
    for _ in range(3 if grad.is_complex() else 1):
        yield Product("convolution_backward", (*shapes, None, *rest), None)


def recurrent(result: Any, input: Any, *args: Any) -> Iterator[Product]:
    """Yield the product of each weight with all steps of all sequences.

    Packed sequences have shape (rows, features), and their arguments contain the batch sizes and the state as well.
    """
    packed = isinstance(args[2], (list, tuple))
    params, has_biases, layers, _, _, both = args[2 if packed else 1 :][:6]
    rows = input.shape[0] if packed else input.shape[0] * input.shape[1]
    group = len(params) // (layers * (2 if both else 1))
    for at, weight in enumerate(params):
        if weight.dim() == 2:
            projection = group % 2 == 1 and at % group == group - 1  # the projection of an LSTM has no bias
            yield from _rows(rows, weight, has_biases and not projection)


def recurrent_cell(
    result: Any, input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Iterator[Product]:
    """Yield the products of one step of a recurrent network."""
    for weight, bias in ((w_ih, b_ih), (w_hh, b_hh)):
        yield from _rows(input.shape[0], weight, bias is not None)


def _rows(rows: int, weight: Any, bias: bool) -> Iterator[Product]:
    """Yield the product of `rows` states with a weight."""
    m, k = weight.shape
    yield Product("addmm", ((m,), (rows, k), (k, m))) if bias else Product("mm", ((rows, k), (k, m)))


PRODUCTS: dict[str, Callable[..., Iterator[Product]]] = {
    "matmul": matmul,
    "linalg.matmul": matmul,
    "nn.functional.linear": linear,
    "nn.functional.scaled_dot_product_attention": attention,
    "nn.functional.conv1d": convolution,
    "nn.functional.conv2d": convolution,
    "nn.functional.conv3d": convolution,
    "nn.functional.conv_transpose1d": transposed_convolution,
    "nn.functional.conv_transpose2d": transposed_convolution,
    "nn.functional.conv_transpose3d": transposed_convolution,
    "convolution_backward": convolution_backward,
    "lstm": recurrent,
    "gru": recurrent,
    "rnn_tanh": recurrent,
    "rnn_relu": recurrent,
    "lstm_cell": recurrent_cell,
    "gru_cell": recurrent_cell,
    "rnn_tanh_cell": recurrent_cell,
    "rnn_relu_cell": recurrent_cell,
}
"""Functions for operators that PyTorch decomposes, by name. Other operators are counted by their own formulas."""
