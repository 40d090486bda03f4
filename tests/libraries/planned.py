"""``python -m libraries.planned MODEL``: train a model of transformers, unmodified, in planned layouts on four simulated ranks.

Print a JSON object with the losses of one process, and those in each layout.
"""

import copy
import json
import sys

import metatensor as mt
from metatensor import distributed as dist
from metatensor import torch_api

torch_api.install()

import transformers

VOCABULARY, LENGTH, BATCH, STEPS = 64, 16, 8, 2
LAYOUTS = [
    {"data": 4, "shard": 2}, {"data": 2, "tensor": 2, "shard": 3}, {"pipeline": 4}, {"data": 2, "pipeline": 2, "shard": 3},
    {"tensor": 2, "pipeline": 2, "sequence": True, "schedule": "InterleavedZeroBubble"},
]  # fmt: skip


def llama():
    """Positions are tables that each layer gets."""
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, vocab_size=VOCABULARY,
        max_position_embeddings=LENGTH, eos_token_id=1))  # fmt: skip


def gpt2():
    """The embedding is also the output matrix."""
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_embd=32, n_layer=4, n_head=4, vocab_size=VOCABULARY, n_positions=LENGTH, attn_pdrop=0, embd_pdrop=0, resid_pdrop=0,
        bos_token_id=0, eos_token_id=1))  # fmt: skip


def loss(output, target):
    return mt.nn.functional.cross_entropy(output.logits.flatten(0, 1), target.flatten())


def planned_loss(output, samples):
    return loss(output, mt.zeros(samples, LENGTH, dtype=mt.int64, device="meta"))


def optimizer(parameters):
    return mt.optim.AdamW(parameters, lr=0.01)


def main(name):
    make = {"llama": llama, "gpt2": gpt2}[name]
    with mt.device("meta"):
        plan = mt.plan.search(make(), input_ids=mt.empty(1, LENGTH, dtype=mt.int64), devices="4xH100", global_batch=BATCH,
                              loss=planned_loss, precision="fp32", micro_batches=[2], recompute=["none"], keep=None)  # fmt: skip
    mt.manual_seed(0)
    base = make().to("cpu")
    inputs, targets = (mt.randint(0, VOCABULARY, (BATCH, LENGTH), device="cpu") for _ in range(2))
    model = copy.deepcopy(base)
    own, found = optimizer(model.parameters()), []
    for _ in range(STEPS):
        value = loss(model(input_ids=inputs), targets)
        value.backward()
        own.step()
        own.zero_grad()
        found.append(value.item())

    def train(which):
        dist.init_process_group()
        step = plan.apply(copy.deepcopy(base), loss=loss, optimizer=optimizer, which=which)
        return [step.mean_loss(step.step({"input_ids": step.own(inputs)}, step.own(targets))).item() for _ in range(STEPS)]

    layouts = [mt.plan.Degrees(micro_batch=2, precision="fp32", **layout) for layout in LAYOUTS]
    divided = {str(which): dist.sim.run(train, which, world_size=4) for which in layouts}
    print(json.dumps({"alone": found, "layouts": divided, "remarks": plan.remarks}))


if __name__ == "__main__":
    main(sys.argv[1])
