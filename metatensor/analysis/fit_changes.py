"""What `fit` tries instead of the requested setting, and what each change loses."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import metatensor as mt
from metatensor.analysis.fit_report import FitSetting
from metatensor.analysis.precision import precision_named
from metatensor.analysis.recomputation import recomputed, repeated_layers
from metatensor.analysis.training import optimizer_named
from metatensor.devices.profiles import DeviceProfile
from metatensor.nn.modules.batchnorm import _BatchNorm

__all__ = ["alternatives", "combined", "described"]

MOMENTS = {"adam": 2, "adamw": 2, "nadam": 2, "radam": 2, "adamax": 2, "adadelta": 2, "asgd": 1, "rprop": 2, "adagrad": 1,
           "rmsprop": 1, "muon": 1}  # fmt: skip
"""Number of tensors of a parameter's size that an optimizer keeps for the parameter with default options."""
BITS = {"bf16": ("bfloat16", "8 bits"), "fp16": ("float16", "11 bits, at most 65504")}


def alternatives(
    model: Any, requested: FitSetting, profile: DeviceProfile | None, training: bool, keep: Collection[str],
    tried: Mapping[str, Sequence[Any] | None],
) -> tuple[dict[str, list[Any]], list[str]]:
    """Return what to try instead of each field of the requested setting, and remarks on what cannot be tried.

    Names that a user gives are checked first: ValueError is raised if one is unknown.
    """
    for name in tried.get("precision") or ():
        precision_named(name)
    for name in tried.get("optimizer") or ():
        if isinstance(name, str):
            optimizer_named(name)
    for name in tried.get("recompute") or ():
        with recomputed(model, name):
            pass
    remarks: list[str] = []
    found: dict[str, list[Any]] = {"precision": _precisions(model, requested, profile, training)}
    if training:
        found["recompute"], remarks = _recomputes(model, requested)
        found["optimizer"] = _optimizers(requested)
        found["foreach"] = [False] if requested.foreach else []
    if requested.sequence is not None:
        found["sequence"] = []
    for name, values in tried.items():
        if values is not None and (training or name == "precision"):
            found[name] = [value for value in values if value != getattr(requested, name)]
    if "recompute" in keep or tried.get("recompute") is not None:
        remarks = []
    return {name: values for name, values in found.items() if name not in keep}, remarks


def _precisions(model: Any, requested: FitSetting, profile: DeviceProfile | None, training: bool) -> list[str]:
    """Return precisions that keep less than the requested one, those with the smallest loss first."""
    half = "bf16"
    if profile is not None and profile.rate("bfloat16") is None and profile.rate("float16") is not None:
        half = "fp16"
    name = requested.precision
    if not isinstance(model, mt.nn.Module):
        return []
    if name is None:
        tensors = [t for t in model.parameters() if t.is_floating_point()]
        name = "fp32" if any(t.element_size() > 2 for t in tensors) or not tensors else half
    elif name[:4] in BITS:
        half = name[:4]
    if not training:
        return [half] if name == "fp32" or name.endswith("-mixed") else []
    order = ["fp32", f"{half}-mixed", f"{half}-master", *([half] if half == "bf16" else [])]
    return order[order.index(name) + 1 :] if name in order else []


def _recomputes(model: Any, requested: FitSetting) -> tuple[list[str], list[str]]:
    if not repeated_layers(model):
        return [], ["recomputation was not tried, because the model has no list of layers of one class; name modules by a pattern"]
    order = ["none", "selective", "full"]
    return (order[order.index(requested.recompute) + 1 :] if requested.recompute in order else ["full"]), []


def _optimizers(requested: FitSetting) -> list[str]:
    name = requested.optimizer.lower() if isinstance(requested.optimizer, str) else ""
    if MOMENTS.get(name):
        return ["adafactor", "sgd"]
    return ["sgd"] if name == "adafactor" else []


def combined(options: Mapping[str, Sequence[Any]]) -> Iterator[tuple[tuple[str, Any], ...]]:
    """Yield all sets of changes, each field changed at most once: first none, then single ones, then pairs and so on."""
    names = [name for name in options if options[name]]
    for count in range(len(names) + 1):
        for chosen in itertools.combinations(names, count):
            for values in itertools.product(*(options[name] for name in chosen)):
                yield tuple(zip(chosen, values, strict=True))


def described(model: Any, requested: FitSetting, setting: FitSetting, training: bool) -> tuple[tuple[str, ...], tuple[str, ...], int]:
    """Return the differences from the requested setting, what is lost by them, and the rank of the loss."""
    changes: list[str] = []
    lost: list[str] = []
    rank = 0
    if setting.grad_accumulation != requested.grad_accumulation:
        changes.append(f"{setting.grad_accumulation} {'micro-batches' if training else 'passes'} of {setting.batch:,}")
        if training and _normalizes(model):
            lost.append(f"batch normalization sees {setting.batch:,} samples")
            rank = 1
    if setting.recompute != requested.recompute:
        changes.append(f"recompute {setting.recompute}")
        with recomputed(model, setting.recompute) as paths:
            if any(_normalizes(model.get_submodule(path)) for path in paths):
                lost.append("batch normalization updates its running statistics twice")
                rank = 1
    if requested.foreach and not setting.foreach:
        changes.append("no foreach")
    if setting.precision != requested.precision:
        text, grade = _rounding(setting.precision or "", training)
        changes.append(f"precision {setting.precision}")
        lost.append(text)
        rank = max(rank, grade)
    if setting.optimizer != requested.optimizer:
        name = setting.to_dict()["optimizer"]
        changes.append(f"optimizer {name}")
        lost.append("another optimizer, with another learning rate")
        rank = max(rank, 3)
    if setting.sequence != requested.sequence:
        changes.append(f"sequence {setting.sequence:,}")
        lost.append(f"samples are shorter than {requested.sequence:,}")
        rank = 4
    return tuple(changes), tuple(lost), rank


def _normalizes(model: Any) -> bool:
    return any(isinstance(module, _BatchNorm) for module in model.modules())


def _rounding(precision: str, training: bool) -> tuple[str, int]:
    """Return what a precision loses, and the rank of the loss."""
    prefix, _, way = precision.partition("-")
    if prefix not in BITS:
        return f"results have the precision {precision}", 3
    dtype, bits = BITS[prefix]
    scaled = "; the loss must be scaled" if prefix == "fp16" and training else ""
    if way == "mixed":
        return f"matrix products round to {dtype} ({bits}){scaled}", 1
    if not training:
        return f"weights and activations round to {dtype} ({bits})", 1
    if way == "master":
        return f"activations and gradients round to {dtype} ({bits}){scaled}", 2
    return f"weights, gradients and optimizer state round to {dtype} ({bits}): small updates are lost", 3
