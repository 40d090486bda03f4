"""A layout as the settings of other systems: torchtitan, Megatron-LM, accelerate and DeepSpeed."""

from __future__ import annotations

import json
from collections.abc import Callable

from metatensor.plan.layouts import Layout

__all__ = ["FORMATS", "export"]


def export(layout: Layout, name: str) -> str:
    """Return the settings for a system.

    Parameters
    ----------
    layout : Layout
        The layout.
    name : str
        One of `FORMATS`.

    Raises
    ------
    ValueError
        If the name is unknown, or the system has no setting for a part of the layout.
    """
    if name not in FORMATS:
        raise ValueError(f"export: {name!r} is unknown; choose from {', '.join(FORMATS)}")
    return FORMATS[name](layout, layout.degrees.precision)


def _torchtitan(layout: Layout, precision: str) -> str:
    d = layout.degrees
    if d.shard == 1:
        raise ValueError("export: torchtitan does not divide the optimizer's state alone; choose a layout with shard 0, 2 or 3")
    if d.tensor > 1 and not d.sequence:
        raise ValueError("export: torchtitan divides the sequence wherever it uses tensor parallelism; choose a layout with sequence")
    _equal(layout, "torchtitan")
    _settable(layout, "torchtitan", "what the host holds")
    if d.pipeline > 1 and d.schedule == "InterleavedZeroBubble" and d.virtual_stages == 1:
        raise ValueError("export: torchtitan's InterleavedZeroBubble needs several stages of a rank; choose a layout with virtual stages")
    local = d.micro_batch * (layout.micro_batches if d.pipeline > 1 else 1)
    lines = ["[training]", f"local_batch_size = {local}", f"global_batch_size = {layout.samples}"]
    if precision.endswith("-master"):
        lines += [f'mixed_precision_param = "{_half(precision)}"', 'mixed_precision_reduce = "float32"']
    else:
        lines.append(f'dtype = "{_half(precision)}"')
    lines += ["", "[parallelism]", f"data_parallel_replicate_degree = {1 if d.shard else d.data}",
              f"data_parallel_shard_degree = {d.data if d.shard else 1}", f"tensor_parallel_degree = {d.tensor}",
              f"pipeline_parallel_degree = {d.pipeline}", f"context_parallel_degree = {d.context}",
              f"expert_parallel_degree = {d.expert}"]  # fmt: skip
    if d.shard:
        lines.append(f'fsdp_reshard_after_forward = "{"always" if d.shard == 3 else "never"}"')
    if d.pipeline > 1:
        lines += [f'pipeline_parallel_schedule = "{d.schedule}"', f"pipeline_parallel_microbatch_size = {d.micro_batch}"]
        if d.virtual_stages > 1:
            lines.append(f"pipeline_parallel_layers_per_stage = {len(layout.stages[0])}")
        if d.shard > 1:
            lines.append("# gradients are summed at the last micro-batch only, and are whole until then; the plan divides them earlier")
    lines += ["", "[activation_checkpoint]", f'mode = "{d.recompute}"']
    if d.recompute == "selective":
        lines.append('selective_ac_option = "op"  # keeps half of the matrix products; the plan keeps all')
    return "\n".join(lines) + "\n"


def _megatron(layout: Layout, precision: str) -> str:
    d = layout.degrees
    _equal(layout, "Megatron-LM")
    if d.pipeline > 1 and d.schedule not in ("1F1B", "Interleaved1F1B"):
        raise ValueError(f"export: Megatron-LM has no schedule {d.schedule}; search with schedules=['1F1B', 'Interleaved1F1B']")
    if d.pipeline > 1 and d.shard > 1:
        raise ValueError("export: Megatron-LM's FSDP has no setting with pipeline parallelism; choose a layout with shard 0 or 1")
    _settable(layout, "Megatron-LM", "the memory of the host as it is planned")
    words = [f"--tensor-model-parallel-size {d.tensor}", f"--pipeline-model-parallel-size {d.pipeline}",
             f"--micro-batch-size {d.micro_batch}", f"--global-batch-size {layout.samples}"]  # fmt: skip
    if d.context > 1:
        words.append(f"--context-parallel-size {d.context}")
    if d.expert > 1:
        words.append(f"--expert-model-parallel-size {d.expert}")
    if d.virtual_stages > 1:
        words.append(f"--num-layers-per-virtual-pipeline-stage {len(layout.stages[0])}")
    if d.sequence:
        words.append("--sequence-parallel")
    if d.shard == 1:
        words.append("--use-distributed-optimizer")
    elif d.shard:
        words += ["--use-megatron-fsdp", f"--data-parallel-sharding-strategy {'optim_grads' if d.shard == 2 else 'optim_grads_params'}"]
    if precision.startswith(("bf16", "fp16")):
        words.append(f"--{precision[:4]}")
    if d.recompute == "full":
        words += ["--recompute-granularity full", "--recompute-method uniform", "--recompute-num-layers 1"]
    elif d.recompute == "selective":
        raise ValueError("export: Megatron-LM's selective recomputation recomputes attention, not everything except products; choose a "
                         "layout with recompute none or full")  # fmt: skip
    return f"# {d.devices} devices\nLAYOUT_ARGS=(\n" + "".join(f"    {word}\n" for word in words) + ")\n"


