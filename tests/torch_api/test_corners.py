"""Deprecated and removed names of PyTorch, and names that metatensor lacks, can be accessed."""

import pytest

import metatensor as mt
from metatensor.torch_api import torch

NAMES = """
AnyType ByteStorage FloatStorage JITException ListType TensorType _C.ListType _C.TensorType _C._is_tracing _C._set_grad_enabled
_C._jit_set_profiling_executor _C._jit_set_texpr_fuser_enabled _VF.gru_cell _VF.lstm _adaptive_avg_pool2d _softmax_backward_data
_weight_norm autograd.forward_ad.unpack_dual dsmm eig frobenius_norm fx.experimental.proxy_tensor.make_fx
has_lapack lstsq matrix_rank nn.init._no_grad_fill_ nn.init._no_grad_normal_
nn.init._no_grad_trunc_normal_ nn.init._no_grad_uniform_ nn.init._no_grad_zero_ nuclear_norm quantize_per_tensor solve
sparse_coo_tensor spmm symeig utils.checkpoint.check_backward_validity utils.checkpoint.detach_variable
serialization.DEFAULT_PROTOCOL serialization.MAP_LOCATION _subclasses.fake_tensor.FakeTensorMode
utils.checkpoint.get_device_states utils.checkpoint.set_device_states
""".split()


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_model_files_use(name):
    found = torch
    for part in name.split("."):
        found = getattr(found, part)


def test_old_products_and_norms():
    x, y = mt.arange(6.0).reshape(2, 3), mt.arange(6.0).reshape(3, 2)
    assert (torch.spmm(x, y) == x @ y).all() and (torch.dsmm(x, y) == x @ y).all()
    assert torch.frobenius_norm(x).item() == pytest.approx(55**0.5)
    assert torch.frobenius_norm(x, 1, True).shape == (2, 1)
    assert torch.nuclear_norm(mt.eye(3)).item() == pytest.approx(3)
    assert torch._adaptive_avg_pool2d(mt.ones(1, 2, 4, 4, device="meta"), 2).shape == (1, 2, 2, 2)


def test_like_pytorchs():
    real = pytest.importorskip("torch")
    values = [[1.0, -2.0, 0.5], [3.0, 0.25, 1.0]]
    for dim in (0, 1):
        g = [[2.0]] * 2 if dim == 0 else [[2.0] * 3]
        ours, theirs = (lib._weight_norm(lib.tensor(values), lib.tensor(g), dim).tolist() for lib in (torch, real))
        assert ours == [pytest.approx(row, rel=1e-5) for row in theirs]
        ours, theirs = (
            lib._softmax_backward_data(lib.tensor(values), lib.tensor(values).softmax(dim), dim, lib.float32).tolist()
            for lib in (torch, real)
        )
        assert ours == [pytest.approx(row, rel=1e-4, abs=1e-6) for row in theirs]


@pytest.mark.parametrize("name", ["eig", "lstsq", "matrix_rank", "solve", "symeig"])
def test_what_pytorch_removed(name):
    with pytest.raises(RuntimeError, match=f"torch.{name}: .*torch.linalg"):
        getattr(torch, name)(mt.eye(2))


@pytest.mark.parametrize("name", ["sparse_coo_tensor", "quantize_per_tensor", "TensorType", "fork"])
def test_what_is_not_there(name):
    with pytest.raises(NotImplementedError, match=f"torch.{name}: "):
        getattr(torch, name)(None)


def test_storages():
    made = torch.FloatStorage(3)
    assert len(made) == 3 and made.dtype is mt.float32
    assert isinstance(made, torch.FloatStorage) and not isinstance(made, torch.LongStorage)
    assert isinstance(mt.zeros(2).storage(), torch.FloatStorage)


def test_grad_mode_by_function():
    torch._C._set_grad_enabled(False)
    assert not mt.is_grad_enabled()
    torch._C._set_grad_enabled(True)
    assert mt.is_grad_enabled() and not torch._C._is_tracing()


def test_parts_of_checkpointing():
    x = mt.ones(2, requires_grad=True)
    assert torch.utils.checkpoint.get_device_states(x, [x, {"a": x}]) == ([], [])
    torch.utils.checkpoint.set_device_states([], [])
    y, one = torch.utils.checkpoint.detach_variable((x * 2, 1))
    assert y.is_leaf and y.requires_grad and one == 1
    with pytest.raises(RuntimeError, match="tuple"):
        torch.utils.checkpoint.detach_variable([x])
    with pytest.warns(UserWarning, match="none of the inputs"):
        torch.utils.checkpoint.check_backward_validity([mt.ones(2)])


def test_what_nothing_takes_part_in():
    x = mt.ones(2)
    assert torch.autograd.forward_ad.unpack_dual(x).primal is x and torch.autograd.forward_ad.unpack_dual(x).tangent is None
    assert torch.fx.experimental.proxy_tensor.get_proxy_mode() is None


def test_an_operator_tells_its_keywords_defaults():
    assert "indexing" in torch.meshgrid.__kwdefaults__ and mt.relu.__kwdefaults__ is None


def test_the_storage_type_follows_the_default_dtype():
    assert torch.Storage is torch.FloatStorage and torch.Storage([1.0, 2.0]).tolist() == [1, 2]
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.Storage is torch.DoubleStorage
    finally:
        torch.set_default_dtype(torch.float32)
