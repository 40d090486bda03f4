"""Compare the plans that `mt.plan.search` finds with those that people make.

``python -m benchmarks.plans [MODEL ...] [--devices 8,64,512]``

Each hand-made plan names its degrees and sharding as in the publication given, adapted to the number of devices. It is costed by a search
that is restricted to it, and gets the fastest recomputation and micro-batch that fit, also micro-batches that the free search does not try,
such as all samples of a rank at once. The exit status is 1 if a hand-made plan is predicted more than 2% faster than the one found.
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from typing import Any, NamedTuple

import metatensor as mt
from benchmarks.plan_models import MODELS, Planned
from metatensor.plan import Degrees, Layout, TrainingPlan

LIMIT = 0.02
"""By how much a hand-made plan may be faster."""


class Hand(NamedTuple):
    """A hand-made plan."""

    source: str
    degrees: Degrees
    """Its micro-batch and recomputation are chosen by the search that costs it."""


def fitted(source: str, devices: int, tensor: int = 1, pipeline: int = 1, context: int = 1, expert: int = 1, **rest: Any) -> Hand:
    """Return a plan with no more than these degrees on a number of devices."""
    tensor = min(tensor, 8, devices)
    pipeline = min(pipeline, devices // tensor)
    context = min(context, devices // tensor // pipeline)
    data = devices // (tensor * pipeline * context)
    if data * context == 1:
        rest["shard"] = 0
    if pipeline == 1:
        rest = {key: value for key, value in rest.items() if key not in ("schedule", "virtual_stages")}
    return Hand(source, Degrees(data, tensor, pipeline, context=context, expert=min(expert, data * context), sequence=tensor > 1, **rest))


TORCHTITAN, MEGATRON, ZERO = "torchtitan (Liang et al. 2024)", "Megatron-LM (Narayanan et al. 2021)", "ZeRO (Rajbhandari et al. 2020)"


def hand_made(name: str, n: int) -> list[Hand]:
    """Return the hand-made plans of a model on ``n`` devices, without repetitions."""
    general = [fitted("data parallelism", n), fitted(f"{ZERO}, stage 1", n, shard=1), fitted("FSDP (Zhao et al. 2023)", n, shard=3)]
    if name.startswith("Llama-3"):
        stages = {"8B": 2, "70B": 4, "405B": 16}[name.split()[1]]
        found = [
            fitted(f"{TORCHTITAN}: FSDP", n, shard=3),
            fitted(f"{TORCHTITAN}: FSDP and TP", n, tensor=8, shard=3),
            fitted(f"{TORCHTITAN}: 3D", n, tensor=8, pipeline=stages, shard=3, schedule="Interleaved1F1B", virtual_stages=2),
            fitted(f"{MEGATRON}", n, tensor=4 if stages < 16 else 8, pipeline=stages, shard=1),
            fitted(f"{MEGATRON}, interleaved", n, tensor=8, pipeline=stages, shard=1, schedule="Interleaved1F1B", virtual_stages=4),
            fitted("Llama 3 (2024): TP 8, PP 16, FSDP", n, tensor=8, pipeline=16, shard=2, schedule="Interleaved1F1B", virtual_stages=2),
            fitted("own: CP 2 and FSDP", n, context=2, shard=3),
        ]  # fmt: skip
    elif name == "DeepSeek-V3":
        found = [
            fitted("DeepSeek-V3 (2024): PP 16, EP 64, ZeRO-1", n, pipeline=16, expert=64, shard=1),
            fitted("own: PP 16, EP 64 and ZBV", n, pipeline=16, expert=64, shard=1, schedule="ZBVZeroBubble", virtual_stages=2),
            fitted("own: EP 64 and FSDP", n, expert=64, shard=3),
            fitted("own: TP 8, PP 8, EP 8", n, tensor=8, pipeline=8, expert=8, shard=1),
        ]  # fmt: skip
    elif name.startswith("Mixtral"):
        found = [
            fitted("Megatron Core (2024): TP 2, PP 4, EP 8", n, tensor=2, pipeline=4, expert=8, shard=1),
            fitted("Mixtral (2024): EP 8, with ZeRO-1", n, expert=8, shard=1),
            fitted("own: EP 8 and FSDP", n, expert=8, shard=3),
            fitted("own: EP 8 and TP 4", n, expert=8, tensor=4, shard=1), *general[2:],
        ]  # fmt: skip
    elif name == "DLRM":
        found = [
            fitted("DLRM (Naumov et al. 2019): embeddings divided", n, tensor=8),
            fitted("own: embeddings divided, ZeRO-1", n, tensor=8, shard=1), *general,
        ]  # fmt: skip
    elif name == "Wide ResNet":
        found = [*general, fitted(f"{ZERO}, stage 2", n, shard=2), fitted("Alpa (Zheng et al. 2022): divided operators", n, tensor=4)]
    else:
        found = [*general, fitted(f"{ZERO}, stage 2", n, shard=2), fitted("own: TP 2", n, tensor=2, shard=1),
                 fitted("own: PP 2", n, pipeline=2, shard=1)]  # fmt: skip
    return list({one.degrees: one for one in reversed(found)}.values())[::-1]


def micro_batches(batch: int, data: int) -> list[int]:
    """Return powers of two and all samples of a rank, or quarters, thirds and halves of them."""
    local = batch // data
    found = {1, 2, 4, 8, 16, 32, 64, *(local // part for part in (1, 2, 3, 4))}
    return sorted(n for n in found if n and not local % n)


def cost(planned: Planned, n: int, hand: Hand, settings: dict[str, Any]) -> TrainingPlan:
    """Return the search that is restricted to a hand-made plan."""
    d = hand.degrees
    model, inputs = made(planned)
    return mt.plan.search(
        model, *inputs, devices=f"{n}xH100", global_batch=planned.batch[n], loss=planned.loss, tensor=[d.tensor], pipeline=[d.pipeline],
        shard=[d.shard], sequence=[d.sequence], context=[d.context], expert=[d.expert], schedules=[d.schedule],
        virtual_stages=[d.virtual_stages], micro_batches=micro_batches(planned.batch[n], d.data), keep=1, **settings,
    )  # fmt: skip


def made(planned: Planned) -> tuple[Any, tuple[Any, ...]]:
    """Return the model and its inputs, on meta."""
    with mt.device("meta"):
        return planned.made(), planned.inputs()


def described(layout: Layout) -> str:
    """Return the figures of a layout as cells of a table."""
    return f"{layout.degrees} | {layout.seconds:.4g} | {layout.mfu:.1%} | {layout.peak / 2**30:.1f}"


def compare(planned: Planned, n: int, verbose: bool = False, **settings: Any) -> tuple[str, float | None]:
    """Return a row of the table, and the seconds of the fastest hand-made plan in parts of those of the plan found, if there is one."""
    start = time.process_time()
    model, inputs = made(planned)
    plan = mt.plan.search(model, *inputs, devices=f"{n}xH100", global_batch=planned.batch[n], loss=planned.loss, **settings)
    taken = time.process_time() - start
    hands = hand_made(planned.name, n)
    costed = [(hand, cost(planned, n, hand, settings)) for hand in hands]
    fits = sorted(((found.best, hand) for hand, found in costed if found.fits), key=lambda one: one[0].seconds)
    if verbose:
        for hand, found in costed:
            print(f"    {hand.source}: {described(found.best) if found.fits else 'does not fit: ' + found.advice()}", file=sys.stderr)
    best = described(plan.best) if plan.fits else "none fits | | |"
    ratio = None
    text = f"none of {len(hands)} fits | | "
    if fits:
        layout, hand = fits[0]
        ratio = layout.seconds / plan.best.seconds if plan.fits else 0.0
        text = f"{hand.source}; {len(fits)} of {len(hands)} fit | {layout.seconds:.4g} | {ratio - 1:+.1%}"
    return f"| {planned.name} | {n} | {best} | {text} | {taken:.0f} |", ratio


def main() -> int:
    """Print the table."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="names or parts of them (default: all)")
    parser.add_argument("--devices", default="8,64,512", help="numbers of H100 devices (default: 8,64,512)")
    parser.add_argument("--verbose", action="store_true", help="print all hand-made plans to stderr")
    args = parser.parse_args()
    chosen = [one for one in MODELS if not args.models or any(name.lower() in one.name.lower() for name in args.models)]
    if not chosen:
        parser.error(f"there are {', '.join(one.name for one in MODELS)}")
    print("| model | H100 | best plan | s | MFU | GiB | fastest hand-made plan that fits | s | against the best | search, processor s |")
    print("|---|--:|---|--:|--:|--:|---|--:|--:|--:|")
    bad = 0
    for planned in chosen:
        for n in map(int, args.devices.split(",")):
            row, ratio = compare(planned, n, args.verbose)
            bad += ratio is not None and ratio < 1 / (1 + LIMIT)
            print(row, flush=True)
    print(f"\n{bad} hand-made plans are more than {LIMIT:.0%} faster than the best one found")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
