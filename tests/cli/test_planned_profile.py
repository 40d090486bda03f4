"""``metatensor run --device meta --profile``: what the training steps of a script cost."""

import json
import textwrap

import pytest

import metatensor as mt
from cli.test_process import python
from metatensor import nn

pytest.importorskip("click")
pytest.importorskip("rich")
pytest.importorskip("metatensor_cpu")

MODEL = """
import torch
from torch import nn

model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
"""
LOOP = MODEL + """
model.cuda()
optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
data, labels = torch.randn(1000, 64), torch.randint(0, 10, (1000,))
for i in range(0, 96, 32):
    x, y = data[i:i + 32].cuda(), labels[i:i + 32].cuda()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    print("loss", loss.item())
print("end")
"""


def profiled(tmp_path, code, *options):
    (tmp_path / "train.py").write_text(textwrap.dedent(code))
    result = python("-m", "metatensor", "run", "--device", "meta", "--profile", "--json", "report.json", *options, "train.py", cwd=tmp_path)
    path = tmp_path / "report.json"
    return result, json.loads(path.read_text()) if path.exists() else None


@pytest.mark.slow
def test_a_step_costs_what_estimate_says(tmp_path):
    result, found = profiled(tmp_path, LOOP, "--device-profile", "h100-80gb")
    assert result.returncode == 0 and result.stdout.endswith("loss 1.0\nend\n"), result.stderr
    with mt.device("meta"):
        model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
        x, y = mt.empty(32, 64), mt.empty(32, dtype=mt.int64)
        report = mt.analysis.estimate_training(model, x, loss=lambda out: nn.functional.cross_entropy(out, y), device="h100-80gb",
                                               optimizer=lambda params: mt.optim.AdamW(params, foreach=True))  # fmt: skip
    assert found["trainable_parameters"] == report.trainable_parameters and found["frozen_parameters"] == 0
    for phase in ("forward", "backward", "optimizer"):
        assert found[f"{phase}_flops"] == getattr(report, f"{phase}_flops"), phase
    # At the peak, in the optimizer, the script also has the labels and the loss. AdamW's counters of steps are on the host.
    assert found["total_bytes"] == report.total_bytes + 32 * 8 + 4 - 4 * 4
    categories = found["peak_by_category"]
    assert categories["parameter"] == report.parameter_bytes and categories["gradient"] == report.gradient_bytes
    assert categories["optimizer state"] == report.optimizer_bytes - 4 * 4 and categories["input"] == 32 * 64 * 4
    assert sum(categories.values()) == found["total_bytes"] == found["peak"]["bytes"]
    assert found["peak"]["location"].endswith("train.py:15")
    assert 0.8 * report.time.optimizer < found["time"]["optimizer"] <= report.time.optimizer
    assert found["host_peak_bytes"] >= 1000 * 64 * 4 and found["steps_recognised"] and found["all_steps"]
    assert [step["optimizer_steps"] for step in found["steps"]] == [1, 1, 1]


@pytest.mark.slow
def test_the_report(tmp_path):
    result, _ = profiled(tmp_path, LOOP, "--device-profile", "h100-80gb")
    lines = [" ".join(line.split()) for line in result.stderr.splitlines()]
    assert "train.py: training step 3 of 3 recorded, with AdamW" in lines and "FLOPs, computed again" not in result.stderr
    for start in ("trainable parameters 19.2 K", "at the peak, parameter 76.8 KB", "at the peak, gradient 76.8 KB", "peak memory",
                  "FLOPs, forward 1.21 M", "time of a step", "peak: ", "at the peak, by line: train.py:15 ",
                  "not included: tensors that the script has on the host, at most 2", "step optimizer.step peak memory"):  # fmt: skip
        assert any(line.startswith(start) for line in lines), start
    assert lines[-2].startswith("1 once") and lines[-1].startswith("2 to 3 once")


@pytest.mark.slow
def test_the_script_ends_after_the_steps(tmp_path):
    code = LOOP.replace("range(0, 96, 32)", "range(0, 960, 32)") + "\nassert False"
    result, found = profiled(tmp_path, code, "--steps", "2")
    assert result.returncode == 0 and result.stdout == "loss 1.0\n" and len(found["steps"]) == 2 and found["time"] is None


@pytest.mark.slow
def test_a_script_that_catches_everything_ends_as_well(tmp_path):
    code = MODEL + """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(50):
    try:
        model(torch.randn(4, 64)).sum().backward()
        optimizer.step()
    except:
        pass
    print(i)
"""
    result, found = profiled(tmp_path, code, "--steps", "2")
    assert result.returncode == 0 and len(found["steps"]) == 2 and len(result.stdout.splitlines()) == 50
    assert found["host_peak_bytes"] is None and "moved no tensor to a GPU" in result.stderr


