"""Scripts that work with ``torch.fx`` return with metatensor what they return with PyTorch."""

import pytest

from metatensor.program import fx
from metatensor.torch_api import torch as ours
from program import fx_running_scripts, fx_scripts, fx_tutorial_scripts

pytest.importorskip("metatensor_cpu")
SCRIPTS = (*fx_scripts.SCRIPTS, *fx_running_scripts.SCRIPTS, *fx_tutorial_scripts.SCRIPTS)


@pytest.mark.torch
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
@pytest.mark.filterwarnings("ignore")
def test_scripts_return_what_they_return_with_pytorch(script):
    import torch
    import torch.fx

    assert script(ours, fx) == script(torch, torch.fx)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_scripts_run(script):
    assert script(ours, fx)
