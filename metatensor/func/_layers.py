"""Batching rules for layers: convolutions, pooling and other operators on images, normalization, attention and losses."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.func._batched import Level, wrap
from metatensor.func._rules import each, expanded, is_batch, named

__all__ = ["convolved", "folded"]


def _groups(value: Any, dim: int) -> Any:
    """Move the batch dimension, which is first, before dimension `dim` of the members, and join the two."""
    return value.movedim(0, dim).flatten(dim, dim + 1)


def _ungrouped(value: Any, size: int, dim: int) -> Any:
    """Undo `_groups`."""
    return value.unflatten(dim, (size, value.shape[dim] // size)).movedim(dim, 0)


# Images --------------------------------------------------------------------------------------------------------------------

_IMAGES = " ".join(
    f"nn.functional.{kind}_pool{n}d" for kind in ("max", "avg", "lp", "adaptive_avg", "adaptive_max", "fractional_max") for n in (1, 2, 3)
    if (kind, n) != ("fractional_max", 1)
) + " ".join(
    f" nn.functional.{kind}_pool{n}d_with_indices" for kind in ("max", "adaptive_max", "fractional_max") for n in (1, 2, 3)
    if (kind, n) != ("fractional_max", 1)
) + " ".join(f" nn.functional.max_unpool{n}d" for n in (1, 2, 3))  # fmt: skip


@named(_IMAGES + " max_pool1d_with_indices adaptive_max_pool1d")
def folded(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Apply an operator on images with `n` dimensions to the images of all members."""
    n = int(func.name.removesuffix("_with_indices")[-2])
    images = {name: x for name, x in given.items() if isinstance(x, mt.Tensor) and name in ("input", "indices")}
    if any(is_batch(x, level) for name, x in given.items() if name not in images):
        return NotImplemented
    return _on_images(func, level, given, images, given["input"].dim() == n + 2)


