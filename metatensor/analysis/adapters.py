"""LoRA for estimates: low-rank adapters on linear layers of a model whose other parameters are frozen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import metatensor as mt
from metatensor.analysis.recomputation import repeated_layers

__all__ = ["Adapters", "adapted", "parse"]


class Adapters(NamedTuple):
    """What `adapted` added to a model."""

    rank: int
    paths: list[str]
    """Paths of the linear layers that have adapters."""

    def __str__(self) -> str:
        return f"LoRA of rank {self.rank} on {len(self.paths)} linear layers, {self.paths[0]} to {self.paths[-1]}; all else is frozen"


def parse(lora: str | int) -> tuple[int, str | None]:
    """Return the rank and the pattern of ``RANK[:PATTERN]``. Raise ValueError if it is not of that form."""
    rank, colon, pattern = str(lora).partition(":")
    if not rank.strip().isdigit() or int(rank) < 1 or (colon and not pattern):
        raise ValueError(f"estimate_training: lora={lora!r} is not of the form RANK or RANK:PATTERN, such as 16 or 16:*.q_proj")
    return int(rank), pattern or None


def _targets(model: Any, pattern: str | None) -> list[tuple[str, Any]]:
    """Return the linear layers that get adapters: those whose path matches, by default those of repeated layers."""
    layers = [(path, module) for path, module in model.named_modules() if type(module) is mt.nn.Linear]
    if pattern is not None:
        found = [(path, module) for path, module in layers if fnmatchcase(path, pattern)]
        if not found:
            have = ", ".join(path for path, _ in layers[:8]) or "none"
            raise ValueError(f"estimate_training: lora: no linear layer has a path like {pattern!r}; there are {have}")
        return found
    inside = tuple(f"{path}." for path, _ in repeated_layers(model))
    found = [(path, module) for path, module in layers if path.startswith(inside)] if inside else layers
    if not found:
        raise ValueError("estimate_training: lora: the model has no linear layers")
    return found


@contextmanager
def adapted(model: Any, lora: str | int) -> Iterator[Adapters]:
    """Add low-rank adapters to linear layers of ``model`` inside the block, and freeze all other parameters.

    A layer with weight (out, in) gets A (rank, in) and B (out, rank), in the dtype of its weight, and adds
    B A x, times a constant, to its output (Hu et al., LoRA, 2021, arXiv:2106.09685). Attention layers that pass weights of linear layers to
    one operator have no linear layer to adapt.
    """
    rank, pattern = parse(lora)
    targets = _targets(model, pattern)
    frozen = [p for p in model.parameters() if p.requires_grad]
    hooks = []
    try:
        for p in frozen:
            p.requires_grad_(False)
        for _, module in targets:
            weight = module.weight
            for name, shape in (("lora_A", (rank, weight.shape[1])), ("lora_B", (weight.shape[0], rank))):
                module.register_parameter(name, mt.nn.Parameter(mt.empty(shape, dtype=weight.dtype, device=weight.device)))
            hooks.append(module.register_forward_hook(_with_adapter))
        yield Adapters(rank, [path for path, _ in targets])
    finally:
        for hook in hooks:
            hook.remove()
        for _, module in targets:
            module._parameters.pop("lora_A", None)
            module._parameters.pop("lora_B", None)
        for p in frozen:
            p.requires_grad_(True)


def _with_adapter(module: Any, args: Any, output: Any) -> Any:
    linear = mt.nn.functional.linear
    return output + linear(linear(args[0], module.lora_A), module.lora_B) * 2.0  # alpha / rank
