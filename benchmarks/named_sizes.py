"""Trace models of libraries with named sizes, and compare the programs with fresh traces at ten sizes that were not used.

    python -m benchmarks.named_sizes LIBRARY [--models 50] [--names NAME ...] [--limit SECONDS] [--json FILE]

The models are those recorded in tests/libraries and, for timm, a random choice of the others. The batch and the side of the image (or the
length of the sequence) have names. The interpreter must have the library, and no PyTorch.

A model counts as equal if at each of ten sizes at which a fresh trace works, every number (shapes, strides, offsets, sizes
among arguments, releases) and every call of the program equals that of the fresh trace.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parent.parent / "tests" / "libraries"
BATCH, SEQUENCE = (1, 32), (1, 300)


class Late(BaseException):
    """A model took too long. It is no `Exception`, which a trace takes for one of the model's."""


def _recorded() -> Any:
    spec = importlib.util.spec_from_file_location("libraries_measure", RECORDED / "measure.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def inputs_of(recorded: Any, record: dict[str, Any]) -> tuple[dict[str, Any], dict[Any, Any], dict[str, Any]]:
    """Return the arguments of a record by name or position, which of their dimensions have names, and the ranges."""
    specs = {**dict(enumerate(record["inputs"].get("args", []))), **record["inputs"].get("kwargs", {})}
    sequence = specs.get("input_ids", {}).get("t", [0, 0])[1]
    given, dims, sizes = {}, {}, {"batch": BATCH}
    for key, spec in specs.items():
        shape = list(spec.get("t", ()))
        given[key] = spec
        if not shape:
            continue
        named: list[Any] = [None] * len(shape)
        if shape[0] == 1:
            shape[0], named[0] = 2, "batch"
        if sequence:
            for dim in range(1, len(shape)):
                if shape[dim] == sequence:
                    named[dim] = "seq"
                    sizes["seq"] = SEQUENCE
        if len(shape) == 4 and shape[2] == shape[3] >= 32 and shape[1] in (1, 3):
            named[2:] = ["image", "image"]
            side = shape[3]
            sizes["image"] = range(side % 32 + 32 * max(side // 64, 1), 2 * side + 1, 32)
        if key == "input_values":
            named[1], sizes["samples"] = "samples", (8000, 32000)
        given[key], dims[key] = {**spec, "t": shape}, named
    return given, dims, sizes


def measured(model: Any, recorded: Any, record: dict[str, Any]) -> dict[str, Any]:
    """Trace a model with named sizes, and compare at ten others."""
    import metatensor as mt
    from metatensor.program.sizes.numbers import first_difference, taken

    specs, dims, sizes = inputs_of(recorded, record)

    def arguments() -> tuple[list[Any], dict[str, Any]]:
        made = {key: recorded.make(spec) for key, spec in specs.items()}
        return [v for k, v in made.items() if isinstance(k, int)], {k: v for k, v in made.items() if not isinstance(k, int)}

    args, kwargs = arguments()
    with mt.no_grad():
        mt.program.trace(model, *args, **kwargs)
        start = time.perf_counter()
        mt.program.trace(model, *args, **kwargs)
        once = time.perf_counter() - start
        start = time.perf_counter()
        program: Any = mt.program.trace(model, *args, **kwargs, sizes=sizes, dims=dims)
        seconds = time.perf_counter() - start
        used = {tuple(p.values()) for piece in program.pieces for p in piece.points}
        facts = {"seconds": seconds, "trace_seconds": once, "calls": len(program), "captures": len(used), "pieces": len(program.pieces),
                 "conditions": program.conditions()[:8], "sizes": list(sizes)}  # fmt: skip
        choose = random.Random(1)
        equal = tried = 0
        differences: list[str] = []
        ranges = program.sizes
        while equal + len(differences) < 10 and tried < 60:
            tried += 1
            at = {name: choose.choice(values) for name, values in ranges.items()}
            if tried % 2 and "image" in at:  # many models have one size of images
                at["image"] = next(spec["t"][3] for spec in specs.values() if len(spec.get("t", ())) == 4)
            if tuple(at.values()) in used:
                continue
            used.add(tuple(at.values()))
            moved = {}
            for key, spec in specs.items():
                names = dims.get(key)
                moved[key] = {**spec, "t": [n if name is None else at[name] for n, name in zip(spec["t"], names)]} if names else spec
            made = {key: recorded.make(spec) for key, spec in moved.items()}
            try:
                fresh = taken(mt.program.trace(model, *[v for k, v in made.items() if isinstance(k, int)],
                                               **{k: v for k, v in made.items() if not isinstance(k, int)}))  # fmt: skip
            except Exception as error:
                fresh = error
            try:
                known = taken(program.at(**at))
            except ValueError as error:
                known = error
            if isinstance(fresh, Exception):
                if not isinstance(known, Exception):
                    differences.append(f"{at}: a fresh trace raises {type(fresh).__name__}: {fresh}"[:200])
            elif isinstance(known, Exception):
                differences.append(f"{at}: {known}"[:300])
            elif not known.same_calls(fresh):
                differences.append(f"{at}: other calls: {first_difference(known, fresh)}"[:300])
            elif known.numbers != fresh.numbers:
                differences.append(f"{at}: {sum(a != b for a, b in zip(known.numbers, fresh.numbers))} numbers differ")
            else:
                equal += 1
    return {**facts, "equal": equal, "different": differences}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("library", choices=["timm", "torchvision", "transformers", "diffusers"])
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--more", type=int, default=0, help="further models of timm, chosen at random")
    parser.add_argument("--names", nargs="*")
    parser.add_argument("--limit", type=int, default=60, help="seconds for a model")
    parser.add_argument("--json")
    options = parser.parse_args()
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "DIFFUSERS_VERBOSITY": "error"}
    warnings.filterwarnings("ignore")
    from metatensor import torch_api

    torch_api.install()
    import torch

    recorded = _recorded()
    facts = json.loads((RECORDED / "facts.json").read_text())[options.library]
    cases = dict(list(facts.items())[: options.models])
    if options.more:
        import timm

        others = sorted(set(timm.list_models()) - set(facts))
        for name in random.Random(0).sample(others, options.more):
            side = timm.get_pretrained_cfg(name).input_size[-1] if timm.get_pretrained_cfg(name) else 224
            cases[name] = {"inputs": {"args": [{"t": [1, 3, side, side]}]}}
    if options.names:
        cases = {name: record for name, record in cases.items() if name in options.names}

    def late(*_: Any) -> None:
        raise Late(f"more than {options.limit} s")

    signal.signal(signal.SIGALRM, late)
    results = {}
    for name, record in cases.items():
        try:
            signal.alarm(options.limit)
            with torch.device("meta"):
                model = getattr(recorded, f"build_{options.library}")(name)
            results[name] = measured(model.to("meta").eval(), recorded, record)
        except (Exception, Late) as error:
            results[name] = {"error": f"{type(error).__name__}: {error}"[:400]}
        finally:
            signal.alarm(0)
        one = results[name]
        print(name, one.get("error") or f"{one['equal']}/{one['equal'] + len(one['different'])} equal, {one['pieces']} pieces, "
              f"{one['seconds']:.2f} s, once {one['trace_seconds'] * 1e3:.0f} ms {one['different'][:1]}", flush=True)  # fmt: skip
        if options.json:
            Path(options.json).write_text(json.dumps(results, indent=1))
    whole = [r for r in results.values() if r.get("equal", 0) >= 10 and not r["different"]]
    times = sorted(r["seconds"] for r in results.values() if "seconds" in r)
    median = times[len(times) // 2] if times else 0
    print(f"{len(whole)} of {len(results)} models equal at ten sizes; median {median:.2f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
