"""The parts of `torch.ao.quantization` that work on ordinary tensors: stubs, fused layers, `FloatFunctional`."""

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.torch_api.torch import ao, quantization
from metatensor.torch_api.torch.testing import assert_close


def model():
    built = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 16, 5), nn.ReLU())
    built[1].running_mean.normal_(), built[1].running_var.uniform_(0.5, 2)
    return built.eval()


def test_fused_for_evaluation():
    plain = model()
    fused = quantization.fuse_modules(plain, [["0", "1", "2"], ["4", "5"]])
    assert [type(one).__name__ for one in fused] == ["Sequential", "Identity", "Identity", "Flatten", "Sequential", "Identity"]
    assert [type(one).__name__ for one in fused[0]] == ["Conv2d", "ReLU"]
    x = mt.randn(2, 3, 6, 6)
    assert_close(fused(x), plain(x), rtol=1e-4, atol=1e-5)
    assert isinstance(plain[1], nn.BatchNorm2d)
    assert ao.quantization.fuse_modules(plain, ["0", "1"], inplace=True) is plain
    assert_close(fused(x), plain(x), rtol=1e-4, atol=1e-5)


def test_fused_for_training():
    plain = model().train()
    fused = quantization.fuse_modules_qat(plain, ["0", "1", "2"])
    assert [type(one).__name__ for one in fused[0]] == ["Conv2d", "BatchNorm2d", "ReLU"] and fused[0].training
    with pytest.raises(AssertionError):
        quantization.fuse_modules(plain, ["0", "1"])
    with pytest.raises(NotImplementedError, match="ReLU, Flatten"):
        quantization.fuse_modules(plain, ["2", "3"])


def test_stubs_pass_on():
    x = mt.ones(2)
    assert ao.quantization.QuantStub()(x) is x and ao.quantization.DeQuantStub()(x) is x
    wrapped = ao.quantization.QuantWrapper(nn.ReLU())
    assert [name for name, _ in wrapped.named_children()] == ["quant", "dequant", "module"] and wrapped(-x).tolist() == [0, 0]


def test_configurations_are_values():
    made = ao.quantization.QConfig(ao.quantization.default_observer, ao.quantization.default_weight_observer)
    assert made.activation is ao.quantization.default_observer and made == tuple(made)
    assert ao.quantization.get_default_qconfig("fbgemm").weight is ao.quantization.default_per_channel_weight_observer
    with pytest.raises(ValueError):
        ao.quantization.QConfig(nn.ReLU(), None)
    with pytest.raises(AssertionError):
        ao.quantization.get_default_qat_qconfig("nobody's")
    for use in (made.activation, ao.quantization.MinMaxObserver, ao.quantization.MinMaxObserver.with_args(dtype=mt.int8)):
        with pytest.raises(NotImplementedError, match="no quantized tensors"):
            use()


@pytest.mark.torch
def test_float_functional_is_that_of_pytorch():
    import torch

    ours, theirs = nn.quantized.FloatFunctional(), torch.ao.nn.quantized.FloatFunctional()
    assert repr(ours) == repr(theirs)

    def results(library, functional):
        x, y = library.tensor([[1.0, -2], [3, 4]]), library.tensor([[-5.0, 1], [2, 2]])
        got = [functional.add(x, y), functional.mul(x, y), functional.cat([x, y], dim=1), functional.add_relu(x, y),
               functional.matmul(x, y), functional.add_scalar(x, 2.0), functional.mul_scalar(x, 2.0)]  # fmt: skip
        return [one.tolist() for one in got]

    assert results(mt, ours) == results(torch, theirs)
    with pytest.raises(RuntimeError):
        ours(mt.ones(1))
    assert ao.nn.quantized.modules.functional_modules.FloatFunctional is nn.quantized.FloatFunctional
