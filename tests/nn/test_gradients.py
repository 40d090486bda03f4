"""Gradient clipping and folding of batch norms, compared with PyTorch's."""

import pytest

import metatensor as mt
from metatensor import nn
from nn.test_layers import ours_of


@pytest.fixture
def torch():
    pytest.importorskip("metatensor_cpu")
    return pytest.importorskip("torch")


def parameters(torch, seed=0, sizes=((2, 3), (4,), ())):
    """Return the same parameters with gradients in both libraries. One has no gradient."""
    torch.manual_seed(seed)
    theirs = [torch.nn.Parameter(torch.zeros(s)) for s in (*sizes, (2,))]
    ours = [nn.Parameter(mt.zeros(s, device="cpu")) for s in (*sizes, (2,))]
    for t, o in zip(theirs[:-1], ours):
        t.grad = torch.randn(t.shape)
        o.grad = ours_of(t.grad)
    return theirs, ours


def close(ours, theirs):
    import torch

    torch.testing.assert_close(torch.tensor(ours.tolist(), dtype=theirs.dtype), theirs.detach(), atol=1e-5, rtol=1e-4)


@pytest.mark.torch
@pytest.mark.parametrize("norm", [1, 2.0, float("inf"), 0.5])
@pytest.mark.parametrize("limit", [0.5, 100])
def test_clip_grad_norm(torch, norm, limit):
    theirs, ours = parameters(torch)
    total = torch.nn.utils.clip_grad_norm_(iter(theirs), limit, norm)
    close(nn.utils.clip_grad_norm_(iter(ours), limit, norm), total)
    for t, o in zip(theirs[:-1], ours):
        close(o.grad, t.grad)
    assert ours[-1].grad is None
    close(nn.utils.get_total_norm([o.grad for o in ours[:-1]], norm), torch.nn.utils.get_total_norm([t.grad for t in theirs[:-1]], norm))
    torch.nn.utils.clip_grads_with_norm_(theirs[0], 0.1, torch.tensor(3.0))
    nn.utils.clip_grads_with_norm_(ours[0], 0.1, mt.tensor(3.0, device="cpu"))
    close(ours[0].grad, theirs[0].grad)


@pytest.mark.torch
def test_clip_grad_value(torch):
    theirs, ours = parameters(torch)
    torch.nn.utils.clip_grad_value_(theirs, 0.5)
    assert nn.utils.clip_grad_value_(ours, 0.5) is None
    for t, o in zip(theirs[:-1], ours):
        close(o.grad, t.grad)


def test_nothing_to_clip_and_what_is_not_finite(device):
    with pytest.warns(UserWarning, match="empty"):
        assert nn.utils.clip_grad_norm_((p for p in []), 1.0).item() == 0.0
    assert nn.utils.clip_grad_norm_([], 1.0).dim() == 0
    parameter = nn.Parameter(mt.ones(2, device=device))
    parameter.grad = mt.full((2,), float("inf"), device=device)
    assert nn.utils.clip_grad_norm_(parameter, 1.0).item() == float("inf")
    with pytest.raises(RuntimeError, match="total norm of order 2.0"):
        nn.utils.clip_grad_norm_(parameter, 1.0, error_if_nonfinite=True)
    with pytest.warns(FutureWarning, match="clip_grad_norm_ now"):
        nn.utils.clip_grad_norm(parameter, 1.0)


def test_on_meta():
    parameter = nn.Parameter(mt.ones(2, device="meta"))
    parameter.grad = mt.ones(2, device="meta")
    total = nn.utils.clip_grad_norm_(parameter, 1.0)
    assert total.is_meta and total.shape == () and not total.requires_grad and parameter.grad.shape == (2,)


def pair(torch, layer, norm):
    """Return layer and norm in both libraries with the same state, which is not the initial one."""
    torch.manual_seed(0)
    theirs = [eval(f"torch.nn.{layer}"), eval(f"torch.nn.{norm}")]
    ours = [eval(f"nn.{layer}"), eval(f"nn.{norm}")]
    for t, o in zip(theirs, ours):
        for tensor in t.state_dict().values():
            if tensor.dtype == torch.float32:
                tensor.uniform_(0.1, 1)
        o.load_state_dict({k: ours_of(v) for k, v in t.state_dict().items()})
        t.eval(), o.eval()
    return theirs, ours


