"""Models that exit, print or are lazy; output that cannot be written; hints for errors."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from cli.test_process import python

pytest.importorskip("click")
pytest.importorskip("rich")

import metatensor as mt

CODE = """
import sys
import metatensor as mt
from metatensor import nn


class Quits(nn.Linear):
    def __init__(self):
        super().__init__(3, 3)

    def forward(self, x):
        quit()


class Prints(nn.Linear):
    def __init__(self):
        super().__init__(3, 3)
        print("building")

    def forward(self, x):
        print("running")
        return super().forward(x)


def lazy():
    return nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyBatchNorm1d(), nn.LazyLinear(2))


def wrong():
    return nn.Sequential(nn.LazyLinear(4), nn.Linear(5, 2))
"""


@pytest.fixture
def code(tmp_path, monkeypatch):
    (tmp_path / "code.py").write_text(CODE)
    (tmp_path / "net.py").write_text(CODE)
    (tmp_path / "exits.py").write_text(CODE + "\nsys.exit(0)\n")
    (tmp_path / "torchy.py").write_text("import torch\nNet = torch.nn.Identity\n")
    (tmp_path / "missing.py").write_text("import no_such_library.models\n")
    package = tmp_path / "package" / "inner"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package.parent / "__init__.py").touch()
    (package / "other.py").write_text("import metatensor as mt\nNet = mt.nn.Identity\n")
    (package / "net.py").write_text("from .other import Net\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", ["check", "estimate"])
@pytest.mark.parametrize("target", ["exits.py:Prints", "net.py:Quits"])
def test_code_that_ends_the_process_fails(code, run, command, target):
    result = run(command, target, "-i", "float32[2,3]")
    assert result.exit_code == 1 and "SystemExit" in result.output
    if target.startswith("exits"):
        assert "__main__" in result.output and "exits.py:" in result.output


def test_code_that_ends_the_process_fails_in_json(code, run):
    result = run("check", "net.py:Quits", "-i", "float32[2,3]", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 1 and not found["ok"] and found["error"]["type"] == "SystemExit"
    mt.save({"weight": mt.ones(3, 3, device="cpu")}, "w.pt")
    result = run("inspect", "w.pt", "--check", "exits.py:Prints")
    assert result.exit_code == 1 and "SystemExit" in result.stderr


def test_check_in_python_survives_an_exit():
    def model(x):
        sys.exit(3)

    result = mt.analysis.check(model, mt.ones(2, device="meta"))
    assert not result and isinstance(result.error, SystemExit)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("check", "--json"), ("estimate", "--json")])
def test_what_the_model_prints_goes_to_stderr(code, arguments):
    result = python("-m", "metatensor", *arguments, "net.py:Prints", "-i", "float32[2,3]")
    assert json.loads(result.stdout)["parameters"] == 12
    assert result.stderr.split() == ["building", "running"]


def test_lazy_modules(code, run):
    result = run("check", "net.py:lazy", "-i", "float32[2,3]")
    assert result.exit_code == 0 and "34 parameters" in result.stdout, result.output
    found = json.loads(run("estimate", "net.py:lazy", "-i", "float32[2,3]", "--json").stdout)
    assert found["parameters"] == 34 and [row["kind"] for row in found["modules"]][1:] == ["Linear", "ReLU", "BatchNorm1d", "Linear"]
    result = run("check", "net.py:wrong", "-i", "float32[2,3]")
    assert result.exit_code == 1 and "1 (Linear)" in result.stdout
    with mt.device("meta"):
        assert mt.analysis.estimate(mt.nn.LazyLinear(4), mt.ones(2, 3)).parameters == 16


def test_budgets_as_texts():
    with mt.device("meta"):
        model, x = mt.nn.Linear(3, 3), mt.ones(2, 3)
    assert mt.analysis.check(model, x, max_params="8B", max_bytes="1kB", max_flops="1 kFLOPs")
    assert mt.analysis.check(model, x, max_params="11").overruns[0].limit == 11
    with pytest.raises(ValueError, match="max_bytes: .*unknown suffix"):
        mt.analysis.check(model, x, max_bytes="8 bananas")
    with pytest.raises(TypeError, match="max_params must be an integer or a text"):
        mt.analysis.check(model, x, max_params=1.5)


@pytest.mark.slow
def test_hints(code):
    result = python("-m", "metatensor", "check", "torchy.py:Net")
    assert result.returncode == 1 and "--torch" in result.stdout
    assert python("-m", "metatensor", "check", "--torch", "torchy.py:Net", "-i", "torch.float32[2]").returncode == 0
    result = python("-m", "metatensor", "check", "--torch", "missing.py:Net")
    assert result.returncode == 1 and "pip install no_such_library" in result.stdout
    for target in ("package/inner/net.py:Net", str(code / "package" / "inner" / "net.py:Net")):
        result = python("-m", "metatensor", "check", target, "-i", "float32[2]")
        assert result.returncode == 1 and result.stdout.rstrip().endswith("package.inner.net:Net")
    assert python("-m", "metatensor", "check", "package.inner.net:Net", "-i", "float32[2]").returncode == 0
    elsewhere = python("-m", "metatensor", "check", "package/net.py:Net", cwd=code / "package" / "..")
    assert elsewhere.returncode == 2


@pytest.mark.slow
def test_libraries_that_require_pytorch_are_installed_without_it(code):
    if importlib.util.find_spec("timm"):
        pytest.skip("timm is installed")
    result = python("-m", "metatensor", "estimate", "--torch", "timm.models:resnet50", "-i", "float32[1,3,224,224]")
    assert result.returncode == 2 and "pip install --no-deps timm torchvision" in result.stderr


@pytest.mark.parametrize(
    ("text", "spec"), [("torch.float32[2,3]", "float32"), ("x=torch.bfloat16[]", "bfloat16"), ("[torch.int64[1]]", "int64")]
)
def test_dtypes_by_their_name_in_torch(text, spec):
    from metatensor.cli.inputs import InputError, parse_input

    value = parse_input(text)[1]
    assert (value[0] if isinstance(value, list) else value).dtype.name == spec
    with pytest.raises(InputError, match=r"lacks a shape; write torch\.float32\[1,1024\]"):
        parse_input("torch.float32")


def test_dtype_option_by_its_name_in_torch(code, run):
    assert run("check", "net.py:Prints", "--dtype", "torch.float16", "-i", "float16[2,3]").exit_code == 0


@pytest.fixture
def many(tmp_path):
    mt.save({f"layers.{i}.weight": mt.ones(1, device="cpu") for i in range(4000)}, tmp_path / "many.pt")
    return tmp_path / "many.pt"


def start(*arguments, **options):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    env.pop("PYTHONUNBUFFERED", None)  # with unbuffered output, Python treats a partial write as complete
    return subprocess.Popen([sys.executable, "-m", "metatensor", *map(str, arguments)], env=env, text=True, **options)


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--json",), ("--tree",)])
def test_a_reader_that_goes_away(many, options):
    process = start("inspect", many, *options, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == ""
    assert process.wait() in (0, 128 + signal.SIGPIPE) if options == ("--tree",) else process.wait() == 128 + signal.SIGPIPE


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [("inspect",), ("inspect", "--json"), ("devices",)])
def test_a_full_disk(many, arguments):
    with open("/dev/full", "w") as full:
        process = start(*arguments, *([many] if arguments[0] == "inspect" else []), stdout=full, stderr=subprocess.PIPE)
        message = process.communicate()[1]
    assert process.returncode == 1 and message == "Error: the output cannot be written: No space left on device\n"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interrupt(tmp_path):
    (tmp_path / "slow.py").write_text("import time\nprint('started', flush=True)\ntime.sleep(60)\n")
    for arguments in (("check", "slow.py:x"), ("run", "slow.py")):
        process = start(*arguments, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))  # fmt: skip
        assert process.stdout.readline() == "started\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        with process.stdout:
            process.stdout.read()
        assert process.wait() == 130


@pytest.mark.slow
def test_narrow_terminals(code, monkeypatch):
    pty = pytest.importorskip("pty")
    primary, secondary = pty.openpty()
    process = start("estimate", "net.py:lazy", "-i", "float32[2,3]", stdout=secondary, stderr=subprocess.DEVNULL,
                    stdin=subprocess.DEVNULL, cwd=code)  # fmt: skip
    os.close(secondary)
    text = b""
    while True:
        try:
            part = os.read(primary, 4096)
        except OSError:
            break
        if not part:
            break
        text += part
    process.wait()
    assert b"float32[2,4]" in text and b"BatchNorm1d" in text


