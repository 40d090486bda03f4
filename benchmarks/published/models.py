"""Measure models of libraries on meta, whose costs were recorded with PyTorch's meta device, and keep both figures.

    python -m benchmarks.published.models [torchvision timm transformers diffusers]

Needs the libraries and no PyTorch: metatensor takes its place. The results go to ``benchmarks/data/measured_models.json``, which
the page on accuracy is made from.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import operator
import os
import random
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .compare import DATA

__all__ = ["FIGURES", "RESULTS", "recorded"]

FIGURES = ("infer_peak", "forward_peak", "saved", "backward_peak", "adamw_peak", "adamw_foreach_peak", "train_forward_flops", "train_flops")
RESULTS = DATA / "measured_models.json"


def recorded() -> dict[str, Any]:
    """Return PyTorch's figures by library and model, with descriptions of the inputs."""
    found = json.loads((DATA / "recorded_models.json").read_text())
    found.pop("source")
    return found  # type: ignore[no-any-return]


def _loss(torch: Any, output: Any) -> Any:
    """Return the sum of the means of all floating-point tensors in the output that require grad, counting each once."""
    from metatensor._core.nested import tensors_in

    seen: dict[int, Any] = {}
    for t in tensors_in(output):
        if isinstance(t, torch.Tensor) and t.requires_grad and t.is_floating_point():
            seen.setdefault(id(t), t)
    return functools.reduce(operator.add, (t.float().mean() for t in seen.values()))


def _measured(model: Any, record: dict[str, Any], tools: Any) -> dict[str, int]:
    """Return the figures of a model."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from metatensor.analysis import MemoryTracker, estimate

    args = [tools.make(spec) for spec in record["inputs"].get("args", [])]
    kwargs = {key: tools.make(spec) for key, spec in record["inputs"].get("kwargs", {}).items()}
    made = {"estimate_peak": estimate(model, *args, **kwargs).peak.bytes}  # as `metatensor estimate` reports it
    model.train()  # some models then forget what they cached
    model.eval()
    with torch.no_grad(), MemoryTracker() as memory:
        output = model(*args, **kwargs)
        made["infer_peak"] = memory.peak
        del output
    model.train()
    with MemoryTracker() as memory:
        output = model(*args, **kwargs)
        loss = _loss(torch, output)
        del output
        made["forward_peak"], made["saved"] = memory.peak, memory.current
        memory.reset_peak()
        loss.backward()
        made["backward_peak"] = memory.peak
        del loss
    parameters = [p for p in model.parameters() if p.grad is not None]
    for name, foreach in (("adamw_peak", False), ("adamw_foreach_peak", True)):
        with MemoryTracker() as memory:
            optimizer = torch.optim.AdamW(parameters, lr=1e-3, foreach=foreach)
            optimizer.step()
            made[name] = memory.peak
            del optimizer
    for p in parameters:
        p.grad = None
    with FlopCounterMode(display=False) as flops:
        loss = _loss(torch, model(*args, **kwargs))
        made["train_forward_flops"] = flops.get_total_flops()
        loss.backward()
        made["train_flops"] = flops.get_total_flops()
    return made


def _results(library: str, tools: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    import torch

    build = getattr(tools, f"build_{library}")
    for name, record in recorded()[library].items():
        random.seed(0)  # some models drop layers at random
        torch.manual_seed(0)
        try:
            with torch.device("meta"):
                model = build(name)
            yield name, _measured(model.to("meta"), record, tools)
        except Exception as error:
            yield name, {"error": f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"}


def main(libraries: list[str]) -> None:
    """Measure all models of some libraries."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "DIFFUSERS_VERBOSITY": "error"}
    warnings.filterwarnings("ignore")
    from metatensor import torch_api

    torch_api.install()
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "libraries"))
    tools = importlib.import_module("measure")
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for library in libraries:
        with contextlib.redirect_stdout(sys.stderr):
            results[library] = dict(_results(library, tools))
        wrong = {name: found["error"] for name, found in results[library].items() if "error" in found}
        print(f"{library}: {len(results[library])} models, {len(wrong)} failed", *wrong.items(), sep="\n  ")
    lines = []
    for library, models in results.items():
        cases = (f" {json.dumps(name)}: {json.dumps(found)}" for name, found in models.items())
        lines.append(f"{json.dumps(library)}: {{\n" + ",\n".join(cases) + "\n}")
    RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:] or list(recorded()))
