"""Functions of the torch namespace that are not operators."""

import pytest

import metatensor as mt
from metatensor.torch_api import torch


def test_typed_tensors():
    assert torch.LongTensor([1, 2]).dtype is mt.int64 and torch.FloatTensor(2, 3).shape == (2, 3)
    assert torch.FloatTensor().shape == (0,) and torch.BoolTensor(mt.Size([2])).dtype is mt.bool
    x = mt.ones(2)
    assert isinstance(x, torch.FloatTensor) and not isinstance(x, torch.LongTensor)
    assert not isinstance(mt.ones(2, device="meta"), torch.FloatTensor)
    assert torch.FloatTensor(x).data_ptr() == x.data_ptr()
    assert x.type(torch.LongTensor).dtype is mt.int64
    with pytest.raises(TypeError, match="LongTensor"):
        torch.LongTensor(x)
    with pytest.raises(TypeError):
        torch.FloatTensor([1.0], [2.0])
    with pytest.raises(TypeError, match="invalid type"):
        torch.set_default_tensor_type("torch.NoTensor")


def test_like_pytorchs_typed_tensors():
    real = pytest.importorskip("torch")
    for name in ("FloatTensor", "LongTensor", "BoolTensor", "HalfTensor", "DoubleTensor", "IntTensor", "ByteTensor"):
        for args in ((), (2,), (2, 3), ([1, 0],), ([[1, 0], [1, 1]],)):
            ours, theirs = getattr(torch, name)(*args), getattr(real, name)(*args)
            assert ours.shape == tuple(theirs.shape) and str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]


def test_checks():
    torch._check(True)
    torch._assert(mt.empty(1, device="meta") > 0, "without data there is nothing to check")
    for function, kind in ((torch._check, RuntimeError), (torch._check_index, IndexError), (torch._check_value, ValueError),
                           (torch._check_type, TypeError), (torch._check_not_implemented, NotImplementedError)):  # fmt: skip
        with pytest.raises(kind, match="why"):
            function(False, lambda: "why")
    with pytest.raises(TypeError, match="bool"):
        torch._check(1)
    with pytest.raises(AssertionError, match="no"):
        torch._assert(mt.zeros(1), "no")
    with pytest.raises(RuntimeError):
        torch._check_is_size(-1)
    with pytest.raises(RuntimeError):
        torch._check_tensor_all(mt.tensor([True, False]))


def test_compile_returns_what_it_gets():
    def function(x):
        return x

    assert torch.compile(function) is function and torch.compile(mode="max-autotune")(function) is function
    assert not torch.jit.is_scripting() and not torch.compiler.is_compiling()
    assert torch.jit.isinstance([1], list[int]) and not torch.jit.isinstance(["a"], list[int])


def test_settings():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    assert torch.get_num_threads() == 3
    torch.set_num_threads(before)
    with pytest.raises(RuntimeError):
        torch.set_num_threads(0)
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.are_deterministic_algorithms_enabled() and torch.get_deterministic_debug_mode() == 1
    torch.set_deterministic_debug_mode("default")
    assert torch.get_deterministic_debug_mode() == 0
    torch.set_float32_matmul_precision("high")
    assert torch.get_float32_matmul_precision() == "high"
    with pytest.raises(RuntimeError):
        torch.set_float32_matmul_precision("low")
    torch.set_float32_matmul_precision("highest")


def test_foreach():
    one, two = mt.tensor([1.0, 2.0]), mt.tensor([3.0])
    assert [t.tolist() for t in torch._foreach_add([one, two], 1.0)] == [[2.0, 3.0], [4.0]]
    assert [t.tolist() for t in torch._foreach_add([one, two], [one, two], alpha=2)] == [[3.0, 6.0], [9.0]]
    torch._foreach_mul_([one, two], [2.0, 3.0])
    assert (one.tolist(), two.tolist()) == ([2.0, 4.0], [9.0])
    torch._foreach_maximum_([one], 3.0)
    assert one.tolist() == [3.0, 4.0]
    assert [t.item() for t in torch._foreach_norm([mt.tensor([3.0, 4.0])])] == [5.0]
    with pytest.raises(RuntimeError, match="equal length"):
        torch._foreach_add([one, two], [one])


