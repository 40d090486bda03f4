"""The Python interface of safetensors, which is written for PyTorch, with metatensor."""

import pytest

from torch_api.process import run

pytest.importorskip("safetensors")


@pytest.mark.slow
def test_files(tmp_path):
    out = run(f"""
        from metatensor import torch_api
        torch_api.install()
        import torch
        from safetensors import safe_open
        from safetensors.torch import load, load_file, save, save_file
        path = {str(tmp_path / "x.safetensors")!r}
        tensors = {{
            "a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(3, dtype=torch.bfloat16), "c": torch.tensor([1, 2]),
            "d": torch.tensor(2.5), "e": torch.zeros(0, 3), "f": torch.ones(4).to(torch.float8_e4m3fn), "g": torch.tensor([True]),
        }}
        save_file(tensors, path, metadata={{"key": "value"}})
        for again in (load_file(path), load(save(tensors))):
            for name, tensor in tensors.items():
                assert again[name].dtype is tensor.dtype and again[name].shape == tensor.shape, name
                assert again[name].float().tolist() == tensor.float().tolist(), name
        with safe_open(path, framework="pt") as file:
            assert sorted(file.keys()) == sorted(tensors) and file.metadata() == {{"key": "value"}}
            part = file.get_slice("a")
            print(part.get_shape(), part[:, 1:2].tolist())
    """)
    assert out == "[2, 3] [[1.0], [4.0]]"


@pytest.mark.slow
def test_models(tmp_path):
    run(f"""
        from metatensor import torch_api
        torch_api.install()
        import torch
        from safetensors.torch import load_model, save_file, save_model
        path = {str(tmp_path / "x.safetensors")!r}
        tied = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
        tied[1].weight = tied[0].weight
        save_model(tied, path)
        other = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
        other[1].weight = other[0].weight
        assert load_model(other, path) == (set(), [])
        assert other[1].weight is other[0].weight and torch.equal(other[0].weight, tied[0].weight)
        try:
            save_file({{"a": tied[0].weight, "b": tied[1].weight}}, path)
        except RuntimeError as error:
            assert "share memory" in str(error)
        else:
            raise AssertionError
    """)
