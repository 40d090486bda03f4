"""The collectives of a plan are those that a parallel program makes on simulated ranks."""

from collections import Counter

import pytest

import metatensor as mt
from metatensor import distributed as dist
from metatensor.distributed import CommunicationLog
from metatensor.distributed.tensor import DTensor, Replicate, init_device_mesh
from metatensor.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, parallelize_module
from metatensor.plan.costing import Coster
from metatensor.plan.layouts import Degrees
from plan.test_search import search
from plan.transformers_like import decoder, tokens

WHOLE = {"input_layouts": (Replicate(),), "desired_input_layouts": (Replicate(),)}
PLAN = {
    "layers.*.attention": PrepareModuleInput(**WHOLE), "layers.*.attention.o": RowwiseParallel(),
    **{f"layers.*.attention.{name}": ColwiseParallel() for name in "qkv"},
    "layers.*.up": ColwiseParallel(), "layers.*.down": RowwiseParallel(),
}  # fmt: skip


@pytest.mark.slow
def test_tensor_parallelism(monkeypatch):
    costers = []
    monkeypatch.setattr(Coster, "__init__", lambda self, *args, _make=Coster.__init__: (costers.append(self), _make(self, *args))[1])
    with mt.analysis.policy("cuda"):
        search(tensor=[4], pipeline=[1], micro_batches=[2], recompute=["none"], shard=[0], sequence=[False], precision="bf16")
    cost = costers[0].block(0, Degrees(data=2, tensor=4, micro_batch=2)).cost
    planned = Counter(cost.forward.communication + cost.backward.communication)

    def step():
        dist.init_process_group()
        mesh = init_device_mesh("meta", (4,))
        model = parallelize_module(decoder().to(mt.bfloat16), mesh, PLAN)
        with mt.analysis.policy("cuda"):
            x = model.embed(tokens(2)).detach().requires_grad_()
            with CommunicationLog() as log:
                for layer in model.layers:
                    x = layer(x)
                x.backward(mt.empty_like(x))
        elements = sum(p.to_local().numel() if isinstance(p, DTensor) else p.numel() for p in model.layers.parameters())
        return Counter((entry.kind, entry.bytes) for entry in log if entry.bytes), elements

    made, elements = dist.sim.run(step, world_size=4)[0]
    assert made == Counter({key: 4 * count for key, count in planned.items()})  # of four blocks
    assert elements == 4 * cost.parameters