def test_typename():
    assert torch.typename(mt.ones(1)).endswith("FloatTensor") and torch.typename(mt.nn.Linear(1, 1)).endswith(".Linear")
    assert torch.typename(3) == "int"


def test_tensors_seldom_used_methods():
    x = mt.tensor([1.0, 4.0])
    assert x.new(2, 3).shape == (2, 3) and x.new([1, 2]).tolist() == [1.0, 2.0] and x.new().shape == (0,)
    assert mt.empty(2, device="meta").new(3).is_meta
    assert x.clone().apply_(lambda v: v + 1).tolist() == [2.0, 5.0]
    assert x.clone().map_(mt.ones(2), lambda a, b: a - b).tolist() == [0.0, 3.0]
    with pytest.raises(TypeError, match="cpu only"):
        mt.empty(2, device="meta").apply_(abs)
    storage = x.storage()
    assert len(storage) == 2 and list(storage) == [1.0, 4.0] and storage.dtype is mt.float32 and storage[1] == 4.0
    storage[0] = 7.0
    assert x[0].item() == 7.0
    x.requires_grad_()
    handle = x.register_hook(print)
    handle.remove()
    handle.remove()
    with pytest.raises(RuntimeError, match="require grad"):
        mt.ones(1).register_hook(print)


@pytest.mark.parametrize("device", ["cpu", "disk"])
def test_new_memory_is_filled_in_the_deterministic_mode(device):
    torch.use_deterministic_algorithms(True)
    try:
        made = [torch.empty(3, device=device), torch.empty_like(torch.ones(2, device=device)), torch.empty_strided((2,), (3,))]
        assert all(t.isnan().all() for t in made)
        assert torch.empty(2, dtype=torch.int8, device=device).tolist() == [127, 127]
        assert torch.empty(2, dtype=torch.bool, device=device).all()
        grown = torch.ones(2).resize_(4)
        assert grown[:2].tolist() == [1, 1] and grown[2:].isnan().all()
        torch.utils.deterministic.fill_uninitialized_memory = False
        assert not torch.utils.deterministic.fill_uninitialized_memory
        assert torch.ones(8).resize_(8).tolist() == [1] * 8
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True
        torch.use_deterministic_algorithms(False)
    with pytest.raises(TypeError, match="bool"):
        torch.use_deterministic_algorithms(1)
    with pytest.raises(TypeError, match="bool"):
        torch.utils.deterministic.fill_uninitialized_memory = 1


def test_files_as_tensors_and_storages(tmp_path):
    path = str(tmp_path / "numbers")
    written = torch.from_file(path, True, 4, dtype=torch.float32)
    written.copy_(torch.arange(4.0))
    assert torch.from_file(path, False, 3).tolist() == torch.FloatStorage.from_file(path, False, 3).tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="cpu only"):
        torch.from_file(path, size=1, device="meta")


def test_storages_from_buffers():
    data = bytearray([1, 2, 3, 4])
    assert torch.ByteStorage.from_buffer(data).tolist() == [1, 2, 3, 4]
    assert torch.ShortStorage.from_buffer(data, "big").tolist() == [258, 772]
    assert torch.ShortStorage.from_buffer(data, "little", count=1, offset=2).tolist() == [1027]
    for arguments in (("middle",), ("big", -1, 1), ("big", 3)):
        with pytest.raises(ValueError, match="from_buffer"):
            torch.ShortStorage.from_buffer(data, *arguments)


def test_what_the_library_was_built_with():
    assert "numpy" in torch.__config__.show() and "threads" in torch.__config__.parallel_info()
