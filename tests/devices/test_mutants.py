"""check_device accepts few mutants. This tests a sample of those in `devices.mutants`."""

import pytest

pytestmark = pytest.mark.slow

pytest.importorskip("metatensor_cpu")

from devices.mutants import Mutant, broken_backend, mutants, overloads, survives

# One or two of each family; all of them take a few minutes.
SAMPLE = ["add", "div", "clamp", "nan_to_num", "nn.functional.gelu", "nn.functional.softplus", "sum", "std", "argmax", "sort.stable",
          "cumsum",
          "softmax", "addmm", "nn.functional.conv2d", "nn.functional.max_pool2d_with_indices", "nn.functional.avg_pool2d",
          "nn.functional.layer_norm", "nn.functional.cross_entropy", "scatter_reduce", "nn.functional.interpolate",
          "searchsorted"]  # fmt: skip


@pytest.fixture(scope="module")
def counted():
    """Return the mutants that are accepted, and the number of all mutants, by kind."""
    backend, found = broken_backend(), {}
    for op, overload in overloads():
        if overload.qualname in SAMPLE:
            right = Mutant(overload.qualname, "none", "", lambda kernel, device, out, args: kernel(out, *args))
            assert survives(backend, op, right), f"{right.op}: the unbroken kernel fails"
            for mutant in mutants(op, overload):
                alone = survives(backend, op, mutant)
                if alone is not None:
                    found.setdefault("argument" if mutant.kind == "argument" else "other", []).append((str(mutant), alone))
    return found


def test_arguments_that_are_ignored(counted):
    alive = [name for name, alone in counted["argument"] if alone]
    assert len(counted["argument"]) > 40 and len(alive) <= 0.05 * len(counted["argument"]), alive


def test_all_mutants(counted):
    every = counted["argument"] + counted["other"]
    alive = [name for name, alone in every if alone]
    assert len(every) > 200 and len(alive) <= 0.10 * len(every), alive
