"""Libraries divide models over simulated ranks, without PyTorch: transformers, accelerate and torchtitan."""

import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

TENSOR_PARALLEL = """
    import os, tempfile
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
    from metatensor import distributed as dist, torch_api
    torch_api.install()
    import torch
    folder, x, name = tempfile.mkdtemp(), torch.arange(16).reshape(2, 8), "model.layers.0.mlp.down_proj.weight"
    def plain():
        dist.init_process_group()   # transformers asks when it is imported whether there are several ranks
        from transformers import LlamaConfig, LlamaForCausalLM
        model = LlamaForCausalLM(LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
                                             num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=16))
        model.save_pretrained(folder)
        return step(model)
    def divided():
        dist.init_process_group()
        from transformers import AutoModelForCausalLM
        return step(AutoModelForCausalLM.from_pretrained(folder, tp_plan="auto"))
    def step(model):
        loss = model(x, labels=x).loss
        loss.backward()
        weight = dict(model.named_parameters())[name]
        return loss.item(), getattr(weight, "placements", None), weight.grad
    ((loss, _, expected),) = dist.sim.run(plain, world_size=1)
    def compared():
        found, placements, grad = divided()
        assert abs(found - loss) < 1e-5 and torch.allclose(grad.full_tensor(), expected, atol=1e-6)
        return placements
    print(dist.sim.run(compared, world_size=2)[1])
"""
FSDP2 = """
    import os
    from metatensor import distributed as dist
    import torch
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="8", LOCAL_WORLD_SIZE="8", MASTER_ADDR="127.0.0.1", MASTER_PORT="29500",
                      ACCELERATE_USE_FSDP="true", FSDP_VERSION="2", FSDP_AUTO_WRAP_POLICY="TRANSFORMER_BASED_WRAP",
                      FSDP_TRANSFORMER_CLS_TO_WRAP="TransformerEncoderLayer", FSDP_ACTIVATION_CHECKPOINTING="true")
    dist.init_process_group("fake", rank=0, world_size=8)
    from accelerate import Accelerator
    accelerator = Accelerator()
    model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
    with dist.CommunicationLog() as log:
        accelerator.backward(model(torch.ones(2, 4, 16, device=accelerator.device)).sum())
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    print(type(model).__name__, sorted(log.bytes_by_kind()), len(accelerator.get_state_dict(model)))
"""


def needs(name):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")


def run(*command):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *command], capture_output=True, text=True, timeout=240, cwd=Path(__file__).parents[1]
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_transformers_divides_a_model_by_its_tensor_parallel_plan():
    needs("transformers")
    needs("accelerate")  # transformers asks for it
    assert run("-c", textwrap.dedent(TENSOR_PARALLEL)).endswith("(Shard(dim=1),)")


def test_accelerate_shards_a_model(tmp_path):
    needs("accelerate")
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(FSDP2))
    found = run("-m", "metatensor", "run", "--device", "meta", str(script))
    assert found.endswith("FSDPTransformerEncoder ['all_gather', 'all_reduce', 'reduce_scatter'] 24")


@pytest.mark.parametrize("layout", [("--tp", "2"), ("--fsdp", "2", "--tp", "2")])
def test_torchtitan_trains_llama(layout):
    checkout = os.environ.get("METATENSOR_TORCHTITAN")
    if not checkout:
        pytest.skip("METATENSOR_TORCHTITAN does not name a checkout of torchtitan v0.2.2")
    alone, divided = (run("-m", "libraries.torchtitan_llama", checkout, *more) for more in ((), layout))
    losses = [text.partition("losses [")[2].partition("]")[0] for text in (alone, divided)]
    for one, other in zip(*(map(float, text.split(",")) for text in losses), strict=True):
        assert one == pytest.approx(other, abs=5e-4)
    assert "Shard(dim=2)" in divided
