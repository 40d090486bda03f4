"""Models that PyTorch exports, compared with PyTorch."""

import pytest

onnx = pytest.importorskip("onnx")
np = pytest.importorskip("numpy")
pytest.importorskip("metatensor_cpu")

import metatensor as mt
from metatensor.program import OnnxModel, from_onnx
from program.onnx import models

pytestmark = pytest.mark.torch


def convolutional(torch):
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.ConvTranspose2d(8, 4, 2, 2), nn.GroupNorm(2, 4),
        nn.SiLU(), nn.Upsample(scale_factor=2, mode="bilinear"), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5), nn.LogSoftmax(1),
    )  # fmt: skip


def transformer(torch):
    nn = torch.nn
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu", norm_first=True)
    return nn.Sequential(nn.Embedding(50, 16), nn.TransformerEncoder(layer, 2), nn.Linear(16, 50))


def recurrent(torch):
    class Recurrent(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = torch.nn.LSTM(8, 16, 2, bidirectional=True, batch_first=True)
            self.gru = torch.nn.GRU(32, 8)
            self.rnn = torch.nn.RNN(8, 4, batch_first=True)

        def forward(self, x):
            y, (h, c) = self.lstm(x)
            z, _ = self.gru(y)
            return self.rnn(z)[0], h, c

    return Recurrent()


def arithmetic(torch):
    class Arithmetic(torch.nn.Module):
        def forward(self, x):
            b, c, h, w = x.shape
            cut = x[:, 1:, ::2, -3:]
            half = torch.nn.functional.pad(cut, (1, 0, 2, 1), mode="reflect")
            flat = x.reshape(b, c * h, w).permute(0, 2, 1)
            mask = torch.ones(w, w).tril().bool()
            scores = (flat @ flat.transpose(1, 2) / h**0.5).masked_fill(~mask, float("-inf")).softmax(-1)
            best = scores[:, 2:].topk(2)[1]  # the first rows have ties
            return half, scores, best, torch.gather(flat, 1, best[..., :1].expand(-1, -1, flat.shape[2])), x.std((2, 3)), x.cumsum(3)

    return Arithmetic()


CASES = {
    convolutional: ((2, 3, 16, 16), {0: "batch"}), transformer: ((2, 7), {0: "batch"}), recurrent: ((2, 5, 8), {0: "batch"}),
    arithmetic: ((2, 3, 6, 8), {0: "batch", 2: "h"}),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_like_pytorch(make, tmp_path):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = make(torch).eval()
    shape, names = CASES[make]
    x = torch.randint(0, 50, shape) if make is transformer else torch.randn(shape)
    path = str(tmp_path / "model.onnx")
    torch.onnx.export(net, (x,), path, input_names=["x"], dynamic_axes={"x": names}, dynamo=False, opset_version=17)
    other = torch.cat([x, x.flip(0)])[:3]  # another size of the batch
    wanted = net(other)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    given = mt.from_numpy(other.numpy())
    program = from_onnx(path, sizes={name: other.shape[d] for d, name in names.items()})
    for found in (OnnxModel(path, device="cpu")(given), program(given)):
        found = found if isinstance(found, tuple) else (found,)
        for one, value in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one.numpy(), value.detach().numpy(), rtol=1e-4, atol=1e-5)
    rows = OnnxModel(path, device="meta").shapes()
    assert not [row for row in rows if row.reason]
    assert rows[-1].shape[0] == "batch" or make is recurrent
    made = onnx.load(path)
    missing = {name for one in made.graph.node for name in one.output if name} - models.inferred(made)
    assert len(missing) >= 2  # onnx.shape_inference does not find their shapes
