"""``metatensor calibrate``."""

import pytest

from metatensor.analysis import calibration
from metatensor.devices.profiles import load_profile


@pytest.fixture
def quickly(monkeypatch):
    """Measure one program."""
    import metatensor as mt
    from metatensor.analysis.calibration.programs import Program

    def programs(device, scale):
        x = mt.rand(4, 4, device=device).requires_grad_()
        yield Program(f"exp {scale}", lambda: x.exp(), (x,))

    monkeypatch.setattr(calibration, "programs", programs)


@pytest.mark.slow
def test_a_file(run, quickly, tmp_path):
    path = tmp_path / "mine.toml"
    result = run("calibrate", "--device", "cpu", "--quick", "-o", str(path))
    assert result.exit_code == 0, result.output
    assert "operators" in result.stdout and "exp" in load_profile(path).operators


@pytest.mark.slow
def test_to_the_terminal(run, quickly):
    result = run("calibrate", "--quick")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("# Written by") and "[operators]" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--device", "meta"), "the meta device computes nothing"),
        (("--device", "cpuu"), "cpuu"),
        (("-o", "Mine.txt"), "cannot be a profile"),
        (("--threads", "0"), "--threads"),
    ],
)
def test_misuse(run, arguments, message):
    result = run("calibrate", *arguments)
    assert result.exit_code in (1, 2) and message in result.stderr + result.stdout