def _on_images(func: Any, level: Level, given: dict[str, Any], images: dict[str, Any], several: bool) -> Any:
    whole = {name: expanded(x, level) for name, x in images.items()}
    if not several:  # the batch takes the place of the images of a member
        return each(func(**{**given, **whole}), level)
    size = level.size
    result = func(**{**given, **{name: x.flatten(0, 1) for name, x in whole.items()}})
    return each(result, level, lambda y: y.unflatten(0, (size, y.shape[0] // size)) if size else y.unsqueeze(0))


@named("nn.functional.interpolate nn.functional.channel_shuffle nn.functional.grid_sample grid_sampler grid_sampler_2d grid_sampler_3d")
def _several_images(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Apply an operator whose tensors have a first dimension for the images."""
    images = {name: x for name, x in given.items() if name in ("input", "grid")}
    return _on_images(func, level, given, images, True) if level.size else NotImplemented


@named("nn.functional.unfold nn.functional.fold")
def _windows(func: Any, level: Level, given: dict[str, Any]) -> Any:
    x = given["input"]
    return _on_images(func, level, given, {"input": x}, x.dim() == (4 if func.name.endswith("unfold") else 3))


@named("_max_pool_backward _adaptive_avg_pool_backward")
def _pool_backward(func: Any, level: Level, given: dict[str, Any]) -> Any:
    images = {name: x for name, x in given.items() if isinstance(x, mt.Tensor)}
    return _on_images(func, level, given, images, given["input"].dim() == given["n"] + 2)


@named("_avg_pool_backward")
def _average_backward(func: Any, level: Level, given: dict[str, Any]) -> Any:
    images = {name: x for name, x in given.items() if isinstance(x, mt.Tensor)}
    return _on_images(func, level, given, images, given["input"].dim() == len(given["kernel_size"]) + 2)


@named("_upsample_backward")
def _upsample_backward(func: Any, level: Level, given: dict[str, Any]) -> Any:
    grad, shape = given["grad_output"], given["input_size"]
    return _on_images(func, level, {**given, "input_size": (level.size * shape[0], *shape[1:])}, {"grad_output": grad}, True)


@named("_grid_sampler_backward")
def _grid_backward(func: Any, level: Level, given: dict[str, Any]) -> Any:
    return _on_images(func, level, given, {name: x for name, x in given.items() if isinstance(x, mt.Tensor)}, True)


@named("nn.functional.pixel_shuffle nn.functional.pixel_unshuffle")
def _pixels(func: Any, level: Level, given: dict[str, Any]) -> Any:
    return each(func(**{**given, "input": given["input"].value}), level)


# Convolutions -------------------------------------------------------------------------------------------------------------


@named(" ".join(f"nn.functional.conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3)) + " convolution")
def convolved(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Convolve with a kernel that the members share, or with one for each, as groups of channels."""
    x, weight, bias = given["input"], given["weight"], given.get("bias")
    if not level.size:
        return NotImplemented
    several = x.dim() == weight.dim()  # images in a member
    if not is_batch(weight, level):
        own = bias if is_batch(bias, level) else None
        result = _on_images(func, level, {**given, "bias": None if own is not None else bias}, {"input": x}, several)
        return result if own is None else result + own.reshape(-1, *(1,) * (weight.dim() - 2))
    whole = x.value if is_batch(x, level) else expanded(x, level)
    channel = 1 if several else 0
    options = {
        **given,
        "input": _groups(whole, channel),
        "weight": weight.value.flatten(0, 1),
        "bias": None if bias is None else expanded(bias, level).flatten(0, 1),
        "groups": given["groups"] * level.size,
    }
    return wrap(_ungrouped(func(**options), level.size, channel), level)


@named("convolution_backward")
def _convolution_backward(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Compute the gradients of all members as those of one convolution in groups."""
    size = level.size
    if not size:
        return NotImplemented
    options = {
        **given,
        "grad_output": _groups(expanded(given["grad_output"], level), 1),
        "input": _groups(expanded(given["input"], level), 1),
        "weight": expanded(given["weight"], level).flatten(0, 1),
        "groups": given["groups"] * size,
    }
    first, second, third = func(**options)
    mask = given["output_mask"]
    return (
        wrap(_ungrouped(first, size, 1), level) if mask[0] else first,
        wrap(second.unflatten(0, (size, second.shape[0] // size)), level) if mask[1] else second,
        wrap(third.unflatten(0, (size, third.shape[0] // size)), level) if mask[2] else third,
    )


# Normalization --------------------------------------------------------------------------------------------------------------


@named("native_layer_norm nn.functional.layer_norm nn.functional.rms_norm")
def _normalized(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Normalize trailing dimensions of each member."""
    x, weight, bias = given["input"], given.get("weight"), given.get("bias")
    own = is_batch(weight, level) or is_batch(bias, level)
    if not is_batch(x, level):
        x = wrap(expanded(x, level), level)
    options = {**given, "input": x.value}
    if own:
        options |= {name: None for name in ("weight", "bias") if name in given}
    made = each(func(**options), level)
    if not own:
        return made
    first = made[0] if isinstance(made, tuple) else made
    first = first if weight is None else first * weight
    first = first if bias is None else first + bias
    return (first, *made[1:]) if isinstance(made, tuple) else first


@named("nn.functional.group_norm")
def _group_norm(func: Any, level: Level, given: dict[str, Any]) -> Any:
    x, weight, bias = given["input"], given["weight"], given["bias"]
    own = is_batch(weight, level) or is_batch(bias, level)
    made = _on_images(func, level, {**given, **({"weight": None, "bias": None} if own else {})}, {"input": x}, True)
    return _scaled(made, weight, bias) if own else made


def _scaled(x: Any, weight: Any, bias: Any) -> Any:
    """Multiply and add by channel."""
    shape = (-1, *(1,) * (x.dim() - 2))
    x = x if weight is None else x * weight.reshape(shape)
    return x if bias is None else x + bias.reshape(shape)


@named("native_group_norm")
def _native_group_norm(func: Any, level: Level, given: dict[str, Any]) -> Any:
    weight, bias = given["weight"], given["bias"]
    own = is_batch(weight, level) or is_batch(bias, level)
    options = {**given, "N": given["N"] * level.size, **({"weight": None, "bias": None} if own else {})}
    first, mean, rstd = _on_images(func, level, options, {"input": given["input"]}, True)
    return (_scaled(first, weight, bias) if own else first), mean, rstd


@named("nn.functional.batch_norm nn.functional.instance_norm native_batch_norm _native_batch_norm_legit _batch_norm_forward")
def _batch_norm(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Normalize the channels of all members, side by side."""
    size, x = level.size, given["input"]
    statistics = {name: given[name] for name in ("running_mean", "running_var") if given.get(name) is not None}
    training = given.get("training", given.get("use_input_stats", True))
    if not size:
        return NotImplemented
    if training and is_batch(x, level) and any(not is_batch(s, level) for s in statistics.values()) and func.name != "_batch_norm_forward":
        return NotImplemented  # running statistics that the members share cannot be updated
    options = dict(given)
    for name in ("running_mean", "running_var", "weight", "bias"):
        if given.get(name) is not None:
            options[name] = expanded(given[name], level).flatten(0, 1)
    options["input"] = _groups(expanded(x, level), 1)

    def apart(y: Any) -> Any:
        return _ungrouped(y, size, 1 if y.dim() > 1 else 0) if y.numel() else y.expand(size, *y.shape)

    return each(func(**options), level, apart)


# Attention ----------------------------------------------------------------------------------------------------------------


@named("nn.functional.scaled_dot_product_attention")
def _attention(func: Any, level: Level, given: dict[str, Any]) -> Any:
    names = ("query", "key", "value", "attn_mask")
    rank = max(given[name].dim() for name in names[:3])
    options = dict(given)
    for name in names:
        x = given[name]
        if x is not None and (is_batch(x, level) or name != "attn_mask"):
            whole = expanded(x, level)
            options[name] = whole.reshape(level.size, *(1,) * (rank - x.dim()), *x.shape)
    return each(func(**options), level)


# Losses -------------------------------------------------------------------------------------------------------------------


@named("nn.functional.multi_margin_loss nn.functional.multilabel_margin_loss")
def _margins(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Compute the losses of all rows, and reduce those of each member."""
    x, target = given["input"], given["target"]
    reduction = given["reduction"]
    if is_batch(given.get("weight"), level) or given["size_average"] is not None or given["reduce"] is not None or not level.size:
        return NotImplemented
    rows = expanded(x, level), expanded(target, level)
    if x.dim() == 2:
        rows = tuple(r.flatten(0, 1) for r in rows)
    losses = func(**{**given, "input": rows[0], "target": rows[1], "reduction": "none"})
    losses = losses.unflatten(0, (level.size, -1)) if x.dim() == 2 else losses
    if reduction == "none" or x.dim() < 2:
        return wrap(losses, level)
    return wrap(losses.mean(1) if reduction == "mean" else losses.sum(1), level)


@named("nn.functional.binary_cross_entropy")
def _binary_cross_entropy(func: Any, level: Level, given: dict[str, Any]) -> Any:
    x, target, weight = given["input"], given["target"], given["weight"]
    if given["size_average"] is not None or given["reduce"] is not None:
        return NotImplemented
    whole = {"input": expanded(x, level), "target": expanded(target, level)}
    losses = wrap(func(**{**given, **whole, "weight": None, "reduction": "none"}), level)
    return _reduced(losses if weight is None else losses * weight, given["reduction"])


def _reduced(losses: Any, reduction: str) -> Any:
    return losses if reduction == "none" else losses.mean() if reduction == "mean" else losses.sum()


@named("nn.functional.cosine_embedding_loss")
def _cosine_embedding_loss(func: Any, level: Level, given: dict[str, Any]) -> Any:
    a, b, target, margin = (given[name] for name in ("input1", "input2", "target", "margin"))
    if given["size_average"] is not None or given["reduce"] is not None:
        return NotImplemented
    tiny = 1e-8
    similarity = (a * b).sum(-1) / (((a * a).sum(-1) + tiny) * ((b * b).sum(-1) + tiny)).sqrt()
    apart = (similarity - margin).clamp(min=0)
    losses = mt.where(target == 1, 1 - similarity, mt.where(target == -1, apart, mt.zeros_like(similarity)))
    return _reduced(losses, given["reduction"])


@named("_nll_loss_forward")
def _nll_loss(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Pick the entries of the targets."""
    x, target, weight, ignored = (given[name] for name in ("input", "target", "weight", "ignore_index"))
    dim = 1 if x.dim() > 1 else 0
    kept = target != ignored
    at = mt.where(kept, target, 0)
    picked = -(x.gather(dim, at.unsqueeze(dim)).squeeze(dim) if target.dim() or dim else x.gather(0, at.reshape(1)).reshape(()))
    weights = kept.to(x.dtype) if weight is None else mt.where(kept, weight.index_select(0, at.reshape(-1)).reshape(at.shape), 0)
    losses = mt.where(kept, picked * weights, mt.zeros_like(picked))
    total = weights.sum()
    if given["reduction"] == "none":
        return losses, mt.zeros_like(total)
    return (losses.sum() / total if given["reduction"] == "mean" else losses.sum()), total
