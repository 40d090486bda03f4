"""Rejected arguments: sizes, device types, generators, masks, lengths."""

import pytest

import metatensor as mt


@pytest.mark.parametrize("items", ["12", [1.5], [mt.empty(1, device="meta")], [None], ["1"]])
def test_sizes_are_integers(items):
    with pytest.raises(TypeError, match="Size.*item 0"):
        mt.Size(items)


def test_what_stands_for_integers_is_a_size():
    assert mt.Size([True, 2]) == (1, 2) and type(mt.Size([True])[0]) is int
    assert mt.Size(range(3)) == (0, 1, 2)
    assert type(mt.Size((1, 2))[:1]) is mt.Size


def test_a_size_of_a_tensor():
    pytest.importorskip("metatensor_cpu")
    size = mt.Size(mt.tensor([1, 2]))
    assert size == (1, 2) and type(size[0]) is int
    with pytest.raises(TypeError):
        mt.Size(mt.tensor([1.0]))


@pytest.mark.parametrize("name", ["other", "msnpu", "cuda_typo:1"])
def test_device_types_are_known(name):
    with pytest.raises(RuntimeError, match=f"{name.partition(':')[0]}.*the known types are"):
        mt.device(name)


@pytest.mark.parametrize("name", ["opengl", "vulkan", "lazy"])
def test_generators_need_a_device_with_random_numbers(name):
    assert mt.device(name).type == name
    with pytest.raises(RuntimeError, match=name):
        mt.Generator(name)
    assert mt.Generator("cuda").device.type == "cuda"


def test_masks_are_bool():
    x, mask = mt.empty(3, device="meta"), mt.empty(3, dtype=mt.uint8, device="meta")
    for call in (mt.masked_select, mt.masked_fill, mt.masked_scatter):
        with pytest.raises(RuntimeError, match="bool"):
            call(x, mask, *([] if call is mt.masked_select else [0 if call is mt.masked_fill else x]))


def test_narrow_starts_at_a_number():
    pytest.importorskip("metatensor_cpu")
    x = mt.arange(4)
    assert x.narrow(0, mt.tensor(1), 2).tolist() == [1, 2] == x.narrow(0, 1, 2).tolist()
    for start in (mt.tensor([1]), mt.tensor([[1]]), mt.tensor(1.0), mt.tensor(True)):
        with pytest.raises(RuntimeError, match="0-d integer"):
            x.narrow(0, start, 2)


@pytest.mark.parametrize("device", ["meta", "cpu"])
@pytest.mark.parametrize(("shape", "lengths"), [((2, 3), (4, 4)), ((2, 3), (-1, 2)), ((7,), (4, 4)), ((8,), (3, 4))])
def test_targets_of_ctc_loss_fit_their_table(device, shape, lengths):
    if device == "cpu":
        pytest.importorskip("metatensor_cpu")
    scores, targets = mt.zeros(5, 2, 4, device=device), mt.ones(shape, dtype=mt.int64, device=device)
    with pytest.raises(RuntimeError, match="ctc_loss"):
        mt.nn.functional.ctc_loss(scores, targets, (5, 5), lengths)
    if device == "cpu":
        with pytest.raises(RuntimeError, match="ctc_loss"):
            mt.nn.functional.ctc_loss(scores, targets, mt.tensor((5, 5)), mt.tensor(lengths))


def test_ctc_loss_of_targets_that_fit():
    scores = mt.zeros(5, 2, 4, device="meta")
    for shape, lengths in (((2, 3), (3, 0)), ((7,), (3, 4))):
        targets = mt.ones(shape, dtype=mt.int64, device="meta")
        assert mt.nn.functional.ctc_loss(scores, targets, (5, 5), lengths, reduction="none").shape == (2,)
