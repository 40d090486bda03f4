"""``metatensor run --device meta``: training scripts for a GPU run on meta."""

import textwrap
from pathlib import Path

import pytest

from cli.test_process import python

pytest.importorskip("click")
pytest.importorskip("rich")
pytest.importorskip("numpy")
pytest.importorskip("metatensor_cpu")

SCRIPTS = Path(__file__).parent / "scripts"
LAST = {
    "adversarial": "grid (4, 16, 16, 1) 6",
    "classify_images": "done, best epoch 0",
    "diffuse": "samples (2, 6)",
    "finetune": "MiB at peak",
    "generate_images": "saved (4, 8, 8) uint8 VAE",
    "language_model": "sample: 21",
    "policy_gradient": "finished",
    "segment": "iou ['1.000', '1.000', '1.000']",
    "siamese": "error 1.000 1",
    "translate": "decoded 8 of 8",
}


def run(*arguments, device="meta", **options):
    return python("-m", "metatensor", "run", "--device", device, *map(str, arguments), **options)


def planned(tmp_path, code, *options):
    (tmp_path / "script.py").write_text(textwrap.dedent(code))
    return run(*options, tmp_path / "script.py", cwd=tmp_path)


def test_every_script_is_tried():
    assert {path.stem for path in SCRIPTS.glob("*.py")} == set(LAST)


@pytest.mark.slow
@pytest.mark.parametrize("name", LAST)
def test_a_training_script_runs_to_its_end(name, tmp_path):
    arguments = {"classify_images": ["--out", tmp_path], "finetune": [tmp_path], "generate_images": [tmp_path]}.get(name, [])
    result = run(SCRIPTS / f"{name}.py", *arguments)
    assert result.returncode == (4 if name == "finetune" else 0), result.stderr
    assert LAST[name] in result.stdout.splitlines()[-1]
    assert f"{name}.py:" in result.stderr and "Traceback" not in result.stderr


@pytest.mark.slow
def test_devices_mean_meta(tmp_path):
    result = planned(tmp_path, """
        import torch
        assert torch.cuda.is_available() and torch.cuda.device_count() == 1 and torch.cuda.current_device() == 0
        assert torch.accelerator.current_accelerator().type == "cuda"
        model = torch.nn.Linear(4, 4)
        for place in ("cuda", "cuda:0", "mps", "cpu", 0, torch.device("cuda", 0)):
            for tensor in (torch.ones(3, device=place), model.to(place).weight, torch.ones(2).to(place, non_blocking=True),
                           torch.ones(2).to(place, torch.float16), torch.zeros(4).new_zeros(3, device=place)):
                assert tensor.is_meta, place
        assert torch.ones(2).cuda().cpu().is_meta and model.cuda().bias.is_meta
        with torch.device("cuda"):
            assert torch.ones(2).is_meta and torch.nn.Linear(2, 2).weight.is_meta
        torch.set_default_device("cuda")
        assert torch.rand(2).is_meta
        generator = torch.Generator(device="cuda").manual_seed(1)
        assert torch.randn(3, generator=generator, device="cuda").is_meta
        assert torch.cuda.FloatTensor(2, 2).is_meta and torch.ones(2).type(torch.cuda.HalfTensor).dtype == torch.float16
    """)  # fmt: skip
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.slow
def test_values_that_the_script_gives_are_kept(tmp_path):
    result = planned(tmp_path, """
        import numpy as np
        import torch
        rates = [rate.item() for rate in torch.linspace(0, 0.5, 3)]
        print(rates, torch.arange(4).tolist(), torch.tensor([[1.5]]).item(), sorted(torch.randperm(3).tolist()))
        print(torch.from_numpy(np.ones(2)).sum().item(), torch.as_tensor([2, 3])[1].item(), 0 <= torch.rand(1).item() < 1)
        print(2 <= float(torch.empty(1).uniform_(2, 3)) < 3, 5 <= torch.randint(5, 7, (1,)).item() < 7)
        layer = torch.nn.Linear(2, 2)
        print((torch.from_numpy(np.ones((3, 2), dtype=np.float32)) @ layer.weight).is_meta, layer(torch.tensor([[1., 2.]])).is_meta)
    """)
    assert result.stdout.splitlines() == [
        "[0.0, 0.25, 0.5] [0, 1, 2, 3] 1.5 [0, 1, 2]", "2.0 3 True", "True True", "True True",
    ]  # fmt: skip
    assert result.stderr == ""