@pytest.mark.torch
@pytest.mark.parametrize(
    "layer, norm, shape",
    [
        ("Conv2d(2, 3, 2)", "BatchNorm2d(3)", (1, 2, 4, 4)),
        ("Conv1d(2, 3, 2, bias=False)", "BatchNorm1d(3, affine=False, eps=0.1)", (1, 2, 4)),
        ("ConvTranspose2d(2, 3, 2)", "BatchNorm2d(3)", (1, 2, 4, 4)),
        ("Linear(2, 3)", "BatchNorm1d(3)", (4, 2)),
        ("Linear(2, 3, bias=False)", "BatchNorm1d(3)", (4, 2)),
    ],
)
def test_fusion(torch, layer, norm, shape):
    theirs, ours = pair(torch, layer, norm)
    options = (True,) if "Transpose" in layer else ()
    name = "fuse_linear_bn_eval" if layer.startswith("Linear") else "fuse_conv_bn_eval"
    want, got = getattr(torch.nn.utils, name)(*theirs, *options), getattr(nn.utils, name)(*ours, *options)
    x = torch.randn(shape)
    close(got(ours_of(x)), want(x))
    close(got(ours_of(x)), theirs[1](theirs[0](x)))
    for key, value in want.state_dict().items():
        close(got.state_dict()[key], value)
    assert [p.requires_grad for p in got.parameters()] == [p.requires_grad for p in want.parameters()]
    assert got is not ours[0] and type(got) is type(ours[0])


def test_fusion_refuses():
    mt.set_default_device("meta")
    with pytest.raises(AssertionError, match="evaluation mode"):
        nn.utils.fuse_conv_bn_eval(nn.Conv1d(1, 2, 1), nn.BatchNorm1d(2))
    with pytest.raises(AssertionError, match="running statistics"):
        nn.utils.fuse_conv_bn_eval(nn.Conv1d(1, 2, 1).eval(), nn.BatchNorm1d(2, track_running_stats=False).eval())
    with pytest.raises(AssertionError, match="does not fit"):
        nn.utils.fuse_linear_bn_eval(nn.Linear(1, 2).eval(), nn.BatchNorm1d(3).eval())


def test_memory_format_of_weights():
    mt.set_default_device("meta")
    net = nn.Sequential(nn.Conv2d(3, 4, 2), nn.Conv3d(3, 4, 2), nn.Linear(2, 2))
    before = list(net.parameters())
    assert nn.utils.convert_conv2d_weight_memory_format(net, mt.channels_last) is net
    assert nn.utils.convert_conv3d_weight_memory_format(net, mt.channels_last_3d) is net
    assert net[0].weight.is_contiguous(memory_format=mt.channels_last) and not net[0].weight.is_contiguous()
    assert net[1].weight.is_contiguous(memory_format=mt.channels_last_3d)
    assert [id(p) for p in net.parameters()] == [id(p) for p in before]


def test_names_for_state_dicts_and_factories():
    state = nn.Linear(2, 2, device="meta").state_dict(prefix="module.")
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == ["weight", "bias"] and list(state._metadata) == [""]
    assert nn.factory_kwargs({"factory_kwargs": {"dtype": 1}, "device": 2}) == {"device": 2, "dtype": 1}
    assert nn.factory_kwargs(None) == {}
    with pytest.raises(TypeError, match="'size'"):
        nn.factory_kwargs({"size": 1})
    parallel = nn.DataParallel(nn.Linear(2, 3, device="meta"))
    assert parallel(mt.empty(4, 2, device="meta")).shape == (4, 3) and list(parallel.state_dict())[0] == "module.weight"
    with pytest.raises(ValueError, match="not split"):
        nn.DataParallel(nn.Identity(), [0, 1])


def test_sync_batch_norm():
    mt.set_default_device("meta")
    net = nn.Sequential(nn.BatchNorm1d(3), nn.Sequential(nn.BatchNorm2d(4, affine=False)), nn.ReLU())
    first, made = net[0].weight, nn.SyncBatchNorm.convert_sync_batchnorm(net.eval())
    assert made is net and [type(m) for m in (net[0], net[1][0])] == [nn.SyncBatchNorm] * 2
    assert net[0].weight is first and not net[0].training and net[1][0].weight is None
    with pytest.raises(ValueError, match="some channels"):
        nn.SyncBatchNorm(3)(mt.empty(3))
