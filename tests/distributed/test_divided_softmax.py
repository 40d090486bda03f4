"""A softmax over a dimension that is divided among ranks: its arguments are not changed, and it takes little temporary memory."""

import pytest

import metatensor as mt
from metatensor import distributed as dist
from metatensor.analysis import MemoryTracker
from metatensor.distributed.tensor import DTensor, Shard, init_device_mesh
from metatensor.nn import functional as F
from metatensor.plan.worlds import simulated


@pytest.mark.parametrize("function", [F.softmax, F.log_softmax])
@pytest.mark.parametrize("dtype", [mt.float32, mt.bfloat16, mt.float64])
def test_values_and_gradients(function, dtype):
    mt.manual_seed(0)
    whole, weights = mt.randn(3, 8).to(dtype), mt.randn(3, 8).to(dtype)
    expected = whole.clone().requires_grad_()
    (function(expected, -1) * weights).sum().backward()

    def run():
        mesh = init_device_mesh("cpu", (2,))
        x = DTensor.from_local(whole.chunk(2, 1)[dist.get_rank()].clone(), mesh, [Shard(1)]).requires_grad_()
        w = DTensor.from_local(weights.chunk(2, 1)[dist.get_rank()], mesh, [Shard(1)])
        y = function(x, -1)
        (y * w).sum().backward()
        return x.detach().full_tensor(), y.detach().full_tensor(), x.grad.full_tensor()

    tolerance = 0.02 if dtype is mt.bfloat16 else 1e-6
    for x, y, grad in dist.sim.run(run, world_size=2):
        assert mt.equal(x, whole)
        assert mt.allclose(y, function(whole, -1), atol=tolerance) and mt.allclose(grad, expected.grad, atol=tolerance)


def test_temporary_memory():
    with simulated(2), mt.device("meta"):
        mesh = init_device_mesh("meta", (2,))
        x = DTensor.from_local(mt.empty(64, 512, dtype=mt.bfloat16), mesh, [Shard(1)], run_check=False).requires_grad_()
        size, rows = 64 * 512 * 2, 64 * 4 * 8
        with MemoryTracker() as memory:
            y = F.log_softmax(x, -1)
            assert memory.current <= size + rows
            assert memory.peak <= 4 * size + rows  # in float32: what is shifted, and its exponentials
            memory.reset_peak()
            y.sum().backward()
            assert memory.peak <= 6 * size + rows  # the result, its gradient, one float32 tensor, and the gradient of x
