"""Print the nodes of torchvision's models, and the shapes of some of their results on meta, as JSON.

Run by `test_feature_extraction`, and with PyTorch itself to write ``features.json``::

    python tests/libraries/features.py record > tests/libraries/features.json
"""

import hashlib
import json
import re
import sys
import warnings
from importlib import util
from pathlib import Path

MODELS = """
alexnet convnext_tiny densenet121 efficientnet_b0 efficientnet_b3 efficientnet_v2_s googlenet inception_v3 maxvit_t mnasnet0_5 mnasnet0_75
mnasnet1_0 mnasnet1_3 mobilenet_v2 mobilenet_v3_large mobilenet_v3_small regnet_x_400mf regnet_y_400mf regnet_y_800mf resnet101 resnet18
resnet34 resnet50 resnext101_32x8d resnext50_32x4d shufflenet_v2_x0_5 shufflenet_v2_x1_0 shufflenet_v2_x1_5 shufflenet_v2_x2_0
squeezenet1_0 squeezenet1_1 swin_s swin_t swin_v2_t vgg11 vgg13 vgg16_bn vgg19 vit_b_16 wide_resnet50_2
""".split()


def declare(torch):
    """Declare the operators of torchvision, whose compiled part may be missing beside PyTorch."""
    text = (Path(util.find_spec("torchvision").origin).parent / "_meta_registrations.py").read_text()
    library = torch.library.Library("torchvision", "DEF")
    for name in sorted({"nms", "qnms", *re.findall(r'register_meta\("(\w+)"\)', text)}):
        library.define(f"{name}(Tensor x) -> Tensor")
    return library


def measure(name):
    """Return digests of the names of nodes in training and in evaluation, and shapes of some results."""
    import torch
    from torchvision import models
    from torchvision.models.feature_extraction import create_feature_extractor, get_graph_node_names

    options = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    if name.startswith("regnet"):  # it reads numbers from tensors while it is built
        model = models.get_model(name, weights=None, **options).to("meta")
    else:
        with torch.device("meta"):
            model = models.get_model(name, weights=None, **options)
    model.eval()
    train, evaluation = get_graph_node_names(model)
    wanted = [evaluation[len(evaluation) * i // 7] for i in range(1, 7)] + evaluation[-1:]
    size = 299 if name == "inception_v3" else 224
    extractor = create_feature_extractor(model, list(dict.fromkeys(wanted)))
    results = extractor(torch.empty(2, 3, size, size, device="meta"))
    digests = [hashlib.sha256(" ".join(names).encode()).hexdigest()[:16] for names in (train, evaluation)]
    return [len(train), len(evaluation), *digests, {key: list(getattr(value, "shape", ())) for key, value in results.items()}]


def main():
    warnings.simplefilter("ignore")
    if sys.argv[1:] == ["record"]:
        import torch

        kept = declare(torch)
    else:
        from metatensor import torch_api

        kept = torch_api.install()
    found = {name: measure(name) for name in sys.argv[1:] if name != "record"} or {name: measure(name) for name in MODELS}
    print("{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in found.items()) + "\n}")
    return kept


if __name__ == "__main__":
    main()
