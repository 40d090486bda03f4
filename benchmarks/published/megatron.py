"""The published runs of Megatron-LM and SimuMax as layouts of one rank, or the reason why a run cannot be predicted from one rank."""

from __future__ import annotations

from typing import Any

from metatensor.analysis.workspaces import workspaces

from .rank import Layout

__all__ = ["GPT2_WORDS", "layout_of_paper", "layout_of_simumax", "layout_of_test", "workspaces_of_test"]

GPT2_WORDS = 50257
"""Words of GPT-2's vocabulary (its published tokenizer)."""

OUT_OF_REACH = {
    "multi-latent-attention": "multi-latent attention is not modelled here",
    "use-megatron-fsdp": "fully sharded parameters are gathered from other ranks layer by layer",
    "fp8-format": "the copies that fp8 training keeps are not stated",
    "hybrid-layer-pattern": "state-space layers are not modelled here",
    "hybrid-override-pattern": "state-space layers are not modelled here",
    "is-hybrid-model": "state-space layers are not modelled here",
    "moe-layer-freq": "layers of several kinds are not modelled here",
    "mtp-num-layers": "layers of several kinds are not modelled here",
    "fine-grained-activation-offloading": "activations move to the host",
    "cuda-graph-impl": "the run captures graphs for inference",
    "num-virtual-stages-per-pipeline-rank": "layers of several kinds are not modelled here",
}
"""Options, and why a row with one of them cannot be predicted here."""


def layout_of_test(case: str, platform: str, config: dict[str, Any]) -> Layout | str:
    """Return the layout of one rank in a functional test of Megatron-LM, or why it is out of reach."""
    kind, _, name = case.partition("/")
    if kind == "bert":
        return "the size of the vocabulary is not stated"
    if kind == "t5":
        return "encoder-decoders are not modelled here"
    if kind not in ("gpt", "moe"):
        hybrid = kind in ("hybrid", "nemotron")
        return "state-space layers are not modelled here" if hybrid else "mixtures of modalities or released settings"
    for option, reason in OUT_OF_REACH.items():
        if config.get(option):
            return reason
    if config.get("vocab-file") != "gpt2 bpe":
        return "the size of the vocabulary is not stated"
    if config.get("optimizer", "adam") != "adam":
        return "the states of this optimizer are not stated"
    if "distill" in name:
        return "a second model teaches the first"
    if "multi_dist_optimizer_instances" in name:
        return "the number of instances of the distributed optimizer is not stated"
    if "uneven" in name:
        return "the number of layers of each stage is not stated"
    tensor, pipeline = config.get("tensor-model-parallel-size", 1), config.get("pipeline-model-parallel-size", 1)
    per_piece = config.get("num-layers-per-virtual-pipeline-stage")
    layers, hidden = config["num-layers"], config["hidden-size"]
    activation = "swiglu" if config.get("swiglu") else "squared relu" if config.get("squared-relu") else "gelu"
    default_ffn = hidden * 4 * 2 // 3 // 64 * 64 if activation == "swiglu" else hidden * 4
    multiple = config.get("make-vocab-size-divisible-by", 128) * tensor
    attention = config.get("attention-backend", "auto")
    return Layout(
        layers=layers, hidden=hidden, heads=config["num-attention-heads"], ffn=config.get("ffn-hidden-size", default_ffn),
        vocabulary=-(-GPT2_WORDS // multiple) * multiple, sequence=config["seq-length"], micro_batch=config["micro-batch-size"],
        groups=config.get("num-query-groups", 0), head_width=config.get("kv-channels", 0), tensor=tensor, pipeline=pipeline,
        context=config.get("context-parallel-size", 1), sequence_parallel=bool(config.get("sequence-parallel")) and tensor > 1,
        virtual=layers // pipeline // per_piece if per_piece else 1, gpus=4 if "1node" in name and "gb200" in platform else 8,
        activation=activation, norm="rms" if config.get("normalization") == "RMSNorm" else "layer",
        bias=not config.get("disable-bias-linear"), positions=config.get("position-embedding-type", "learned"),
        tied=not config.get("untie-embeddings-and-output-weights"),
        fused=attention not in ("unfused", "local") and config.get("transformer-impl") != "local",
        dropout=config.get("hidden-dropout", 0.1), recompute=config.get("recompute-granularity", ""),
        distributed_optimizer=bool(config.get("use-distributed-optimizer")),
        accumulated=not config.get("no-gradient-accumulation-fusion"),
        loss="compiled" if config.get("cross-entropy-loss-fusion") else "in place", experts=config.get("num-experts", 0),
        expert_ffn=config.get("moe-ffn-hidden-size", 0), shared_ffn=config.get("moe-shared-expert-intermediate-size", 0),
        expert=config.get("expert-model-parallel-size", 1), expert_tensor=config.get("expert-tensor-parallel-size", 0),
    )  # fmt: skip


def workspaces_of_test(case: str, platform: str, config: dict[str, Any]) -> int:
    """Return the bytes of the workspaces that PyTorch and Transformer Engine document for a functional test.

    The tests that must be deterministic set ``CUBLAS_WORKSPACE_CONFIG=:4096:8``; those with flash attention and those that change the
    layout of a checkpoint do not (``ENV_VARS`` in their files). Platforms that are not named are A100.
    """
    device = "gb200" if "gb200" in platform else "h100" if "h100" in platform else "a100-sxm-80gb"
    free = config.get("attention-backend") == "flash" or "reshard" in case
    engine = config.get("transformer-impl", "local") == "transformer_engine" or "_te_" in case
    return workspaces(device, setting=None if free else ":4096:8", transformer_engine=engine,
                      grouped=bool(config.get("moe-grouped-gemm"))).total  # fmt: skip


def layout_of_simumax(row: dict[str, Any], model: dict[str, Any]) -> Layout | str:
    """Return the layout of one rank in a run on eight B200, or why it is out of reach."""
    if model["model_type"] != "dense":
        return "experts behind a router, and multi-latent attention"
    return Layout(
        layers=row["layers"], hidden=model["hidden_size"], heads=model["head_num"], groups=model["kv_head_num"],
        head_width=model["head_size"], ffn=model["intermediate_size"], vocabulary=model["vocab_size"], sequence=row["sequence"],
        micro_batch=1, tensor=row["tp"], pipeline=row["pp"], context=row["cp"], sequence_parallel=row["tp"] > 1, activation="swiglu",
        norm="rms", bias=False, positions="rope", tied=False, dropout=0.0, distributed_optimizer=True, loss="engine",
    )  # fmt: skip


def layout_of_paper(row: dict[str, Any], recompute: str, sequence_parallel: bool) -> Layout:
    """Return the layout of one rank in a run of arXiv:2205.05198, whose attention has materialized scores."""
    return Layout(
        layers=row["layers"], hidden=row["hidden"], heads=row["heads"], ffn=4 * row["hidden"], vocabulary=row["vocab"],
        sequence=row["sequence"], micro_batch=row["micro_batch"], tensor=row["tensor_parallel"], pipeline=row["pipeline_parallel"],
        virtual=row["interleaving"], gpus=row["gpus"], sequence_parallel=sequence_parallel, fused=False, recompute=recompute,
    )  # fmt: skip
