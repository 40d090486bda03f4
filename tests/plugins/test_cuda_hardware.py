"""The cuda device on a GPU. Skipped if there is none; `test_cuda_standin.py` runs the same checks without one."""

import pytest

import metatensor as mt
from devices import gpu_checks
from metatensor import plugins
from metatensor.devices import OutOfMemoryError

pytest.importorskip("metatensor_cuda")


def _why_not():
    try:
        backend = plugins.backend("cuda")
    except RuntimeError as error:
        return str(error)
    return backend.unavailable_reason()


pytestmark = pytest.mark.skipif(bool(_why_not()), reason=f"no GPU: {_why_not()}")


@pytest.mark.parametrize("check", [
    gpu_checks.conformance, gpu_checks.models, gpu_checks.rarer_operators, gpu_checks.streams, gpu_checks.memory, gpu_checks.pinned,
], ids=lambda check: check.__name__)  # fmt: skip
def test_on_the_gpu(check):
    check("cuda:0" if check is not gpu_checks.conformance else "cuda")


def test_every_recorded_call():
    compared, problems = gpu_checks.compare_records("cuda:0", sample=1)
    assert compared > 20_000
    assert not problems, f"{len(problems)} of {compared} differ:\n" + "\n".join(problems[:40])


def test_more_than_there_is():
    with pytest.raises(OutOfMemoryError, match=r"cuda:0: cannot allocate 1.00 PiB .* of the GPU's .* are free"):
        mt.empty(1 << 50, dtype=mt.uint8, device="cuda:0")
    assert float(mt.ones(3, device="cuda:0").sum()) == 3


@pytest.mark.skipif(not _why_not() and plugins.backend("cuda").device_count() < 2, reason="there is one GPU")
def test_two_gpus():
    x = mt.arange(6.0, device="cuda:0").view(2, 3).t()
    there = x.to("cuda:1")
    assert there.tolist() == x.tolist() and str((there + 1).device) == "cuda:1"
    with pytest.raises(RuntimeError, match="cuda:0 and cuda:1"):
        x + there


def test_timings():
    """Check that the benchmark runs and that its times are positive."""
    from benchmarks import cuda

    rows = cuda.measure(["metatensor"], rounds=1, device="cuda:0")
    assert all(row["metatensor"] > 0 for row in rows.values())
