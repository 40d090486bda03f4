"""Operators of PyTorch's dispatcher that metatensor has under another name or with other arguments.

Their arguments are those of the dispatcher, so booleans for flags are passed by position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import metatensor as mt
from metatensor import amp
from metatensor._core.op import registry
from metatensor.nn import functional as F
from metatensor.overloads.calls import fractional_max_pool, max_unpool
from metatensor.program.aten.codes import dtype_of, layout_of, memory_format_of

__all__ = ["COMPOSITES"]

COMPOSITES: dict[str, Callable[..., Any]] = {}
"""Functions by operator name, without ``aten::``. They take the arguments of all its overloads."""


def _add(function: Callable[..., Any], *names: str) -> None:
    for name in names:
        COMPOSITES[name] = function


def _named(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        _add(function, *names)
        return function

    return decorate


# Properties of tensors ----------------------------------------------------------------------------------


@_named("size", "sym_size")
def _size(self: Any, dim: int | None = None) -> Any:
    return list(self.shape) if dim is None else self.shape[_dim(self, dim)]


@_named("stride", "sym_stride")
def _stride(self: Any, dim: int | None = None) -> Any:
    return list(self.stride()) if dim is None else self.stride()[_dim(self, dim)]


def _dim(tensor: Any, dim: int) -> int:
    if not -tensor.dim() <= dim < tensor.dim():
        raise IndexError(f"dimension {dim} is out of range for a tensor with {tensor.dim()} dimensions")
    return dim


def _len(self: Any) -> int:
    if self.dim() == 0:
        raise TypeError("len() of a tensor without dimensions")
    return int(self.shape[0])


_add(lambda self: self.dim(), "dim")
_add(_len, "len")
_add(lambda self: self.numel(), "numel", "sym_numel")
_add(lambda self: self.storage_offset(), "storage_offset", "sym_storage_offset")
_add(lambda self: self.element_size(), "element_size")
_add(lambda self: self.is_leaf, "is_leaf")
_add(lambda self: self.detach(), "data")
_add(lambda self, requires_grad=True: self.requires_grad_(requires_grad), "requires_grad_")
_add(lambda: mt.is_grad_enabled(), "is_grad_enabled")
_add(lambda enabled: mt.set_grad_enabled(enabled) and None, "set_grad_enabled")
_add(lambda device="cuda": amp.is_autocast_enabled(device), "is_autocast_enabled")
_add(lambda: amp.is_autocast_enabled("cpu"), "is_autocast_cpu_enabled")
_add(lambda device: amp.get_autocast_dtype(device), "get_autocast_dtype")
_add(lambda *shapes: list(mt.broadcast_shapes(*shapes)), "broadcast_shapes")
_add(lambda a, b: mt.promote_types(_dtype(a), _dtype(b)), "promote_types")
_add(lambda a, b: mt.can_cast(_dtype(a), _dtype(b)), "can_cast")
_add(lambda self: mt.tensor(list(self.shape), dtype=mt.int64), "_shape_as_tensor")
_add(lambda self, shape: self.reshape(shape.tolist()), "_reshape_from_tensor")
_add(lambda self: self.T, "numpy_T")
_add(lambda self: self.mH, "matrix_H")
_add(lambda self: self.clone(), "lift_fresh_copy", "_lazy_clone")
_add(lambda self: self, "lift_fresh", "lift", "to_dense")
_add(lambda self, implicit=False: bool(self.item()), "Bool")
_add(lambda self: int(self.item()), "Int", "IntImplicit")
_add(lambda self: float(self.item()), "Float", "FloatImplicit")
_add(lambda self: self.item(), "ScalarImplicit", "item", "_local_scalar_dense")


def _dtype(value: Any) -> Any:
    return dtype_of(value) if type(value) is int else value


# Checks of exported programs ----------------------------------------------------------------------------


@_named("_assert_scalar", "_functional_assert_scalar")
def _assert_scalar(self: Any, assert_msg: str = "", dep_token: Any = None) -> Any:
    if isinstance(self, mt.Tensor):
        return _assert_async(self, assert_msg, dep_token)
    if not self:
        raise RuntimeError(assert_msg or "an assertion of the program failed")
    return dep_token


@_named("_assert_async", "_functional_assert_async")
def _assert_async(self: Any, assert_msg: str = "", dep_token: Any = None) -> Any:
    if not self.is_meta and not self.item():
        raise RuntimeError(assert_msg or "an assertion of the program failed")
    return dep_token


@_named("_assert_tensor_metadata")
def _assert_metadata(a: Any, size: Any = None, stride: Any = None, dtype: Any = None, *, device: Any = None, layout: Any = None) -> None:
    for name, wanted, found in (("size", size, list(a.shape)), ("stride", stride, list(a.stride()))):
        if wanted is not None and list(wanted) != found:
            raise RuntimeError(f"the program needs a tensor of {name} {list(wanted)}, got {found}")
    if dtype is not None and _dtype(dtype) is not a.dtype:
        raise RuntimeError(f"the program needs a tensor of dtype {_dtype(dtype)}, got {a.dtype}")


@_named("sym_constrain_range", "sym_constrain_range_for_size")
def _constrain(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    if min is not None and size < min or max is not None and size > max:
        raise RuntimeError(f"the program needs a number between {min} and {max}, got {size}")


@_named("_linalg_check_errors")
def _check_errors(info: Any, api_name: str, *, is_matrix: bool) -> None:
    if not info.is_meta and bool((info != 0).any()):
        raise mt.linalg.LinAlgError(f"{api_name}: the computation failed; is a matrix singular?")


# Copies and conversions ----------------------------------------------------------------------------------


@_named("to")
def _to(self: Any, *args: Any, **kwargs: Any) -> Any:
    given: dict[str, Any] = {}
    flags: list[Any] = []
    rest = list(args)
    if rest and isinstance(rest[0], mt.Tensor):
        other = rest.pop(0)
        given.update(dtype=other.dtype, device=other.device)
    elif rest and isinstance(rest[0], (mt.device, str)):
        given["device"] = rest.pop(0)
    for value in rest:
        if isinstance(value, bool):
            flags.append(value)
        elif value is not None and "dtype" not in given and not flags:
            given["dtype"] = _dtype(value)
        elif value is not None:
            given["memory_format"] = _format(value)
    given.update(zip(("non_blocking", "copy"), flags))
    for key, value in kwargs.items():
        if value is None or key in ("pin_memory", "non_blocking"):
            continue
        if key == "layout":
            _strided(value)
        else:
            given[key] = _dtype(value) if key == "dtype" else _format(value) if key == "memory_format" else value
    given.pop("non_blocking", None)
    return self.to(**given)


def _format(value: Any) -> Any:
    return memory_format_of(value) if type(value) is int else value


def _strided(layout: Any) -> None:
    if type(layout) is int:
        layout_of(layout)


@_named("_to_copy")
def _to_copy(self: Any, **kwargs: Any) -> Any:
    return _to(self, **kwargs, copy=True)


@_named("copy_")
def _copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    return self.copy_(src) if isinstance(src, mt.Tensor) else self.fill_(src)


_add(lambda self, src, non_blocking=False: mt.empty_like(self).copy_(src), "copy")
for _name, _kind in (("Float", "float32"), ("Double", "float64"), ("Half", "float16"), ("Long", "int64"), ("Int", "int32"),
                     ("Short", "int16"), ("Char", "int8"), ("Byte", "uint8")):  # fmt: skip
    _add(lambda self, non_blocking=False, kind=_kind: self.to(getattr(mt, kind)), f"_cast_{_name}")


@_named("where")
def _where(condition: Any, self: Any = None, other: Any = None) -> Any:
    return list(mt.where(condition)) if self is None else mt.where(condition, self, other)


@_named("set_data")
def _set_data(self: Any, new_data: Any) -> None:
    self.data = new_data


_add(lambda tensors, dim=0: mt.stack(list(tensors), dim), "_stack")
_add(lambda self, other: mt.bitwise_and(self, other), "__and__")
_add(lambda self, other: mt.bitwise_or(self, other), "__or__")
_add(lambda self, other: mt.bitwise_xor(self, other), "__xor__")
_add(lambda self, other: mt.bitwise_left_shift(self, other), "__lshift__")
_add(lambda self, other: mt.bitwise_right_shift(self, other), "__rshift__")
_add(lambda self, other: self.bitwise_and_(other), "__iand__")
_add(lambda self, other: self.bitwise_or_(other), "__ior__")
_add(lambda self, other: self.bitwise_xor_(other), "__ixor__")


# Indexing ------------------------------------------------------------------------------------------------


def _places(indices: Any) -> tuple[list[Any], list[int]]:
    return [one for one in indices if one is not None], [dim for dim, one in enumerate(indices) if one is not None]


@_named("index", "_unsafe_index")
def _index(self: Any, indices: Any) -> Any:
    return self[tuple(slice(None) if one is None else one for one in indices)]


@_named("index_put_", "_index_put_impl_")
def _index_put_(self: Any, indices: Any, values: Any, accumulate: bool = False, unsafe: bool = False) -> Any:
    if not accumulate:
        self[tuple(slice(None) if one is None else one for one in indices)] = values
        return self
    if all(one is not None for one in indices):
        return self.index_put_(tuple(indices), values, True)
    tensors, dims = _places(indices)
    if any(one.dtype in (mt.bool, mt.uint8) for one in tensors):
        raise NotImplementedError("index_put with accumulate: masks beside dimensions that are left out")
    registry["_index_put_accumulate_"](self, tensors, dims, values)
    return self


@_named("index_put", "_unsafe_index_put", "_index_put_impl")
def _index_put(self: Any, indices: Any, values: Any, accumulate: bool = False, unsafe: bool = False) -> Any:
    return _index_put_(self.clone(), indices, values, accumulate)


@_named("_unique2")
def _unique2(self: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False) -> Any:
    values, inverse, counts = mt.unique(self, sorted=sorted, return_inverse=True, return_counts=True)
    return values, inverse, counts


@_named("unique_dim")
def _unique_dim(self: Any, dim: int, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False) -> Any:
    return mt.unique(self, sorted=sorted, return_inverse=True, return_counts=True, dim=dim)


@_named("unique_consecutive")
def _unique_consecutive(self: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None) -> Any:
    return mt.unique_consecutive(self, return_inverse=True, return_counts=True, dim=dim)


@_named("tensordot")
def _tensordot(self: Any, other: Any, dims_self: Any, dims_other: Any) -> Any:
    return mt.tensordot(self, other, (list(dims_self), list(dims_other)))


_add(lambda equation, tensors, *, path=None: mt.einsum(equation, *tensors), "einsum")
_add(lambda n, self: mt.polygamma(n, self), "polygamma")
_add(lambda self, dim, keepdim=False: mt.linalg.vector_norm(self, 2, list(dim) or None, keepdim), "frobenius_norm")


# Networks ------------------------------------------------------------------------------------------------


@_named("_convolution")
def _convolution(
    input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, output_padding: Any, groups: int,
    *flags: Any, **ignored: Any,
) -> Any:  # fmt: skip
    lists = list(stride), list(padding), list(dilation)
    return registry["convolution"](input, weight, bias, *lists, transposed, list(output_padding), groups)


@_named("_convolution_mode")
def _convolution_mode(input: Any, weight: Any, bias: Any, stride: Any, padding: str, dilation: Any, groups: int) -> Any:
    conv = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[weight.dim()]
    return conv(input, weight, bias, tuple(stride), padding, tuple(dilation), groups)


@_named("_native_batch_norm_legit_no_training")
def _norm_no_training(input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, momentum: float, eps: float) -> Any:
    return registry["_native_batch_norm_legit"](input, weight, bias, running_mean, running_var, False, momentum, eps)


@_named("_native_batch_norm_legit_functional")
def _norm_functional(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float
) -> Any:
    mean, var = running_mean.clone(), running_var.clone()
    return (*registry["_native_batch_norm_legit"](input, weight, bias, mean, var, training, momentum, eps), mean, var)


def _reduction(value: Any) -> str:
    return ("none", "mean", "sum")[value] if type(value) is int and 0 <= value < 3 else value


@_named("cross_entropy_loss")
def _cross_entropy(
    self: Any, target: Any, weight: Any = None, reduction: Any = 1, ignore_index: int = -100, label_smoothing: float = 0.0
) -> Any:
    options: dict[str, Any] = {"ignore_index": ignore_index, "reduction": _reduction(reduction), "label_smoothing": label_smoothing}
    return F.cross_entropy(self, target, weight, **options)


@_named("nll_loss", "nll_loss_nd", "nll_loss2d")
def _nll_loss(self: Any, target: Any, weight: Any = None, reduction: Any = 1, ignore_index: int = -100) -> Any:
    return F.nll_loss(self, target, weight, ignore_index=ignore_index, reduction=_reduction(reduction))


def _resized(mode: str, antialias: bool = False, corners: bool = False) -> Callable[..., Any]:
    def upsample(self: Any, output_size: Any, *more: Any, **named: Any) -> Any:
        rest = [*more, *named.values()]
        align = (bool(rest.pop(0)) if rest else False) if corners else None
        scales = [s for part in rest for s in (part if isinstance(part, (list, tuple)) else [part])]
        factors = [s for s in scales if s is not None]
        # `output_size` determines the shape. A scale factor given with it only determines where the input is sampled,
        # which makes a difference only if it is not the ratio of the sizes.
        if len(factors) == self.dim() - 2:
            made = F.interpolate(self, scale_factor=factors, mode=mode, align_corners=align, antialias=antialias)
            if output_size is not None and list(made.shape[2:]) != list(output_size):
                raise NotImplementedError(f"upsample: the sizes {list(output_size)} are not those of the factors {factors}")
            return made
        if factors or output_size is None:
            raise NotImplementedError("upsample: factors for some dimensions only")
        return F.interpolate(self, size=list(output_size), mode=mode, align_corners=align, antialias=antialias)

    return upsample


for _n, _linear in ((1, "linear"), (2, "bilinear"), (3, "trilinear")):
    _add(_resized("nearest"), f"upsample_nearest{_n}d")
    _add(_resized("nearest-exact"), f"_upsample_nearest_exact{_n}d")
    _add(_resized(_linear, corners=True), f"upsample_{_linear}{_n}d")
    _add(lambda self, padding: F.pad(self, list(padding), "reflect"), f"reflection_pad{_n}d")
    _add(lambda self, padding: F.pad(self, list(padding), "replicate"), f"replication_pad{_n}d")
_add(_resized("bicubic", corners=True), "upsample_bicubic2d")
_add(_resized("bilinear", True, True), "_upsample_bilinear2d_aa")
_add(_resized("bicubic", True, True), "_upsample_bicubic2d_aa")
_add(lambda self, pad: F.pad(self, list(pad), "circular"), "_pad_circular")


@_named("im2col")
def _im2col(self: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    return F.unfold(self, tuple(kernel_size), tuple(dilation), tuple(padding), tuple(stride))


@_named("col2im")
def _col2im(self: Any, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    return F.fold(self, tuple(output_size), tuple(kernel_size), tuple(dilation), tuple(padding), tuple(stride))


@_named("_weight_norm")
def _weight_norm(v: Any, g: Any, dim: int = 0) -> Any:
    return v * (g / mt.norm_except_dim(v, 2, dim))


@_named("elu")
def _elu(self: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Any:
    if scale == 1 and input_scale == 1:
        return F.elu(self, float(alpha))
    return scale * mt.where(self > 0, self, alpha * mt.expm1(self * input_scale))


def _inplace(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *args: self.copy_(function(self, *args))


for _name in ("silu", "mish", "hardswish", "hardsigmoid", "relu6", "gelu"):
    _add(_inplace(getattr(F, _name)), f"{_name}_")
_add(_inplace(_elu), "elu_")
_add(lambda self, approximate="none": F.gelu(self, approximate=approximate), "gelu")
_add(lambda self, weight: F.prelu(self, weight), "_prelu_kernel")
_add(lambda self, output_size: F.adaptive_avg_pool2d(self, tuple(output_size)), "_adaptive_avg_pool2d")
_add(lambda self, output_size: F.adaptive_avg_pool3d(self, tuple(output_size)), "_adaptive_avg_pool3d")


def _pool(name: str) -> Callable[..., Any]:
    def pool(self: Any, kernel_size: Any, stride: Any = (), *rest: Any, **named: Any) -> Any:
        rest = tuple([tuple(one) if isinstance(one, list) else one for one in rest])
        named = {key: tuple(one) if isinstance(one, list) else one for key, one in named.items()}
        return getattr(F, name)(self, tuple(kernel_size), tuple(stride) or None, *rest, **named)

    return pool


for _n in (1, 2, 3):
    for _name in (f"max_pool{_n}d", f"max_pool{_n}d_with_indices", f"avg_pool{_n}d"):
        _add(_pool(_name), _name)


for _n in (2, 3):
    _add(max_unpool, f"max_unpool{_n}d")
    _add(fractional_max_pool, f"fractional_max_pool{_n}d")


@_named("embedding_bag", "_embedding_bag", "_embedding_bag_forward_only")
def _embedding_bag(
    weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool = False, mode: Any = 0, sparse: bool = False,
    per_sample_weights: Any = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> Any:  # fmt: skip
    padding = None if padding_idx == -1 else padding_idx
    return registry["_embedding_bag"](weight, indices, offsets, scale_grad_by_freq, ("sum", "mean", "max")[mode], sparse,
                                      per_sample_weights, include_last_offset, padding)  # fmt: skip


@_named("_pack_padded_sequence")
def _pack_padded(input: Any, lengths: Any, batch_first: bool) -> Any:
    from metatensor.nn.utils.rnn import pack_padded_sequence

    packed = pack_padded_sequence(input, lengths, batch_first, enforce_sorted=True)
    return packed.data, packed.batch_sizes


@_named("_pad_packed_sequence")
def _pad_packed(data: Any, batch_sizes: Any, batch_first: bool, padding_value: Any, total_length: int = -1) -> Any:
    from metatensor.nn.utils.rnn import PackedSequence, pad_packed_sequence

    packed = PackedSequence(data, batch_sizes)
    return pad_packed_sequence(packed, batch_first, float(padding_value), None if total_length <= 0 else total_length)


_add(lambda sequences, batch_first=False, padding_value=0.0, padding_side="right": mt.nn.utils.rnn.pad_sequence(
    sequences, batch_first, padding_value, padding_side), "pad_sequence")  # fmt: skip


# The fast paths of attention in evaluation mode --------------------------------------------------------------


@_named("_native_multi_head_attention")
def _attention(
    query: Any, key: Any, value: Any, embed_dim: int, num_head: int, qkv_weight: Any, qkv_bias: Any, proj_weight: Any, proj_bias: Any,
    mask: Any = None, need_weights: bool = True, average_attn_weights: bool = True, mask_type: int | None = None,
) -> Any:  # fmt: skip
    padding = attn = None
    if mask is not None and mask_type == 1:
        padding = mask
    elif mask is not None:
        attn = mask
    if mask_type == 2:
        raise NotImplementedError("_native_multi_head_attention with a mask that is both of keys and of attention")
    q, k, v = query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1)
    made, weights = F.multi_head_attention_forward(
        q, k, v, embed_dim, num_head, qkv_weight, qkv_bias, None, None, False, 0.0, proj_weight, proj_bias, training=False,
        key_padding_mask=padding, need_weights=need_weights, attn_mask=attn, average_attn_weights=average_attn_weights,
    )  # fmt: skip
    return made.transpose(0, 1), weights


@_named("_transformer_encoder_layer_fwd")
def _encoder_layer(
    src: Any, embed_dim: int, num_heads: int, qkv_weight: Any, qkv_bias: Any, proj_weight: Any, proj_bias: Any, use_gelu: bool,
    norm_first: bool, eps: float, norm_weight_1: Any, norm_bias_1: Any, norm_weight_2: Any, norm_bias_2: Any, ffn_weight_1: Any,
    ffn_bias_1: Any, ffn_weight_2: Any, ffn_bias_2: Any, mask: Any = None, mask_type: int | None = None,
) -> Any:  # fmt: skip
    def attended(x: Any) -> Any:
        return _attention(x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True, mask_type)[0]

    def fed(x: Any) -> Any:
        x = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(x) if use_gelu else F.relu(x), ffn_weight_2, ffn_bias_2)

    def first(x: Any) -> Any:
        return F.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second(x: Any) -> Any:
        return F.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        src = src + attended(first(src))
        return src + fed(second(src))
    src = first(src + attended(src))
    return second(src + fed(src))
