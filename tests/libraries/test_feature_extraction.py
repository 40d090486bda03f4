"""Feature extractors of torchvision and timm, which trace models: the nodes and shapes are those recorded with PyTorch."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
RECORD = json.loads((HERE / "features.json").read_text())


def run(arguments):
    path = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


FEW = "alexnet googlenet mobilenet_v3_small resnet18 squeezenet1_1 swin_t vgg11 vit_b_16".split()
REST = [name for name in RECORD if name not in FEW]


@pytest.mark.parametrize("names", [FEW, pytest.param(REST, marks=pytest.mark.slow)], ids=["few", "rest"])
def test_nodes_of_torchvision(names):
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed; make test-libraries installs it")
    found = json.loads(run([str(HERE / "features.py"), *names]))
    assert {name: found[name] for name in names if found[name] != RECORD[name]} == {}


TIMM = """
import sys
import metatensor.torch_api
metatensor.torch_api.install()
import timm, torch
from timm.layers import create_feature_extractor, get_graph_node_names
from timm.models._features_fx import FeatureGraphNet
for name in sys.argv[1:]:
    with torch.device("meta"):
        model = timm.create_model(name).eval()
    _, nodes = get_graph_node_names(model)
    x = torch.empty(2, *model.default_cfg["input_size"], device="meta")
    assert create_feature_extractor(model, {nodes[-1]: "last"})(x)["last"].shape == model(x).shape, name
with torch.device("meta"):
    features = FeatureGraphNet(timm.create_model("resnet18"), out_indices=(1, 2, 3))
shapes = [tuple(one.shape) for one in features(torch.empty(1, 3, 224, 224, device="meta"))]
assert shapes == [(1, 64, 56, 56), (1, 128, 28, 28), (1, 256, 14, 14)]
"""


def test_nodes_of_timm():
    if importlib.util.find_spec("timm") is None:
        pytest.skip("timm is not installed; make test-libraries installs it")
    run(["-c", TIMM, "resnet18", "efficientnet_b0", "convnext_atto", "vit_tiny_patch16_224", "levit_128s", "botnet26t_256"])
