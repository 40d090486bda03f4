"""What is missing where a search has no candidate, and nodes of different devices."""

import pytest

import metatensor as mt
from metatensor.devices.topologies import TopologyError
from metatensor.plan.nearest import topology_of


def model():
    with mt.device("meta"):
        layers = [mt.nn.TransformerEncoderLayer(64, 4, dropout=0.0, batch_first=True) for _ in range(4)]
        return mt.nn.Sequential(*layers), mt.empty(1, 32, 64)


@pytest.mark.parametrize(("options", "message"), [
    ({"tensor": [3]}, "tensor 3 does not divide 8 devices; possible values are 1, 2, 4, 8"),
    ({"pipeline": [3]}, "pipeline 3 does not divide the 8 devices; possible values are 1, 2, 4, 8"),
    ({"pipeline": [8]}, "the model has 4 repeated blocks, too few for 8 stages; at most 4 are possible"),
    ({"micro_batches": [64]}, "a global batch of 16 cannot be divided into micro-batches of 64 on 1 or more data-parallel ranks; "
     "a global batch of 64 can"),
    ({"tensor": [1], "pipeline": [1], "global_batch": 7}, "a global batch of 7 cannot .* on 8 or more .* a global batch of 8 can"),
])  # fmt: skip
@pytest.mark.parametrize("sweep", [False, True])
def test_no_candidates(options, message, sweep, tmp_path):
    module, x = model()
    where = {"sweep": tmp_path / "plans.sqlite"} if sweep else {}
    plan = mt.plan.search(module, x, **{"devices": "8xH100", "global_batch": 16, **options}, **where)
    assert not plan.fits and not plan.rejected
    with pytest.raises(ValueError, match=message):
        plan.best


@pytest.mark.slow
def test_nodes_of_different_devices():
    module, x = model()
    settings = {"global_batch": 64, "recompute": ["none"], "micro_batches": [2, 8]}
    plan = mt.plan.search(module, x, devices="8xH100 + 8xA100", **settings)
    slow = mt.plan.search(module, x, devices="16xA100", **settings)
    fast = mt.plan.search(module, x, devices="16xH100", **settings)
    assert plan.best.degrees.devices == 16 and plan.memory == min(slow.memory, fast.memory)
    assert plan.best.seconds >= 0.99 * slow.best.seconds >= fast.best.seconds and "the devices differ" in plan.remarks[0]
    same, remarks = topology_of("8xH100, 8xA100")
    assert same.nodes == 2 and remarks and topology_of("16xH100, 400Gb/s IB")[1] == []
    assert str(topology_of("64xH100")[0]) == str(topology_of(topology_of("64xH100")[0])[0])


@pytest.mark.parametrize(("devices", "message"), [
    ("8xH100 + 4xA100", "must have as many devices each"), ("8xH100 + 8xnosuch", "no device profile is named 'nosuch'"),
    ("1xRTX-4090 + 1xRTX-3090", "no network between the nodes is known"),
])  # fmt: skip
def test_devices_that_do_not_add_up(devices, message):
    with pytest.raises(TopologyError, match=message):
        topology_of(devices)
