"""The package of docs/custom-ops.md: its operators are correct, and it is found through its entry point."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import metatensor as mt

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "acme_ops"
PROGRAM = """
import numpy as np, sys
import metatensor as mt
from metatensor.testing import check_op

assert "acme_ops" not in sys.modules
op = mt.ops.acme.swiglu
check_op(op, [(mt.randn(2, 3), mt.randn(2, 3))], reference=lambda x, g: x.numpy() * (g.numpy() / (1 + np.exp(-g.numpy()))))
assert mt.analysis.estimate(op, mt.empty(2, device="meta"), mt.empty(2, device="meta")).gaps == []
try:
    op(mt.ones(2), mt.ones(3))
except ValueError as error:
    print(error)
"""


def test_the_package(tmp_path):
    pytest.importorskip("metatensor_cpu")
    info = tmp_path / "acme_ops-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-ops\nVersion: 0.1.0\nRequires-Dist: metatensor-device\n")
    text = (FOLDER / "pyproject.toml").read_text()
    assert '[project.entry-points."metatensor.ops"]\nacme = "acme_ops"\n' in text
    (info / "entry_points.txt").write_text("[metatensor.ops]\nacme = acme_ops\n")
    path = os.pathsep.join([str(tmp_path), str(FOLDER), *filter(None, sys.path)])
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("acme::swiglu: x and gate differ: ")
    assert mt.__name__ == "metatensor"
