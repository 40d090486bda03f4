"""Models are estimated and materialized by the workers of Dask and Ray."""

import os
import time

import pytest

import metatensor as mt
from metatensor.utils.executors import RayExecutor, open_executor


@pytest.fixture(scope="module", params=["dask", "ray"])
def executor(request):
    pytest.importorskip({"dask": "dask.distributed", "ray": "ray"}[request.param])
    with open_executor(request.param) as opened:
        yield opened


def _product(rows, columns):
    return (mt.empty(rows, 3, device="meta") @ mt.empty(3, columns, device="meta")).shape


def test_calls(executor):
    assert executor.submit(os.getpid).result(60) != os.getpid()
    assert [future.result(60) for future in [executor.submit(_product, n, n + 1) for n in range(4)]] == [(n, n + 1) for n in range(4)]
    with pytest.raises((TypeError, RuntimeError), match="rows"):
        executor.submit(_product, columns=2).result(60)


def test_models_are_materialized(executor):
    def made():
        mt.manual_seed(3)
        with mt.deferred_init(), mt.device("cpu"):
            return mt.nn.Sequential(mt.nn.Linear(8, 8), mt.nn.BatchNorm1d(8), mt.nn.Linear(8, 2))

    spread, here = mt.materialize(made(), executor=executor), mt.materialize(made())
    assert all(mt.equal(a, b) for a, b in zip(spread.state_dict().values(), here.state_dict().values(), strict=True))


def test_shutdown_of_ray():
    ray = pytest.importorskip("ray")
    ours = not ray.is_initialized()
    if ours:
        ray.init(include_dashboard=False, log_to_driver=False)
    try:
        with RayExecutor(num_cpus=1) as executor:
            slow = executor.submit(time.sleep, 0.2)
        assert slow.done() and ray.is_initialized()
        with pytest.raises(RuntimeError, match="after shutdown"):
            executor.submit(os.getpid)
    finally:
        if ours:
            ray.shutdown()
