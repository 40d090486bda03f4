"""The temporary tensors of layers: normalization, dropout, attention, pooling."""

from __future__ import annotations

from typing import Any

from metatensor._core.gradients import functional, ops
from metatensor.rules.gradients import attention as _attention
from metatensor.rules.gradients import recurrent as _recurrent_layers
from metatensor.rules.parts import parts

__all__: list[str] = []


def _channel_statistics(input: Any, weight: Any) -> Any:
    """Return the mean and the reciprocal standard deviation of each channel."""
    return functional._batch_statistics(input, weight, 1e-5)


@parts("nn.functional.batch_norm")
def batch_norm(input: Any, mean: Any, var: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float) -> Any:
    if not input.numel():
        return input.clone()
    result = ops.empty_like(input)
    statistics = _channel_statistics(input, weight)
    return result, statistics


@parts("nn.functional._batch_norm_eval")
def batch_norm_eval(input: Any, mean: Any, var: Any, weight: Any, bias: Any, eps: float) -> Any:
    return batch_norm(input, mean, var, weight, bias, False, 0.1, eps)


@parts("native_batch_norm", "_native_batch_norm_legit")
def native_batch_norm(input: Any, weight: Any, bias: Any, *rest: Any) -> Any:
    return batch_norm(input, None, None, weight, bias, True, 0.1, 1e-5)


@parts("nn.functional.instance_norm")
def instance_norm(input: Any, mean: Any, var: Any, weight: Any, bias: Any, use_input: bool, momentum: float, eps: float) -> Any:
    n, channels = input.shape[:2]
    repeated: list[Any] = [None if t is None else t.repeat(n) for t in (mean, var, weight, bias)]
    flat = input.contiguous().view(1, n * channels, *input.shape[2:])
    result = batch_norm(flat, None, None, repeated[2], None, True, 0.1, 1e-5)[0]
    if use_input and mean is not None:
        repeated[0].view(n, channels).mean(0)
        repeated[1].view(n, channels).mean(0)
    return result


@parts("nn.functional._instance_norm")
def instance_norm_alone(input: Any, weight: Any, bias: Any, eps: float) -> Any:
    return instance_norm(input, None, None, weight, bias, True, 0.1, eps)


@parts("nn.functional._instance_norm_train")
def instance_norm_train(input: Any, mean: Any, var: Any, weight: Any, bias: Any, momentum: float, eps: float) -> Any:
    return instance_norm(input, mean, var, weight, bias, True, momentum, eps)


@parts("nn.functional._instance_norm_eval")
def instance_norm_eval(input: Any, mean: Any, var: Any, weight: Any, bias: Any, eps: float) -> Any:
    return instance_norm(input, mean, var, weight, bias, False, 0.1, eps)


# Dropout ----------------------------------------------------------------------------------------------------


def _dropped(input: Any, p: float, train: bool, channels: bool = False, alpha: bool = False) -> Any:
    """Multiply by a mask, without drawing it. For alpha dropout, also add a shift."""
    if not train or p == 0 or not input.numel():
        return input
    if p == 1:
        return input * ops.zeros((), dtype=input.dtype, device=input.device)
    mask = input.new_empty(input.shape[:2] + (1,) * (input.dim() - 2)) if channels else ops.empty_like(input)
    if not alpha:
        return input * mask
    shift = mask.add(1)
    return (input * mask).add_(shift)


@parts("dropout", "nn.functional.dropout")
def dropout(input: Any, p: float, train: bool, *rest: Any) -> Any:
    return _dropped(input, p, train)


@parts("alpha_dropout", "nn.functional.alpha_dropout")
def alpha_dropout(input: Any, p: float, train: bool, *rest: Any) -> Any:
    return _dropped(input, p, train, alpha=True)


@parts("feature_dropout", "nn.functional.dropout2d")
def feature_dropout(input: Any, p: float, train: bool, *rest: Any) -> Any:
    return _dropped(input, p, train, channels=True)


@parts("nn.functional.dropout1d")
def dropout1d(input: Any, p: float, train: bool, *rest: Any) -> Any:
    return _dropped(input if input.dim() == 3 else input.unsqueeze(0), p, train, channels=True)


@parts("nn.functional.dropout3d")
def dropout3d(input: Any, p: float, train: bool, *rest: Any) -> Any:
    return _dropped(input if input.dim() == 5 else input.unsqueeze(0), p, train, channels=True)


@parts("feature_alpha_dropout", "nn.functional.feature_alpha_dropout")
def feature_alpha_dropout(input: Any, p: float, train: bool, *rest: Any) -> Any:
    return _dropped(input, p, train, channels=True, alpha=True)


@parts("rrelu", "nn.functional.rrelu")
def rrelu(input: Any, lower: float, upper: float, training: bool, *rest: Any) -> Any:
    noise = ops.empty_like(input)
    return ops.empty_like(input), noise


# Attention and pooling --------------------------------------------------------------------------------------------


@parts("nn.functional.scaled_dot_product_attention")
def attention(query: Any, key: Any, value: Any, mask: Any, p: float, is_causal: bool, scale: Any, gqa: bool, generator: Any) -> Any:
    return _attention.attention_in_steps(query, key, value, mask, p, is_causal, scale, gqa, lambda weights: _dropped(weights, p, True))


@parts("nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool2d_with_indices")
def fractional_max_pool2d(input: Any, kernel_size: Any, output_size: Any, ratio: Any, indices: bool, samples: Any, generator: Any) -> Any:
    return _fractional(input, output_size, ratio, samples, 2)


@parts("nn.functional.fractional_max_pool3d", "nn.functional.fractional_max_pool3d_with_indices")
def fractional_max_pool3d(input: Any, kernel_size: Any, output_size: Any, ratio: Any, indices: bool, samples: Any, generator: Any) -> Any:
    return _fractional(input, output_size, ratio, samples, 3)


def _fractional(input: Any, output_size: Any, ratio: Any, samples: Any, n: int) -> Any:
    """Create the positions of the windows, the result and the indices."""
    if samples is None:
        samples = input.new_empty((1 if input.dim() == n + 1 else input.shape[0], input.shape[-n - 1], n))
    if output_size is None:
        ratios = ratio if isinstance(ratio, (tuple, list)) else (ratio,) * n
        output_size = [int(size * r) for size, r in zip(input.shape[-n:], ratios, strict=True)]
    sizes = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * n
    shape = (*input.shape[:-n], *sizes)
    return input.new_empty(shape), ops.empty(shape, dtype=ops.argmax(input.new_empty((1,))).dtype, device=input.device)


# Recurrent layers -----------------------------------------------------------------------------------------------------


def _recurrent(name: str) -> None:
    @parts(name)
    def layer(input: Any, hx: Any, params: Any, biases: bool, layers: int, dropout: float, train: bool, both: bool, first: bool,
              generator: Any) -> Any:  # fmt: skip
        return getattr(_recurrent_layers, name)(input, hx, params, biases, layers, 0.0, train, both, first, None)


for _name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
    _recurrent(_name)
