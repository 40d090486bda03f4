"""Lightning, accelerate and torchmetrics run a forward loop without PyTorch. The tests need the packages of training.txt."""

import importlib.util
import subprocess
import sys
import textwrap

import pytest

START = """
from metatensor import torch_api
torch_api.install()
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
data = DataLoader(TensorDataset(torch.randn(32, 8), torch.arange(32) % 3), batch_size=8)
"""
SCRIPTS = {
    "torchmetrics": """
        import torchmetrics
        task = {"task": "multiclass", "num_classes": 3}
        metrics = torchmetrics.MetricCollection([
            torchmetrics.Accuracy(**task), torchmetrics.F1Score(**task), torchmetrics.AUROC(**task)])
        for x, y in data:
            metrics.update(nn.functional.one_hot(y, 3).float(), y)
        print({name: value.item() for name, value in metrics.compute().items()})
    """,
    "accelerate": """
        from accelerate import Accelerator, init_empty_weights
        accelerator = Accelerator(cpu=True)
        model, loader = accelerator.prepare(nn.Linear(8, 3), data)
        with torch.no_grad():
            print([tuple(accelerator.gather_for_metrics(model(x)).shape) for x, _ in loader])
        with init_empty_weights():
            print(nn.Linear(10000, 10000).weight.device)
    """,
    "lightning": """
        import lightning
        class Model(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(8, 3)
            def forward(self, x):
                return self.layer(x)
            def validation_step(self, batch, number):
                loss = nn.functional.cross_entropy(self(batch[0]), batch[1])
                self.log("loss", loss)
            def predict_step(self, batch, number):
                return self(batch[0])
        trainer = lightning.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
        model = Model()
        print(trainer.validate(model, data, verbose=False)[0]["loss"] > 0, len(trainer.predict(model, data)))
        fabric = lightning.Fabric(accelerator="cpu")
        print(tuple(fabric.setup(nn.Linear(8, 3))(next(iter(fabric.setup_dataloaders(data)))[0]).shape))
    """,
}
EXPECTED = {
    "torchmetrics": "{'MulticlassAccuracy': 1.0, 'MulticlassF1Score': 1.0, 'MulticlassAUROC': 1.0}",
    "accelerate": "[(8, 3), (8, 3), (8, 3), (8, 3)]\nmeta",
    "lightning": "True 4\n(8, 3)",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_forward_loop(name):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")
    code = START + textwrap.dedent(SCRIPTS[name])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith(EXPECTED[name])
