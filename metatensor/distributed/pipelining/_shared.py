"""Parameters that several stages of a traced pipeline share, such as tied embeddings: their gradients are summed after each step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import metatensor as mt
from metatensor.distributed._collectives import all_reduce
from metatensor.distributed._group import create_group
from metatensor.distributed.pipelining.stage import _PipelineStageBase
from metatensor.distributed.tensor import DTensor

__all__ = ["reduce_shared", "set_aside"]


def _of_stages(stages: Mapping[int, _PipelineStageBase]) -> Mapping[str, tuple[int, ...]]:
    """Return the names of shared parameters with their stages. It is the same on all ranks."""
    return next((stage.shared for stage in stages.values()), {})


def _copies(stages: Mapping[int, _PipelineStageBase], name: str, where: tuple[int, ...]) -> list[Any]:
    """Return the different parameters of this rank that are one parameter of the model."""
    found: dict[int, Any] = {}
    for index in where:
        if index in stages:
            parameter = stages[index].parameter(name)
            found[id(parameter)] = parameter
    return list(found.values())


def set_aside(stages: Mapping[int, _PipelineStageBase]) -> dict[str, list[Any]]:
    """Take the gradients of shared parameters away, so that only those of this step are summed. Return them."""
    kept = {}
    for name, where in _of_stages(stages).items():
        copies = _copies(stages, name, where)
        kept[name] = [one.grad for one in copies]
        for one in copies:
            one.grad = None
    return kept


def reduce_shared(stages: Mapping[int, _PipelineStageBase], kept: dict[str, list[Any]], rank_of: Mapping[int, int]) -> None:
    """Sum the gradients of shared parameters over their stages, and add those that were set aside."""
    for name, where in sorted(_of_stages(stages).items()):
        copies = _copies(stages, name, where)
        if not copies or not any(one.requires_grad for one in copies):
            continue
        ranks = sorted({rank_of[index] for index in where})
        with mt.no_grad():
            parts = [one.grad for one in copies if one.grad is not None]
            total = parts[0].clone() if parts else mt.zeros_like(copies[0])
            for part in parts[1:]:
                total += part.to(total.device)
            if len(ranks) > 1:
                stage = next(stages[index] for index in where if index in stages)
                # Ranks with the same place in all other dimensions of a mesh have the same part of a distributed tensor.
                all_reduce(total.to_local() if isinstance(total, DTensor) else total, group=_group(stage, tuple(ranks)))
            for one, before in zip(copies, kept.get(name) or [None] * len(copies)):
                mine = total.to(one.device)
                one.grad = mine.clone() if before is None else before + mine


def _group(stage: _PipelineStageBase, ranks: tuple[int, ...]) -> Any:
    """Return the group of some ranks of the pipeline."""
    if len(ranks) == stage.group.size():
        return stage.group
    found = stage.groups.get(ranks)
    if found is None:
        found = stage.groups[ranks] = create_group(tuple(stage.group.ranks[rank] for rank in ranks), group_desc="shared_parameters")
    return found
