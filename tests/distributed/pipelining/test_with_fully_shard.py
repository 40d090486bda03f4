"""Pipelines whose stages are sharded: two stages or more, each on two ranks."""

import pytest

from distributed.pipelining.models import plain, trained
from metatensor import distributed as dist
from metatensor.distributed import fsdp, sim

pytest.importorskip("metatensor_cpu")
if not hasattr(fsdp.FSDPModule, "set_is_last_backward"):
    pytest.skip("needs fully_shard", allow_module_level=True)


@pytest.mark.slow
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("name, each", [("1F1B", 1), ("Interleaved1F1B", 2), ("InterleavedZeroBubble", 1), ("ZBVZeroBubble", 2),
                                        ("DualPipeV", 2)])  # fmt: skip
def test_gradients_are_those_of_one_process(name, each, tied):
    losses, grads = plain(tied=tied)

    def train(reshard):
        dist.init_process_group()
        mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "dp"))
        replica = mesh.get_local_rank("dp")

        def wrap(module):
            return fsdp.fully_shard(module, mesh=mesh["dp"], reshard_after_forward=reshard)

        with dist.CommunicationLog() as log:
            mine = slice(8 * replica, 8 * replica + 8)
            _, found = trained(name, each, 1, 4, group=mesh["pp"].get_group(), wrap=wrap, rows=mine, tied=tied)
        return {name: grad.full_tensor() for name, grad in found.items()}, [one.kind for one in log]

    for reshard in (True, False):
        seen = set()
        for found, kinds in sim.run(train, reshard, world_size=4):
            assert kinds.count("reduce_scatter") == each  # once for each stage
            for name_of, grad in found.items():
                seen.add(name_of)
                assert (grad - grads[name_of]).abs().max() <= 1e-5 * grads[name_of].abs().max(), name_of
        assert seen | {"head.weight"} == set(grads) | {"head.weight"}
