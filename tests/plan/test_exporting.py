"""Layouts as settings of other systems."""

import json
import sys

import pytest

from plan.test_search import search

if sys.version_info >= (3, 11):
    import tomllib


@pytest.fixture(scope="module")
def plans():
    """A plan for each level of sharding, and one with tensor and pipeline parallelism."""
    one = {"tensor": [1], "pipeline": [1], "micro_batches": [2], "recompute": ["none"]}
    found = {shard: search(shard=[shard], **one) for shard in range(4)}
    found["full"] = search(**{**one, "shard": [3], "recompute": ["full"]})
    found["selective"] = search(**{**one, "shard": [0], "recompute": ["selective"]})
    found["both"] = search(tensor=[2], pipeline=[2], shard=[1], micro_batches=[1], recompute=["full"], sequence=[True])
    found["dp"] = search(tensor=[2], pipeline=[2], shard=[0], micro_batches=[1], recompute=["full"], sequence=[True])
    return found


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 11), reason="needs tomllib")
def test_torchtitan(plans):
    found = tomllib.loads(plans["full"].export("torchtitan.toml"))
    assert found["parallelism"]["data_parallel_shard_degree"] == 8 and found["parallelism"]["fsdp_reshard_after_forward"] == "always"
    assert found["training"]["local_batch_size"] == 2 and found["training"]["global_batch_size"] == 64
    assert found["training"]["mixed_precision_param"] == "bfloat16" and found["activation_checkpoint"]["mode"] == "full"
    found = tomllib.loads(plans["dp"].export("torchtitan.toml"))
    assert found["parallelism"]["data_parallel_replicate_degree"] == 2 and found["parallelism"]["pipeline_parallel_degree"] == 2
    assert found["training"]["local_batch_size"] == 32 and found["parallelism"]["pipeline_parallel_microbatch_size"] == 1
    assert tomllib.loads(plans["selective"].export("torchtitan.toml"))["activation_checkpoint"]["selective_ac_option"] == "op"


def test_megatron(plans):
    text = plans["both"].export("megatron.sh")
    for word in ("--tensor-model-parallel-size 2", "--pipeline-model-parallel-size 2", "--sequence-parallel", "--use-distributed-optimizer",
                 "--bf16", "--global-batch-size 64", "--recompute-granularity full"):  # fmt: skip
        assert word in text
    assert "optim_grads_params" in plans[3].export("megatron.sh") and "fsdp" not in plans[0].export("megatron.sh")


def test_accelerate(plans):
    assert "fsdp_reshard_after_forward: true" in plans[3].export("accelerate.yaml")
    assert "fsdp_reshard_after_forward: false" in plans[2].export("accelerate.yaml")
    assert "distributed_type: MULTI_GPU" in plans[0].export("accelerate.yaml")
    assert "gradient_accumulation_steps: 4" in plans[0].export("accelerate.yaml")


def test_deepspeed(plans):
    for shard in range(4):
        found = json.loads(plans[shard].export("deepspeed.json"))
        assert found["zero_optimization"]["stage"] == shard and found["bf16"] == {"enabled": True}
        assert found["train_batch_size"] == 8 * found["train_micro_batch_size_per_gpu"] * found["gradient_accumulation_steps"] == 64


@pytest.mark.parametrize(("plan", "name", "message"), [
    (1, "torchtitan.toml", "optimizer's state alone"),
    (1, "accelerate.yaml", "optimizer's state alone"),
    ("both", "accelerate.yaml", "no setting for tensor or pipeline"),
    ("both", "deepspeed.json", "no setting for tensor or pipeline"),
    ("selective", "megatron.sh", "selective recomputation"),
    (0, "slurm.sh", "choose from torchtitan.toml"),
])  # fmt: skip
def test_errors(plans, plan, name, message):
    with pytest.raises(ValueError, match=message):
        plans[plan].export(name)


def test_unequal_stages():
    plan = search(tensor=[1], pipeline=[3], devices="3xH100", global_batch=6, recompute=["none"], micro_batches=[1])
    with pytest.raises(ValueError, match="divides layers equally, the stages have"):
        plan.export("megatron.sh")
