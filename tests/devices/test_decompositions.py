"""Every decomposition compared with the cpu's kernel, on a device with the core operators only."""

import numpy as np
import pytest

from devices.registered import unregister
from metatensor import plugins
from metatensor._core.op import registry
from metatensor.rules.core import CORE
from metatensor.rules.decompositions import decompositions
from metatensor.testing import device_kernels

pytest.importorskip("metatensor_cpu")
TABLE = decompositions()
# Operators that only move memory, which `check_device` tests.
BASIC = {"clone", "_to_copy", "_to_copy.move", "copy_"}
KNOWN = {overload.qualname for op in list(registry.values()) for overload in op.functional.overloads}
# Operators whose decomposition multiplies in another order, so that inf * 0 occurs in other places.
ORDER = {"nn.functional.bilinear"}
# Operators whose arguments depend on each other in ways that the search for samples does not know. Those of gradients are
# compared with PyTorch (`oracle.gradients`).
WITHOUT_SAMPLES = {"_grouped_mm", "_batch_norm_forward", "_upsample_backward", "convolution_backward", "native_batch_norm_backward",
                   "native_group_norm_backward", "nn.functional._batch_norm_train", "nn.functional._batch_statistics",
                   "nn.functional._instance_norm_train", "native_layer_norm_backward", "_cdist_backward", "_pdist_backward",
                   "_embedding_bag_backward", "_embedding_bag_weights_backward", "_scaled_dot_product_flash_attention_backward",
                   "_scaled_dot_product_efficient_attention", "_scaled_dot_product_efficient_attention_backward",
                   "_scaled_dot_product_flash_attention_for_cpu_backward"}
SAMPLES = 15


@pytest.fixture(scope="module")
def core():
    from metatensor_cpu.backend import SMALL_FLOATS, CpuBackend
    from metatensor_cpu.kernels import TABLE as KERNELS

    from metatensor.devices.array_kit import ArrayBackend

    class Core(CpuBackend):
        def __init__(self):
            ArrayBackend.__init__(self, "core", np, dtypes=SMALL_FLOATS, special="scipy.special", table=KERNELS)

        def kernel(self, name):
            return super().kernel(name) if name in CORE else None

    plugins.register_backend(Core())
    yield "core"
    unregister("core")


def test_core_operators_exist_and_have_no_decomposition():
    assert CORE <= KNOWN and not CORE & TABLE.keys()
    assert {name for name in TABLE if "::" not in name} <= KNOWN


def _samples(name):
    op = registry.get(name) or registry[name.rpartition(".")[0]]
    overload = next(o for o in op.functional.overloads if o.qualname == name)
    found = device_kernels.samples_of(op.functional, overload, device_kernels.DTYPES, "cpu")
    kept = [sample for sample in found if not any(_beyond(name, spec) for _, spec in sample.specs())]
    step = max(1, len(kept) // SAMPLES)
    return op.functional, kept[::step]


def _beyond(name, spec):
    """Return True for values that formulas in several steps cannot handle: near overflow, or complex and not finite."""
    floating = not spec.dtype.startswith(("int", "uint", "bool"))
    return (spec.role == "extreme" and (floating or "avg_pool" in name)) or (
        spec.role in ("special", "nans", "infinite") and (spec.dtype.startswith("complex") or name in ORDER)
    )


@pytest.mark.parametrize("name", sorted(name for name in TABLE if name not in BASIC and "::" not in name))
def test_a_decomposition_gives_the_values_of_the_kernel(core, name):
    op, samples = _samples(name)
    if name == "nn.functional.nll_loss":  # the cpu's kernel fails without classes or rows
        samples = [sample for sample in samples if sample.arguments["input"].shape != (0, 0)]
    # Decompositions that hold only for real numbers raise an error for others.
    samples = [s for s in samples if not isinstance(device_kernels._call(op, s, core, True), NotImplementedError)]
    assert len(samples) > 1 or name in WITHOUT_SAMPLES
    if samples:
        device_kernels._compare(op, samples, core, "cpu")


def test_complex_numbers_are_refused_or_computed_by_the_cpu(core):
    import metatensor as mt

    x = mt.tensor([1 + 2j, 3j]).to(core)
    with pytest.raises(NotImplementedError, match="hardswish|logaddexp"):
        mt.logaddexp(x, x)
    plugins.backend(core).fallback = "cpu"
    try:
        assert mt.logaddexp(x, x).tolist() == mt.logaddexp(x.cpu(), x.cpu()).tolist()
    finally:
        plugins.backend(core).fallback = None