def _accelerate(layout: Layout, precision: str) -> str:
    d = layout.degrees
    _data_alone(layout, "accelerate.yaml")
    _settable(layout, "accelerate.yaml", "what the host holds")
    mixed = "no" if precision == "fp32" else precision[:4]
    lines = [f"num_processes: {d.devices}", f"mixed_precision: '{mixed}'", f"gradient_accumulation_steps: {layout.micro_batches}"]
    if d.shard == 0:
        return "\n".join([f"distributed_type: {'MULTI_GPU' if d.devices > 1 else 'NO'}", *lines]) + "\n"
    if d.shard == 1:
        raise ValueError("export: accelerate's FSDP does not divide the optimizer's state alone; choose a layout with shard 0, 2 or 3")
    if d.recompute == "selective":
        raise ValueError("export: accelerate's FSDP recomputes whole layers; choose a layout with recompute none or full")
    return "\n".join(["distributed_type: FSDP", *lines, "fsdp_config:", "  fsdp_version: 2",
                      "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP",
                      f"  fsdp_reshard_after_forward: {'true' if d.shard == 3 else 'false'}",
                      f"  fsdp_activation_checkpointing: {'true' if d.recompute == 'full' else 'false'}"]) + "\n"  # fmt: skip


def _deepspeed(layout: Layout, precision: str) -> str:
    d = layout.degrees
    _data_alone(layout, "deepspeed.json")
    if d.offloads("activations"):
        raise ValueError("export: deepspeed.json has no setting for activations in the host's memory; choose a layout without")
    settings = {
        "train_batch_size": layout.samples, "train_micro_batch_size_per_gpu": d.micro_batch,
        "gradient_accumulation_steps": layout.micro_batches,
        "zero_optimization": {"stage": d.shard, "overlap_comm": True, "contiguous_gradients": True,
                              **({"offload_optimizer": {"device": "cpu"}} if d.offloads("optimizer") else {})},
        **({precision[:4]: {"enabled": True}} if precision != "fp32" else {}),
    }  # fmt: skip
    return json.dumps(settings, indent=2) + "\n"


def _half(precision: str) -> str:
    return {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}[precision[:4]]


def _equal(layout: Layout, system: str) -> None:
    counts = [len(stage) for stage in layout.stages]
    if len(set(counts)) > 1:
        raise ValueError(f"export: {system} divides layers equally, the stages have {', '.join(map(str, counts))}; search with "
                         "stages='equal'")  # fmt: skip


def _settable(layout: Layout, system: str, what: str) -> None:
    if layout.degrees.offload != "none":
        raise ValueError(f"export: {system} has no setting for {what}; choose a layout without offload")


def _data_alone(layout: Layout, system: str) -> None:
    d = layout.degrees
    if d.tensor > 1 or d.pipeline > 1:
        raise ValueError(f"export: {system} has no setting for tensor or pipeline parallelism; choose a layout without")
    if d.context > 1 or d.expert > 1:
        raise ValueError(f"export: {system} has no setting for context or expert parallelism; choose a layout without")


FORMATS: dict[str, Callable[[Layout, str], str]] = {
    "torchtitan.toml": _torchtitan, "megatron.sh": _megatron, "accelerate.yaml": _accelerate, "deepspeed.json": _deepspeed,
}  # fmt: skip
"""The systems by the name of their file."""
