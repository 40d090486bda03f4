"""What storages can do besides being there."""

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
