"""frombuffer: tensors over the memory of other objects."""

import array

import pytest

import metatensor as mt

BYTES = bytearray(range(16))


@pytest.mark.torch
@pytest.mark.parametrize(
    "options",
    [
        {"dtype": "uint8"}, {"dtype": "float32"}, {"dtype": "bfloat16", "count": 2, "offset": 4}, {"dtype": "int64", "offset": 4},
        {"dtype": "int64", "offset": 8}, {"dtype": "int64", "count": 3}, {"dtype": "int64", "count": 0}, {"dtype": "int16", "count": -2},
        {"dtype": "int64", "offset": 16}, {"dtype": "int64", "offset": -1}, {"dtype": "int16", "offset": 1, "count": 2},
        {"dtype": "bool", "offset": 1, "count": 3}, {"dtype": "complex64"}, {"dtype": "int8", "requires_grad": True},
        {"dtype": "float32", "requires_grad": True},
    ],
)  # fmt: skip
@pytest.mark.parametrize("buffer", [BYTES, array.array("i", [1, 2, 3, 4]), bytearray(), 3])
def test_as_pytorch(options, buffer):
    import torch

    results = []
    for m in (torch, mt):
        try:
            t = m.frombuffer(buffer, **options | {"dtype": getattr(m, options["dtype"])})
            results.append((t.tolist(), t.stride(), t.requires_grad))
        except (RuntimeError, ValueError) as error:
            results.append(type(error))
    assert results[0] == results[1]


def test_memory_is_shared():
    data = bytearray(4)
    t = mt.frombuffer(data, dtype=mt.int16)
    t[1] = 258
    assert data == bytearray([0, 0, 2, 1])
    with pytest.raises(ValueError, match="no buffer"):
        mt.frombuffer([1, 2], dtype=mt.int8)