REQUESTS = """
    import numpy as np
    import torch
    x, n = torch.rand(6, 2), torch.randint(9, (6,), device="cuda")
    print(x.sum().item(), n[0].item(), bool(x.sum() > 0), int(n[1]), f"{x.mean():.2f}", "%.1f" % x.mean(), x[0].tolist())
    print(x.numpy().sum(), np.asarray(n).sum(), n.cpu().numpy().dtype)
    print(x[x > 0].shape[0], x[n > 3].shape[0], x[:, 0].nonzero().shape[0], torch.where(x > 0)[1].shape[0], n.unique().shape[0])
    print(torch.masked_select(x, x > 0).shape[0], torch.equal(x, x), torch.nn.functional.one_hot(n).shape[1])
    assert torch.isfinite(x).all(), "finite"
    assert not torch.isnan(x).any()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("bound", ["1.0 1 False 1 1.00 1.0 [1.0, 1.0]", "12.0 6 int64", "12 6 6 12 6", "12 True 2"]),
        ("zero", ["0.0 0 False 0 0.00 0.0 [0.0, 0.0]", "0.0 0 int64", "0 0 0 0 1", "0 True 1"]),
    ],
)
def test_requests_for_values(tmp_path, policy, expected):
    result = planned(tmp_path, REQUESTS, "--values", policy)
    assert result.stdout.splitlines() == expected, result.stderr
    assert f"(--values {policy})" in result.stderr and "script.py:5 (7 times)" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.slow
def test_drawn_indices_have_values(tmp_path):
    result = planned(tmp_path, """
        import numpy as np
        import torch
        data, starts = np.arange(100), torch.randint(50, (64,))
        batch = torch.stack([torch.from_numpy(data[i:i + 20]) for i in starts])
        assert batch.shape == (64, 20) and len(set(starts.tolist())) > 1
        assert torch.randint(50, (64,), device="cuda").is_meta and torch.randint(50, (300, 300)).is_meta
        assert torch.rand(3, device="cuda")[starts % 3].is_meta and starts.cuda().is_meta
    """)
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
def test_requests_raise_where_that_is_chosen(tmp_path):
    result = planned(tmp_path, REQUESTS, "--values", "raise")
    assert result.returncode == 1 and "DataDependentError: item()" in result.stderr
    refused = python("-m", "metatensor", "run", "--device", "cpu", "--values", "zero", str(tmp_path / "script.py"))
    assert refused.returncode == 2 and "--values requires --device meta" in refused.stderr


@pytest.mark.slow
def test_writing_values_of_meta_into_tensors_with_data(tmp_path):
    result = planned(tmp_path, """
        import numpy as np
        import torch
        loss = torch.nn.Linear(3, 1)(torch.rand(4, 3)).sum()
        total = torch.tensor(0.0)
        total += loss
        assert total.is_meta and total.requires_grad
        table = np.zeros((2, 2))
        matrix = torch.from_numpy(table)
        matrix[0] += torch.rand(2)
        assert table.tolist() == [[1, 1], [0, 0]]
        with torch.no_grad():
            torch.add(matrix, torch.rand(2), out=matrix)
        assert matrix.is_meta
    """)
    assert result.returncode == 0, result.stderr
    assert "1 requests" in result.stderr and "script.py:10" in result.stderr


@pytest.mark.slow
def test_backward_passes_run(tmp_path):
    result = planned(tmp_path, """
        import torch
        w, unused = torch.nn.Parameter(torch.rand(3, 3)), torch.rand(2, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        for _ in range(3):
            optimizer.zero_grad()
            scaler.scale((w ** 2).sum()).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
        assert w.grad.is_meta and w.grad.shape == (3, 3) and unused.grad is None
        grad, = torch.autograd.grad((w ** 3).sum(), w, create_graph=True)
        assert grad.shape == w.shape
        (grad.sum() - 1).backward()
        try:
            torch.rand(2).sum().backward()
        except RuntimeError as error:
            print(error)
    """)
    assert result.returncode == 0 and "does not require grad" in result.stdout, result.stderr
    assert "left out" not in result.stderr


@pytest.mark.slow
def test_backward_passes_without_a_rule_are_left_out(tmp_path):
    result = planned(tmp_path, """
        import torch

        @torch.library.custom_op("planned::opaque", mutates_args=())
        def opaque(x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        opaque.register_fake(lambda x: torch.empty_like(x))
        w, unused = torch.nn.Parameter(torch.rand(3, 4)), torch.rand(2, requires_grad=True)
        given = torch.tensor([1.0, 2.0], requires_grad=True)
        frozen, middle = torch.rand(2), w * 2
        assert w.grad is None
        opaque(middle).sum().backward()
        assert w.grad.is_meta and w.grad.shape == (3, 4) and w.grad is w.grad and not w.grad.requires_grad
        assert type(w.grad) is torch.Tensor and unused.grad.shape == (2,) and frozen.grad is None and middle.grad is None
        assert given.grad.is_meta and given.grad.shape == (2,)
        with torch.no_grad():
            w -= 0.1 * w.grad
            w.grad.zero_()
            given.sub_(given.grad)
        w.grad = None
        assert w.grad is None
        del unused.grad
        assert unused.grad is None and given.grad is not None
        optimizer = torch.optim.AdamW([w])
        optimizer.step()
        assert not optimizer.state[w]
        for _ in range(2):
            opaque(w ** 2).sum().backward()
        assert torch.nn.utils.clip_grad_norm_([w], 1.0).is_meta
        optimizer.step()
        assert optimizer.state[w]["exp_avg"].shape == (3, 4)
        optimizer.zero_grad()
        assert w.grad is None
    """)
    assert result.returncode == 0, result.stderr
    assert "3 backward passes were left out" in result.stderr and "script.py:29 (2 times)" in result.stderr, result.stderr


@pytest.mark.slow
def test_threads_of_the_script(tmp_path):
    result = planned(tmp_path, """
        import threading
        from concurrent.futures import ThreadPoolExecutor
        import torch
        from torch.utils.data import DataLoader, Dataset

        class Images(Dataset):
            def __len__(self):
                return 6

            def __getitem__(self, i):
                return torch.rand(3, device="cuda"), torch.randint(0, 9, (3,), device="cuda").sum().item()

        for workers in (0, 2):
            batches = list(DataLoader(Images(), batch_size=2, num_workers=workers))
            assert len(batches) == 3 and all(images.is_meta and labels.tolist() == [1, 1] for images, labels in batches)

        class Job(threading.Thread):
            def run(self):
                self.result = torch.ones(2, device="cuda:0")

        job = Job()
        job.start(), job.join()
        assert job.result.is_meta and "run" not in vars(job)
        with ThreadPoolExecutor(2) as pool:
            assert all(tensor.is_meta for tensor in pool.map(torch.rand, [2] * 4))
    """)
    assert result.returncode == 0 and "script.py:12 (12 times)" in result.stderr, result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_processes_of_the_script(tmp_path, method):
    result = planned(tmp_path, f"""
        import torch
        from torch import multiprocessing

        def train(model, queue):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            loss = model(torch.ones(2, 3, device="cuda")).sum()
            loss.backward()
            optimizer.step()
            queue.put((loss.item(), model.weight.grad.is_meta))

        if __name__ == "__main__":
            context = multiprocessing.get_context("{method}")
            torch.rand(2).norm().item()
            queue = context.Queue()
            process = context.Process(target=train, args=(torch.nn.Linear(3, 1).cuda(), queue))
            process.start()
            assert queue.get(timeout=60) == (1.0, True)
            process.join()
            assert process.exitcode == 0
    """)
    assert result.returncode == 0, result.stderr
    child, parent = [line for line in result.stderr.splitlines() if "requests" in line]
    assert ":10" in child and ":14" not in child and ":14" in parent and ":10" not in parent
    assert "left out" not in result.stderr


@pytest.mark.slow
def test_existing_files_keep_their_values(tmp_path):
    result = planned(tmp_path, """
        import numpy as np, torch
        torch.save({"w": torch.from_numpy(np.ones(2))}, "real.pt")
        before = open("real.pt", "rb").read()
        torch.save(torch.load("real.pt"), "./real.pt")
        assert open("real.pt", "rb").read() == before
        for name in ("planned.pt", "./planned.pt"):
            torch.save({"w": torch.rand(3)}, name)  # the file is of this run, so it is written again
    """)
    assert result.returncode == 0, result.stderr
    kept, saved = result.stderr.strip().splitlines()[-2:]
    assert kept.endswith("lost its values: real.pt") and saved.endswith("without values: planned.pt")


@pytest.mark.slow
def test_checkpoints(tmp_path):
    result = planned(tmp_path, """
        import numpy as np, torch
        torch.save({"w": torch.rand(3), "lr": 0.1}, "planned.pt")
        torch.save({"w": torch.from_numpy(np.ones(2)), "step": 3}, "real.pt")
        for place in ("cuda", torch.device("cuda:0"), "cpu", {"cuda:0": "cpu"}, lambda storage, location: storage, None):
            assert torch.load("planned.pt", map_location=place)["w"].is_meta
        found = torch.load("real.pt", map_location="cuda")
        assert found["w"].is_meta and found["step"] == 3
        model = torch.nn.Linear(3, 3)
        optimizer = torch.optim.Adam(model.parameters())
        model.load_state_dict(model.state_dict()), optimizer.load_state_dict(optimizer.state_dict())
    """)
    assert result.returncode == 0, result.stderr
    assert result.stderr.strip().endswith("saved with names, shapes and dtypes, without values: planned.pt")


@pytest.mark.slow
def test_memory_and_time_of_the_planned_device(tmp_path):
    result = planned(tmp_path, """
        import torch
        before = torch.cuda.memory_allocated()
        x = torch.empty(1 << 20, device="cuda")
        assert torch.cuda.memory_allocated() - before == 4 << 20
        del x
        assert torch.cuda.max_memory_allocated() - before >= 4 << 20
        torch.cuda.reset_peak_memory_stats()
        assert torch.cuda.max_memory_allocated() - before < 1 << 20
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record(), last.record(), torch.cuda.synchronize(), torch.cuda.empty_cache()
        assert first.elapsed_time(last) >= 0
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.ones(2, device="cuda")
        print(torch.cuda.get_device_name(), torch.cuda.is_bf16_supported())
    """)
    assert (result.returncode, result.stderr) == (0, "") and "planned cuda device True" in result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_errors_begin_at_the_script(tmp_path, device):
    (tmp_path / "script.py").write_text(textwrap.dedent("""
        import torch
        def work():
            return torch.ones(2, 3) @ torch.ones(2, 3)
        try:
            work()
        except RuntimeError as error:
            raise ValueError("no product") from error
    """))
    result = run("script.py", device=device, cwd=tmp_path)
    assert result.returncode == 1
    files = [line.split('"')[1] for line in result.stderr.splitlines() if line.startswith("  File ")]
    assert files[:2] == ["script.py", "script.py"] and files[-1] == "script.py"
    assert not any("metatensor/cli" in file or "click" in file or "runpy" in file for file in files)
    assert "ValueError: no product" in result.stderr and "direct cause" in result.stderr
    module = run("-m", "script", device=device, cwd=tmp_path)
    files = [line.split('"')[1] for line in module.stderr.splitlines() if line.startswith("  File ")]
    assert module.returncode == 1 and files[0] == str(tmp_path / "script.py") and not any("runpy" in file for file in files)


@pytest.mark.slow
def test_statuses_of_scripts(tmp_path):
    for code, status, text in (
        ("import sys; sys.exit(9)", 9, ""), ("import sys; sys.exit('bad luck')", 1, "bad luck"), ("raise SystemExit", 0, ""),
        ("def (", 1, "SyntaxError"), ("raise KeyboardInterrupt", 130, "KeyboardInterrupt"),
    ):  # fmt: skip
        result = planned(tmp_path, code)
        assert result.returncode == status and text in result.stderr, result.stderr
        assert result.stderr.count("File") == result.stderr.count('script.py"')


@pytest.mark.slow
def test_a_script_is_the_main_module(tmp_path):
    result = planned(tmp_path, """
        import pickle, sys
        class Point: pass
        assert sys.modules["__main__"].Point is Point and type(pickle.loads(pickle.dumps(Point()))) is Point
        print(__name__, __file__, __spec__, sys.path[0])
    """)
    path = tmp_path / "script.py"
    assert result.stdout.split() == ["__main__", str(path), "None", str(tmp_path)], result.stderr
