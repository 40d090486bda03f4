"""Methods of storages."""

import copy
import sys

import pytest

import metatensor as mt


def test_parts_share_memory():
    x = mt.arange(8, dtype=mt.uint8)
    storage = x.untyped_storage()
    assert storage[3] == 3 and storage.tolist() == list(range(8)) and storage.untyped() is storage
    part = storage[2:5]
    mt.asarray(part, dtype=mt.uint8)[0] = 77
    assert x[2].item() == 77 and part.nbytes() == 3 and storage[5:5].nbytes() == 0
    assert storage.clone().tolist() == storage.tolist() and storage.clone() is not storage
    assert storage.cpu() is storage and storage.element_size() == 1
    with pytest.raises(RuntimeError, match="step 1"):
        storage[::2]
    with pytest.raises(IndexError):
        storage[8]


def test_on_meta():
    storage = mt.empty(4, device="meta").untyped_storage()
    assert storage[4:12].nbytes() == 8 and storage[4:12].device.type == "meta"
    with pytest.raises(NotImplementedError):
        storage[0]
    assert mt.asarray(storage, dtype=mt.uint8).shape == (16,)


def test_files(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(10)))
    storage = mt.UntypedStorage.from_file(str(path), shared=False, nbytes=8)
    assert storage.tolist() == list(range(8))
    mt.asarray(storage, dtype=mt.uint8)[0] = 9
    assert path.read_bytes()[0] == 0, "not shared"
    shared = mt.UntypedStorage.from_file(path, True, 12)
    mt.asarray(shared, dtype=mt.uint8)[11] = 5
    del shared
    assert path.read_bytes() == bytes(range(10)) + b"\0\5"
    assert mt.UntypedStorage.from_file(path, nbytes=0).nbytes() == 0
    with pytest.raises(RuntimeError, match="has 12"):
        mt.UntypedStorage.from_file(path, nbytes=13)
    with pytest.raises(RuntimeError, match="negative"):
        mt.UntypedStorage.from_file(path, nbytes=-1)
    with pytest.raises(OSError):
        mt.UntypedStorage.from_file(tmp_path / "none", nbytes=1)


# Storages as elements -----------------------------------------------------------------


def test_a_storage_is_read_as_elements_of_the_dtype():
    base = mt.ones(3, device="cpu")
    untyped, typed = base.untyped_storage(), base.storage()
    for make in (mt.tensor, mt.as_tensor, mt.asarray, mt.ones(1, device="cpu").new_tensor):
        for storage in (untyped, typed):
            found = make(storage, dtype=mt.float32)
            assert found.dtype is mt.float32 and found.tolist() == [1, 1, 1] and found.untyped_storage() is untyped
    assert mt.tensor(untyped).dtype is mt.int64 and mt.tensor(untyped).shape == (1,)
    assert mt.tensor(typed).dtype is mt.float32 and mt.tensor(mt.ones(2, dtype=mt.int64, device="cpu").storage()).tolist() == [1, 1]
    assert mt.tensor(typed, device="meta").shape == (3,)
    for wrong in (lambda: mt.tensor(typed, dtype=mt.int32), lambda: mt.tensor(mt.ones(2, dtype=mt.float64, device="cpu").storage())):
        with pytest.raises(RuntimeError, match="the storage has dtype .*float.* was requested"):
            wrong()


def test_set_takes_no_typed_storage_of_another_dtype():
    base = mt.ones(3, device="cpu")
    ints = mt.empty(0, dtype=mt.int32, device="cpu")
    for args in ((base.storage(),), (base.storage(), 0, (2,))):
        with pytest.raises(RuntimeError, match=r"set_\(\): storage and tensor must have the same dtype, got float32 and int32"):
            ints.set_(*args)
    assert ints.set_(base.untyped_storage()).tolist() == [0x3F800000] * 3
    assert mt.empty(0, device="cpu").set_(base.storage(), 0, (2,)).tolist() == [1, 1]


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1), (1, 0, 2)])
def test_deepcopy_keeps_tensors_and_storages_on_one_storage(order):
    tensor = mt.ones(3, device="cpu")
    parts = [tensor, tensor.untyped_storage(), tensor.storage()]
    copies = dict(zip(order, copy.deepcopy([parts[i] for i in order]), strict=True))
    assert copies[0].untyped_storage() is copies[1] is copies[2].untyped()
    assert copies[1] is not parts[1]
    copies[0].fill_(5)
    assert copies[2].tolist() == [5, 5, 5] and tensor.tolist() == [1, 1, 1]