@pytest.mark.slow
def test_the_first_steps_are_recorded(tmp_path):
    result, found = profiled(tmp_path, LOOP.replace("range(0, 96, 32)", "range(0, 960, 32)"))
    assert result.stdout.endswith("end\n") and len(found["steps"]) == 10 and not found["all_steps"]
    assert "only the first 10 steps were recorded" in result.stderr


@pytest.mark.slow
def test_accumulation_and_evaluation(tmp_path):
    code = LOOP.replace("    optimizer.step()", "    if i == 64:\n        optimizer.step()") + """
with torch.no_grad():
    model(torch.randn(100_000, 64, device="cuda"))
"""
    _, found = profiled(tmp_path, code)
    assert len(found["steps"]) == 1 and found["forward_flops"] == 3 * 2 * 32 * (64 * 256 + 256 * 10)
    assert found["run_peak_bytes"] > 100_000 * (64 + 256) * 4 > found["total_bytes"]


@pytest.mark.slow
def test_adversaries_share_a_step(tmp_path):
    code = """
    import torch
    from torch import nn

    maker, judge = nn.Linear(8, 64).cuda(), nn.Linear(64, 1).cuda()
    first, second = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge.parameters())
    for _ in range(4):
        made = maker(torch.randn(16, 8, device="cuda"))
        judge(made).mean().backward()
        first.step()
        second.zero_grad()
        judge(made.detach()).mean().backward()
        second.step()
    """
    _, found = profiled(tmp_path, code, "--steps", "3")
    assert [step["optimizer_steps"] for step in found["steps"]] == [2, 2, 2]
    assert found["forward_flops"] == 2 * 16 * (8 * 64 + 64 + 64) and found["optimizer"] == "Adam"


@pytest.mark.slow
def test_closures_are_forward_and_backward(tmp_path):
    code = MODEL + """
model.cuda()
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)
x = torch.randn(32, 64, device="cuda")

def closure():
    optimizer.zero_grad()
    loss = model(x).sum()
    loss.backward()
    return loss

for _ in range(2):
    optimizer.step(closure)
"""
    _, found = profiled(tmp_path, code)
    assert len(found["steps"]) == 2 and found["forward_flops"] % (2 * 32 * (64 * 256 + 256 * 10)) == 0 < found["forward_flops"]
    assert found["backward_flops"] > found["forward_flops"]


@pytest.mark.slow
def test_recomputation_does_not_change_where_the_optimizer_is(tmp_path):
    code = LOOP.replace("model(x)", "torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)")
    _, found = profiled(tmp_path, code)
    _, plain = profiled(tmp_path, LOOP)
    assert found["peak"] == plain["peak"] and found["peak"]["module"] == "" and found["backward_flops"] > plain["backward_flops"]


@pytest.mark.slow
def test_a_gradient_scaler(tmp_path):
    scaled = "scaler.scale(loss).backward()\n    scaler.step(optimizer)\n    scaler.update()"
    code = LOOP.replace("loss.backward()\n    optimizer.step()", scaled)
    code = code.replace("for i in", "scaler = torch.amp.GradScaler('cuda')\nfor i in")
    _, found = profiled(tmp_path, code)
    assert len(found["steps"]) == 3


@pytest.mark.slow
def test_an_optimizer_that_is_not_used(tmp_path):
    code = LOOP.replace("for i in", "other = torch.optim.SGD([nn.Parameter(torch.ones(2))], lr=1)\nfor i in")
    _, found = profiled(tmp_path, code, "--steps", "2")
    assert len(found["steps"]) == 2 and found["trainable_parameters"] == 64 * 256 + 256 + 256 * 10 + 10


@pytest.mark.slow
def test_without_an_optimizer(tmp_path):
    code = MODEL + """
for _ in range(2):
    model(torch.randn(4, 64)).sum().backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.1 * p.grad
            p.grad = None
"""
    result, found = profiled(tmp_path, code)
    assert "the whole run, because it did not call optimizer.step" in result.stderr
    assert not found["steps_recognised"] and len(found["steps"]) == 1 and found["backward_flops"] > 0


@pytest.mark.slow
def test_a_script_that_fails_is_reported_so_far(tmp_path):
    result, found = profiled(tmp_path, LOOP + "\nraise RuntimeError('no more')")
    assert result.returncode == 1 and "RuntimeError: no more" in result.stderr and len(found["steps"]) == 3


