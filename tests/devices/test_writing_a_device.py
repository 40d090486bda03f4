"""docs/writing-a-device.md: its excerpts are in the disk plugin, and its code runs."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "writing-a-device.md").read_text()
BLOCKS = re.findall(r"```(python|toml)\n(.*?)```", PAGE, re.S)


EXCERPTS = [text for _, text in BLOCKS if text.startswith("# plugins/")]


@pytest.mark.parametrize("block", EXCERPTS, ids=lambda text: text.splitlines()[1].strip())
def test_excerpts_are_the_files(block):
    head, _, text = block.partition("\n")
    assert text.rstrip("\n") in (ROOT / head.removeprefix("# ")).read_text()


def test_the_template_is_short():
    assert len((ROOT / "plugins/disk/metatensor_disk.py").read_text().splitlines()) < 80


def test_methods_of_the_base_class_are_described():
    from metatensor.devices import DeviceBackend

    assert all(f"| `{name}(" in PAGE for name in ("allocate", "copy", "to_host", "from_host", "kernel"))
    assert all(hasattr(DeviceBackend, name) for name in re.findall(r"^\| `(\w+)\(", PAGE, re.M))


def test_arguments_of_the_array_backend_are_described():
    pytest.importorskip("metatensor_cpu")
    import inspect

    from metatensor.devices.array_kit import ArrayBackend

    names = [p.name for p in inspect.signature(ArrayBackend.__init__).parameters.values() if p.kind is p.KEYWORD_ONLY]
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.M) == names


def test_the_kernel_example_runs():
    import metatensor as mt
    from metatensor import plugins
    from metatensor.testing.values import empty, from_values, to_values

    code = next(text for _, text in BLOCKS if "TABLE = KernelTable" in text)
    scope = {}
    exec(code, scope)
    backend = type(plugins.backend("cpu")).__mro__[1]("cpu", np, table=scope["TABLE"])
    out = empty("cpu", (2, 3), "float32")
    backend.kernel("cumsum")(out, from_values("cpu", np.ones((2, 3))), 1, None)
    assert to_values(out).tolist() == [[1, 2, 3]] * 2
    assert any("Tensor input, int dim, *, dtype" in text for text in mt.cumsum.schemas)


def test_the_device_from_the_base_class_runs(tmp_path):
    """Run in a new process, because a backend cannot be unregistered."""
    code = next(text for _, text in BLOCKS if "class Abacus" in text)
    program = tmp_path / "abacus.py"
    hybrid = next(text for _, text in BLOCKS if "class Hybrid" in text)
    program.write_text(code + MORE + hybrid)
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == re.search(r"# (\[\[10.0.*)", code)[1]
    assert done.stdout.splitlines()[-1] == re.search(r"# (\S*Size.*)", hybrid)[1]


# Operations that work on a device whose backend has five methods and the kernel of one op.
MORE = """
assert x.T.contiguous().tolist() == [[1.0, 3.0], [2.0, 4.0]]
assert mt.zeros(2, device="abacus").tolist() == [0.0, 0.0]
assert mt.full((2,), 3.0, device="abacus").tolist() == [3.0, 3.0]
assert mt.ones_like(x).add is not None and mt.empty_like(x).shape == (2, 2)
assert x.clone().fill_(5.0).tolist() == [[5.0] * 2] * 2 == x.new_full((2, 2), 5.0).tolist()
assert mt.ones(3).to("abacus").cpu().tolist() == [1.0] * 3
x[0] = 7.0
x[1, 0] = x[0, 0]
assert x.tolist() == [[7.0, 7.0], [7.0, 4.0]] and x[1, 1].item() == 4.0
assert x.mul_(2).reshape(4).tolist() == [14.0, 14.0, 14.0, 8.0]
from metatensor.testing import check_device
assert check_device("abacus").ok
assert repr(x) == "tensor([[14., 14.],\\n        [14.,  8.]], device='abacus')"
try:
    x + 1
except NotImplementedError as error:
    assert "(out, input, other, alpha)" in str(error) and "abacus" in str(error)
else:
    raise AssertionError("x + 1 succeeded, although abacus has no kernel for add")
"""
