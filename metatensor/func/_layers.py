"""Batching rules for layers: convolutions, pooling and other operators on images, normalization, attention and bags of embeddings."""

from __future__ import annotations

from typing import Any

import metatensor as mt
from metatensor.func._batched import Level, NoBatch, wrap
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
    updated = training and func.name != "_batch_norm_forward"
    if updated and is_batch(x, level) and x.numel() and any(not is_batch(s, level) for s in statistics.values()):
        raise NoBatch(f"vmap: {func.name} would update running statistics that the members share; map over these, or use none")
    options = dict(given)
    for name in ("running_mean", "running_var", "weight", "bias"):
        if given.get(name) is not None:
            options[name] = expanded(given[name], level).flatten(0, 1)
            if name in statistics and not is_batch(given[name], level):
                options[name] = options[name].clone()
    options["input"] = _groups(expanded(x, level), 1)

    def apart(y: Any) -> Any:
        return _ungrouped(y, size, 1 if y.dim() > 1 else 0) if y.numel() else y.expand(size, *y.shape)

    made = each(func(**options), level, apart)
    for name, running in statistics.items():  # in training, those of `options` have been updated
        found = options[name].unflatten(0, (size, -1))
        if updated and not is_batch(running, level):
            running.copy_(found[0])
        elif updated and found.untyped_storage() is not running.value.untyped_storage():
            running.value.copy_(found)
    return made


@named("nn.functional._batch_norm_train nn.functional._instance_norm_train")
def _trained(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Normalize the channels of all members, side by side, and return their running statistics."""
    options = dict(given)
    if not level.size:
        return NotImplemented
    for name in ("running_mean", "running_var", "weight", "bias"):
        if given[name] is not None:
            options[name] = expanded(given[name], level).flatten(0, 1)
    options["input"] = _groups(expanded(given["input"], level), 1)
    return each(func(**options), level, lambda y: _ungrouped(y, level.size, 1 if y.dim() > 1 else 0))


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


# Bags ---------------------------------------------------------------------------------------------------------------------


@named("nn.functional.embedding_bag")
def _embedding_bag(func: Any, level: Level, given: dict[str, Any]) -> Any:
    """Look up the bags of all members in one table, which holds the rows of all tables."""
    index, weight, offsets, samples = (given[name] for name in ("input", "weight", "offsets", "per_sample_weights"))
    size, count, padding = level.size, weight.shape[0], given["padding_idx"]
    if not size or weight.dim() != 2 or index.dim() not in (1, 2) or (offsets is None) != (index.dim() == 2):
        return NotImplemented
    if samples is not None and samples.shape != index.shape or padding is not None and not -count <= padding < count:
        return NotImplemented
    if given["max_norm"] is not None:
        if is_batch(index, level) and not is_batch(weight, level):
            raise NoBatch("vmap: embedding_bag with max_norm would scale different rows of a table that the members share; map "
                          "over the table, too")
        mt.embedding_renorm_(weight.detach(), index, given["max_norm"], given["norm_type"])
    every = mt.arange(size, device=weight.device)
    table, at, rows = weight, expanded(index, level), index.shape[0]
    if is_batch(weight, level) or given["scale_grad_by_freq"]:  # frequencies are those in a member
        at = at.to(mt.int64)
        table, moved = expanded(weight, level).flatten(0, 1), at + every.reshape(size, *(1,) * index.dim()) * count
        if padding is not None:  # one row for the padding of all members
            moved = mt.where(at == padding % count, size * count, moved)
            table, padding = mt.cat([table, table.new_zeros((1, table.shape[1]))]), size * count
        at = moved
    options = {**given, "weight": table, "input": at.flatten(0, 1), "max_norm": None, "padding_idx": padding}
    if samples is not None:
        options["per_sample_weights"] = expanded(samples, level).flatten(0, 1)
    if offsets is not None:
        bags = offsets.shape[0] - given["include_last_offset"]
        if bags <= 0 or offsets.dim() != 1:
            return NotImplemented
        starts = expanded(offsets, level)[:, :bags].to(mt.int64)
        if is_batch(offsets, level) and starts.device.type != "meta" and bool((starts[:, 0] != 0).any() | (starts > rows).any()):
            raise NoBatch("embedding_bag: the first offset must be 0, and the others must not exceed the number of indices")
        options |= {"offsets": (starts + every.unsqueeze(1) * rows).flatten(), "include_last_offset": False}
        options["input"] = options["input"].to(mt.int64)
    return wrap(func(**options).unflatten(0, (size, -1)), level)
