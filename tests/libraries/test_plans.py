"""Models of transformers, planned and trained in the planned layouts on simulated ranks. Needs transformers."""

import json

import pytest

from libraries.test_distributed import needs, run


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_models_train_as_in_one_process(name):
    needs("transformers")
    found = json.loads(run("-m", "libraries.planned", name).splitlines()[-1])
    alone = found["alone"]
    assert alone[1] < alone[0] and "the model is called with use_cache=False" in found["remarks"]
    assert len(found["layouts"]) == 5
    for losses in found["layouts"].values():
        assert losses == [pytest.approx(alone, rel=1e-5)] * 4