@pytest.mark.slow
def test_unknown_parameters(tmp_path):
    result, found = profiled(tmp_path, "import torch\nx = torch.ones(3, 3) @ torch.ones(3, 3)")
    assert found["trainable_parameters"] is None and "trainable parameters" in result.stderr and "unknown" in result.stderr
    assert found["forward_flops"] == 54


@pytest.mark.slow
def test_a_script_without_tensors(tmp_path):
    result, found = profiled(tmp_path, "print(1)")
    assert result.returncode == 0 and found is None and "nothing to report" in result.stderr


@pytest.mark.slow
def test_batches_of_a_loader(tmp_path):
    code = LOOP.replace("for i in range(0, 96, 32):\n    x, y = data[i:i + 32].cuda(), labels[i:i + 32].cuda()", """
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(data, labels), batch_size=32, shuffle=True)
for x, y in loader:
    x, y = x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)""")
    result, found = profiled(tmp_path, code, "--steps", "2")
    assert result.returncode == 0, result.stderr
    assert found["peak_by_category"]["input"] == 32 * 64 * 4


@pytest.mark.slow
def test_inputs_by_name(tmp_path):
    code = """
    import torch

    class Net(torch.nn.Linear):
        def forward(self, pixels, labels=None):
            return super().forward(pixels), labels

    model = Net(64, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1)
    for _ in range(2):
        batch = {"pixels": torch.randn(16, 64).cuda(), "labels": torch.zeros(16, device="cuda")}
        model(**batch)[0].sum().backward()
        optimizer.step()
    """
    result, found = profiled(tmp_path, code)
    assert found["peak_by_category"]["input"] >= 16 * 64 * 4 + 16 * 4
    assert result.stderr.splitlines()[-1].endswith(" 0") and "time" not in result.stderr.splitlines()[-2]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_processes_of_the_script(tmp_path, method):
    body = textwrap.indent(LOOP.partition("nn.Linear(256, 10))\n")[2], "    ")
    code = MODEL + f"""
def train():
{body}
if __name__ == "__main__":
    import torch.multiprocessing as mp
    process = mp.get_context("{method}").Process(target=train)
    process.start(), process.join()
    model(torch.ones(2, 64))
    print("status", process.exitcode)
"""
    result, found = profiled(tmp_path, code, "--steps", "2")
    assert result.stdout.endswith("status 0\n"), result.stderr
    assert result.stderr.count("training step 2 of 2 recorded, with AdamW") == 1
    assert found["steps_recognised"] and found["forward_flops"] == 2 * 32 * (64 * 256 + 256 * 10)


@pytest.mark.slow
def test_reports_can_be_compared(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    profiled(tmp_path, LOOP)
    (tmp_path / "report.json").rename(tmp_path / "a.json")
    profiled(tmp_path, LOOP.replace("256", "512"))
    result = run("diff", "a.json", "report.json", "--fail-on", "peak>5%")
    assert result.exit_code == 1 and "costs of a training step" in result.stdout and "memory, gradients" in result.stdout
    assert "unknown" not in result.stdout and "memory, buffers 0 B" in result.stdout


@pytest.mark.parametrize(
    "arguments, reason",
    [(("--device", "cpu", "--profile"), "--profile requires --device meta"),
     (("--device", "meta", "--steps", "2"), "--steps requires --profile"),
     (("--device", "meta", "--profile", "--device-profile", "abacus"), "abacus"),
     (("--device", "meta", "--json", "x"), "--json requires")],
)  # fmt: skip
def test_usage_errors(run, arguments, reason):
    result = run("run", *arguments, __file__)
    assert result.exit_code == 2 and reason in result.stderr


ATTENTION = """
import torch
q = torch.zeros(1, 4, 512, 64, device="cuda", requires_grad=True)
optimizer = torch.optim.SGD([q], lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    torch.nn.functional.scaled_dot_product_attention(q, q, q).sum().backward()
    optimizer.step()
"""


@pytest.mark.slow
def test_the_device_profile_chooses_the_kernels(tmp_path):
    _, plain = profiled(tmp_path, ATTENTION)
    result, fused = profiled(tmp_path, ATTENTION, "--device-profile", "h100-80gb")
    assert (plain["policy"], fused["policy"]) == ("meta", "cuda")
    assert fused["total_bytes"] < plain["total_bytes"] / 2  # the weights of the attention are not kept
    assert "kernels: cuda" in result.stderr