def test_set_without_arguments_leaves_an_empty_tensor(device):
    t = mt.ones(3, device=device)
    t.set_()
    assert t.shape == (0,) and t.tolist() == [] and t.untyped_storage().nbytes() == 0
    t.resize_(2).fill_(4)
    assert t.tolist() == [4, 4]


def test_untyped_storages_of_bytes():
    storage = mt.UntypedStorage(4, device="cpu").fill_(3)
    storage[1] = 7
    assert storage.tolist() == [3, 7, 3, 3] and storage.resizable() and mt.UntypedStorage([1, 2]).tolist() == [1, 2]
    copied = copy.copy(storage)
    storage.copy_(mt.UntypedStorage([9, 8, 7, 6]))
    with pytest.raises(TypeError, match="expected a storage, got Tensor"):
        storage.copy_(mt.zeros(4, dtype=mt.uint8, device="cpu"))
    assert copied.tolist() == [3, 7, 3, 3] and storage.tolist() == [9, 8, 7, 6]
    assert sys.getsizeof(mt.UntypedStorage(1000)) - sys.getsizeof(mt.UntypedStorage(0)) == 1000
    storage.byteswap(mt.int16)
    assert storage.tolist() == [8, 9, 6, 7]
    with pytest.raises(RuntimeError, match="not a multiple"):
        storage.byteswap(mt.int64)
    on_meta = mt.UntypedStorage(4, device="meta")
    assert on_meta.nbytes() == 4 and on_meta.data_ptr() == 0
    for read in (lambda: on_meta[0], lambda: mt.empty(0, device="meta").storage()[0]):
        with pytest.raises(NotImplementedError, match="no data"):
            read()


def test_typed_storages_convert():
    storage = mt.tensor([-1, 0, 2], dtype=mt.int32, device="cpu").storage()
    assert storage.type() == "torch.IntStorage" and storage.half().type() == "torch.HalfStorage"
    assert storage.float().tolist() == [-1, 0, 2] and storage.type(mt.float64).dtype is mt.float64
    doubles = mt.empty(3, dtype=mt.float64, device="cpu").storage().copy_(storage)
    assert doubles.tolist() == [-1, 0, 2] and copy.copy(storage).data_ptr() != storage.data_ptr()


def test_another_shape_in_set_needs_a_larger_storage():
    t = mt.ones(1, device="cpu")
    t.set_(t.untyped_storage(), 5, (2, 3))
    assert t.shape == (2, 3) and t.untyped_storage().nbytes() == 44
    with pytest.raises(RuntimeError, match="the layout needs"):
        t.set_(t.untyped_storage(), 6, (2, 3))


def test_sharing_a_storage_shares_all_tensors_over_it():
    x = mt.arange(6.0)
    part, typed = x[2:], x.storage()
    assert not (x.untyped_storage().is_shared() or typed.is_shared() or part.is_shared())
    assert typed.share_memory_() is typed
    assert typed.is_shared() and x.is_shared() and part.is_shared() and x.untyped_storage().is_shared()
    part[0] = 9
    assert x.tolist() == [0, 1, 9, 3, 4, 5]
    with pytest.raises(RuntimeError, match="without data"):
        mt.empty(2, device="meta").untyped_storage().share_memory_()


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_a_released_storage_is_another_one_for_memory_trackers(device):
    from metatensor._core.storage import refill, release, restore_version, visible_version

    x = mt.ones(4, device=device)
    storage = x.untyped_storage()
    with mt.analysis.MemoryLog() as log:
        release(storage)
        assert storage.nbytes() == 0
        refill(storage, 16)
        version = visible_version(storage)
        x.fill_(3)
        restore_version(storage, version)
        release(storage)
        refill(storage, 16)
    assert x._version == 0 and storage.nbytes() == 16 and log.current == 16
    assert [(event.kind, event.change) for event in log.events()] == [("birth", 16), ("death", -16), ("birth", 16)]
    assert x.fill_(2)._version == 1
    del x, storage
    assert log.current == 0
