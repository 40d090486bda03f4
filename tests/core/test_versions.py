"""`_version`: counters of in-place changes, and the tensors that share one."""

import pytest

import metatensor as mt


@pytest.fixture(params=["meta", "cpu"])
def x(request):
    return mt.ones(2, 3, device=request.param)


def test_views_and_detach_share_the_counter(x):
    x.add_(1)
    x.detach().add_(1)
    x[0].add_(1)
    x.view(-1)[2:].zero_()
    assert x._version == x.detach()._version == x[0]._version == x.t()._version == 4


def test_data_has_a_counter_of_its_own(x):
    x.add_(1)
    y = x.data
    y.add_(1)
    y[0].mul_(2)
    assert (x._version, y._version, y.detach()._version, x.data._version) == (1, 2, 2, 0)
    x.add_(1)
    assert (x._version, y._version) == (2, 2)


def test_a_tensor_keeps_its_counter_when_its_storage_is_exchanged(x):
    x.add_(1)
    other = mt.zeros_like(x)
    other.add_(1).add_(1).add_(1)
    x.data = other
    assert x._version == 1
    other.add_(1)
    assert (x._version, other._version) == (1, 4)
    x.add_(1)
    assert (x._version, x.detach()._version, x[0]._version, other._version) == (2, 2, 2, 4)
    x.set_(mt.zeros_like(x))
    assert x._version == 3


def test_views_made_before_an_exchange_stay_with_their_base(x):
    view = x[0]
    x.data = mt.zeros_like(x)
    view.add_(1)
    assert (x._version, view._version) == (1, 1)


@pytest.mark.parametrize("change", [
    lambda x: x.resize_(4), lambda x: x.t_(), lambda x: mt.add(x, 1, out=x), lambda x: x.__setitem__(0, 1.0),
    lambda x: x.__setitem__(mt.tensor([0]), 1.0), lambda x: x.index_put_((mt.tensor([0]),), mt.ones(3, device=x.device)),
])  # fmt: skip
def test_a_change_counts_once(x, change):
    change(x)
    assert x._version == 1


def test_inference_tensors_do_not_count():
    with mt.inference_mode():
        x = mt.ones(2)
    with pytest.raises(RuntimeError, match="inference"):
        x._version
