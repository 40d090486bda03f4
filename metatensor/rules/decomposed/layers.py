"""Normalization, dropout, recurrent networks, and conv_tbc."""

from __future__ import annotations

import math
from typing import Any

import metatensor as mt
from metatensor._core.late import later
from metatensor.rules.decompositions import decomposition, numeric


def _normalized(x: Any, dims: Any, eps: float) -> tuple[Any, Any, Any]:
    """Return (normalized input, mean, reciprocal standard deviation). The statistics are those over `dims`."""
    if not dims:
        return (x - x) * mt.full_like(x, eps).rsqrt(), x, mt.full_like(x, eps).rsqrt()
    middle = x.mean(dims, True)
    centred = x - middle
    scale = ((centred * centred).mean(dims, True) + eps).rsqrt()
    return centred * scale, middle, scale


def _affine(x: Any, weight: Any, bias: Any) -> Any:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def _channels(value: Any, x: Any) -> Any:
    """Reshape one value per channel so that it broadcasts to (N, C, ...)."""
    return None if value is None else value.reshape(-1, *(1,) * (x.dim() - 2))


@numeric("nn.functional.layer_norm")
def layer_norm(x: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    return _affine(_normalized(x, tuple(range(-len(shape), 0)), eps)[0], weight, bias)


@decomposition("native_layer_norm")
def native_layer_norm(x: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    """Compute in float32 for half-precision input. The mean and the reciprocal standard deviation stay float32."""
    wide = x.to(mt.float32) if x.itemsize == 2 else x
    out, middle, scale = _normalized(wide, tuple(range(-len(shape), 0)), eps)
    return _affine(out, weight, bias).to(x.dtype), middle, scale


@numeric("nn.functional.rms_norm")
def rms_norm(x: Any, shape: Any, weight: Any, eps: Any) -> Any:
    eps = mt.finfo(x.dtype).eps if eps is None else eps
    return _affine(x * ((x * x).mean(tuple(range(-len(shape), 0)), True) + eps).rsqrt(), weight, None)


@decomposition("_fused_rms_norm")
def fused_rms_norm(x: Any, shape: Any, weight: Any, eps: Any) -> Any:
    """Compute in float32 for half-precision input. The reciprocal root mean square stays float32."""
    wide = _wide(x)
    eps = mt.finfo(x.dtype).eps if eps is None else eps
    scale = ((wide * wide).mean(tuple(range(-len(shape), 0)), True) + eps).rsqrt()
    return _affine(wide * scale, weight, None).to(x.dtype), scale


@decomposition("_scaled_dot_product_flash_attention")
def flash_attention(q: Any, k: Any, v: Any, p: float, is_causal: bool, scale: Any, generator: Any) -> Any:
    made, rows = _attention(q, k, v, None, p, is_causal, scale)
    return made, rows.to(mt.float32), mt.zeros(2, dtype=mt.uint64, device=q.device), mt.zeros((), dtype=mt.uint64, device=q.device)


@decomposition("_scaled_dot_product_efficient_attention")
def efficient_attention(q: Any, k: Any, v: Any, bias: Any, compute: bool, p: float, is_causal: bool, scale: Any, generator: Any) -> Any:
    made, rows = _attention(q, k, v, bias, p, is_causal, scale)
    made = made.transpose(1, 2).contiguous().transpose(1, 2)
    rows = rows.to(mt.float32)
    rows = mt.nn.functional.pad(rows, (0, -rows.shape[-1] % 32)) if compute else rows[..., :0].clone()
    return made, rows, mt.zeros((), dtype=mt.int64, device=q.device), mt.zeros((), dtype=mt.int64, device=q.device)


@decomposition("_scaled_dot_product_flash_attention_for_cpu")
def flash_attention_for_cpu(q: Any, k: Any, v: Any, p: float, is_causal: bool, mask: Any, scale: Any) -> Any:
    return _attention(q, k, v, mask, p, is_causal, scale)


def _attention(*args: Any) -> tuple[Any, Any]:
    from metatensor.rules.gradients import fused

    return fused.attention_forward(*args)


@numeric("nn.functional.group_norm")
def group_norm(x: Any, groups: int, weight: Any, bias: Any, eps: float) -> Any:
    out = _normalized(x.reshape(x.shape[0], groups, x.shape[1:].numel() // groups), (2,), eps)[0].reshape(x.shape)
    return _affine(out, _channels(weight, x), _channels(bias, x))


def _wide(x: Any) -> Any:
    """Return half precision as float32. Other floats are returned as they are."""
    return x.to(mt.float32) if x.itemsize == 2 else x


@decomposition("native_group_norm")
def native_group_norm(x: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, groups: int, eps: float) -> Any:
    out, middle, scale = _normalized(_wide(x).reshape(N, groups, C * HxW // groups), (2,), eps)
    out = out.reshape(N, C, HxW)
    out = _affine(out, None if weight is None else weight.reshape(-1, 1), None if bias is None else bias.reshape(-1, 1))
    return out.reshape(x.shape).to(x.dtype), middle.reshape(N, groups).to(x.dtype), scale.reshape(N, groups).to(x.dtype)


def _updated(running: Any, found: Any, momentum: float) -> Any:
    return (running * (1 - momentum) + found.reshape(running.shape) * momentum).to(running.dtype)


def _variance(x: Any, dims: tuple[int, ...], correction: int) -> tuple[Any, Any]:
    """Return the variance and the mean over `dims`."""
    middle = x.mean(dims, True)
    centred = x - middle
    count = math.prod(x.shape[d] for d in dims)
    return (centred * centred).sum(dims, keepdim=True) / (count - correction if count > correction else 1), middle


@decomposition("nn.functional._batch_norm_train")
def batch_norm_train(
    x: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, momentum: float, eps: float
) -> Any:
    if not x.numel():
        return x.clone(), running_mean.clone(), running_var.clone()
    wide, dims = _wide(x), _batch_dims(x)
    variance, middle = _variance(wide, dims, 1)
    out = _affine(_normalized(wide, dims, eps)[0], _channels(weight, x), _channels(bias, x)).to(x.dtype)
    return out, _updated(running_mean, middle, momentum), _updated(running_var, variance, momentum)


@decomposition("nn.functional._batch_statistics")
def batch_statistics(x: Any, weight: Any, eps: float) -> Any:
    _, middle, scale = _normalized(_wide(x), _batch_dims(x), eps)
    return middle.reshape(-1), scale.reshape(-1)


@decomposition("nn.functional._instance_norm_train")
def instance_norm_train(
    x: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, momentum: float, eps: float
) -> Any:
    if not x.shape[0]:
        return x.clone(), running_mean.clone(), running_var.clone()
    wide, dims = _wide(x), tuple(range(2, x.dim()))
    variance, middle = _variance(wide, dims, 1)
    out = _affine(_normalized(wide, dims, eps)[0], _channels(weight, x), _channels(bias, x)).to(x.dtype)
    return out, _updated(running_mean, middle.mean(0), momentum), _updated(running_var, variance.mean(0), momentum)


def _batch_dims(x: Any) -> tuple[int, ...]:
    return (0, *range(2, x.dim()))


@numeric("nn.functional._batch_norm_eval")
def batch_norm_eval(x: Any, mean: Any, variance: Any, weight: Any, bias: Any, eps: float) -> Any:
    return _affine((x - _channels(mean, x)) * (_channels(variance, x) + eps).rsqrt(), _channels(weight, x), _channels(bias, x))


@numeric("nn.functional._batch_norm_stats")
def batch_norm_stats(x: Any, weight: Any, bias: Any, eps: float) -> Any:
    return _affine(_normalized(x, _batch_dims(x), eps)[0], _channels(weight, x), _channels(bias, x))


@numeric("nn.functional._instance_norm")
def instance_norm(x: Any, weight: Any, bias: Any, eps: float) -> Any:
    return _affine(_normalized(x, tuple(range(2, x.dim())), eps)[0], _channels(weight, x), _channels(bias, x))


@numeric("nn.functional._instance_norm_eval")
def instance_norm_eval(x: Any, mean: Any, variance: Any, weight: Any, bias: Any, eps: float) -> Any:
    return _affine((x - _channels(mean, x)) * (_channels(variance, x) + eps).rsqrt(), _channels(weight, x), _channels(bias, x))


# Dropout -----------------------------------------------------------------------------------------------------


def _dropout(name: str, places: tuple[int, int, int]) -> None:
    """Register a decomposition for a dropout op.

    It applies the host kernel to a tensor of ones, and multiplies the input by the result.
    """
    p_at, train_at, ticket_at = places

    @decomposition(name)
    def dropout(*args: Any) -> Any:
        x = args[0]
        if not args[train_at] or args[p_at] == 0:
            return x.clone()
        if args[p_at] == 1:
            return x * 0
        factor = mt.ones_like(x)
        kernel = later("drawn_on_host")(name, x.device)
        if kernel is None:
            raise NotImplementedError(f"{name}: neither the device nor the host has a kernel")
        kernel(factor, factor, *args[1:])
        return mt.where(factor == 0, mt.zeros_like(x), x * factor)


for _name in ("dropout", "feature_dropout"):
    _dropout(_name, (1, 2, 3))
for _name in ("dropout", "dropout1d", "dropout2d", "dropout3d"):
    _dropout(f"nn.functional.{_name}", (1, 2, 4))


# Recurrent cells -------------------------------------------------------------------------------------------


def _gates(x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> tuple[Any, Any]:
    return mt.nn.functional.linear(x, w_ih, b_ih), mt.nn.functional.linear(h, w_hh, b_hh)


@numeric("rnn_tanh_cell", complex=True)
def rnn_tanh_cell(x: Any, h: Any, *weights: Any) -> Any:
    a, b = _gates(x, h, *weights)
    return (a + b).tanh()


@numeric("rnn_relu_cell")
def rnn_relu_cell(x: Any, h: Any, *weights: Any) -> Any:
    a, b = _gates(x, h, *weights)
    return (a + b).relu()


@numeric("gru_cell", complex=True)
def gru_cell(x: Any, h: Any, *weights: Any) -> Any:
    ours, theirs = (gates.chunk(3, -1) for gates in _gates(x, h, *weights))
    reset, update = ((ours[i] + theirs[i]).sigmoid() for i in (0, 1))
    new = (ours[2] + reset * theirs[2]).tanh()
    return new + update * (h - new)


@numeric("lstm_cell", complex=True)
def lstm_cell(x: Any, state: Any, *weights: Any) -> Any:
    h, c = state
    a, b = _gates(x, h, *weights)
    into, forget, cell, out = (a + b).chunk(4, -1)
    c = forget.sigmoid() * c + into.sigmoid() * cell.tanh()
    return out.sigmoid() * c.tanh(), c


def _recurrence(cell: Any, pair: bool) -> Any:
    def run(x: Any, hx: Any, params: Any, has_biases: bool, layers: int, dropout: float, train: bool, both: bool, batch_first: bool,
            generator: Any) -> Any:  # fmt: skip
        if train and dropout > 0:
            raise NotImplementedError("dropout between recurrent layers requires a kernel of the device")
        x = x.transpose(0, 1) if batch_first else x
        ways, each = 2 if both else 1, 4 if has_biases else 2
        last: list[Any] = []
        for layer in range(layers):
            outputs = []
            for way in range(ways):
                number = layer * ways + way
                weights = params[number * each : (number + 1) * each]
                weights = weights if has_biases else [*weights, None, None]
                state = (hx[0][number], hx[1][number]) if pair else hx[number]
                steps: list[Any] = [None] * len(x)
                for step in reversed(range(len(x))) if way else range(len(x)):
                    state = cell(x[step], state, *weights)
                    steps[step] = state[0] if pair else state
                outputs.append(mt.stack(steps))
                last.append(state)
            x = mt.cat(outputs, -1) if both else outputs[0]
        x = x.transpose(0, 1) if batch_first else x
        if pair:
            return x, mt.stack([h for h, _ in last]), mt.stack([c for _, c in last])
        return x, mt.stack(last)

    return run


for _name, _cell in (("rnn_tanh", "rnn_tanh_cell"), ("rnn_relu", "rnn_relu_cell"), ("gru", "gru_cell"), ("lstm", "lstm_cell")):
    numeric(_name, complex=True)(_recurrence(getattr(mt, _cell), _name == "lstm"))


@decomposition("conv_tbc")
def conv_tbc(x: Any, weight: Any, bias: Any, pad: int) -> Any:
    """Multiply a matrix by the weight. The rows of the matrix are the windows over time."""
    size, inputs, outputs = weight.shape
    windows = mt.constant_pad_nd(x, (0, 0, 0, 0, pad, pad)).unfold(0, size, 1).transpose(2, 3)
    rows = windows.reshape(windows.shape[0] * windows.shape[1], size * inputs)
    return mt.mm(rows, weight.reshape(size * inputs, outputs)).reshape(*windows.shape[:2], outputs) + bias.to(x.dtype)
