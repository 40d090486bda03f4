"""Placement of a model on unequal devices, the host's memory and a disk."""

import json

import pytest

import metatensor as mt
from metatensor import nn
from metatensor.devices.profiles import device_profile


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        return x + self.down(self.up(x).relu())


class Net(nn.Module):
    """A table, eight layers of 8 MB in float16 and a head that may be the table."""

    def __init__(self, tied=False, width=1024):
        super().__init__()
        self.embed = nn.Embedding(1000, width)
        self.layers = nn.ModuleList([Layer(width) for _ in range(8)])
        self.head = nn.Linear(width, 1000, bias=False)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, tokens, past=None):
        x = self.embed(tokens)
        past = x if past is None else mt.cat([past, x], 1)
        for layer in self.layers:
            x = layer(x)
        return {"logits": self.head(x + past.mean(1, keepdim=True)), "past": past}


LAYER = 2 * 8 * 1024 * 1024
TABLE = 2 * 1000 * 1024


def plan(devices, model=None, **options):
    with mt.device("meta"):
        model = model or Net()
    return mt.plan.device_map(model.to(mt.float16), devices=devices, **{"context": 64, **options})


def test_all_on_one_device():
    found = plan("t4,cpu:4GB")
    assert found.device_map == {"": 0} and found.fits and found.seconds > 0
    assert found.places[0].weight_bytes == 8 * LAYER + 2 * TABLE and found.places[0].state_bytes == 2 * 64 * 1024
    assert found.places[0].reserved_bytes < LAYER  # nothing is loaded


def test_the_faster_device_holds_more():
    found = plan("t4:80MB,a100-80gb:100MB")
    counts = [sum(place == i for path, place in found.device_map.items() if "layers" in path) for i in (0, 1)]
    assert counts[0] + counts[1] == 8 and counts[1] == (100_000_000 - TABLE - found.places[1].reserved_bytes) // LAYER
    assert sum(use.seconds for use in found.places) + found.transfer_seconds == pytest.approx(found.seconds)


def test_runs_are_contiguous_and_layers_whole():
    found = plan("t4:60MB,t4:60MB,t4:60MB")
    order = list(found.device_map.values())
    assert len(set(order)) == 3 and sum(a != b for a, b in zip(order, order[1:], strict=False)) == 2
    assert set(found.device_map) == {"embed", "head", *(f"layers.{i}" for i in range(8))}
    for use in found.places:
        assert use.weight_bytes + use.state_bytes + use.reserved_bytes <= use.memory


def test_offload_leaves_room_for_a_layer():
    found = plan("t4:60MB,cpu:1GB")
    first = found.places[0]
    assert first.reserved_bytes >= LAYER and first.weight_bytes + first.state_bytes + first.reserved_bytes <= first.memory
    loaded = sum(place == "cpu" for place in found.device_map.values())
    assert 0 < loaded < 10 and found.places[1].seconds > loaded * LAYER / 16e9 * 0.8  # over PCIe 3.0


def test_the_disk_is_used_last():
    found = plan("t4:60MB,cpu:40MB,disk", disk_bandwidth=1e9)
    places = list(found.device_map.values())
    assert {0, "cpu", "disk"} == set(places) and places.count("cpu") == 2
    assert found.places[2].seconds > places.count("disk") * TABLE / 1e9
    assert plan("t4:60MB,cpu:40MB,disk").seconds is None  # its bandwidth is unknown


def test_tied_weights_are_together():
    with mt.device("meta"):
        model = Net(tied=True)
    found = plan("t4:60MB,t4:100MB", model)
    assert found.device_map["head"] == found.device_map["embed"]
    assert sum(use.weight_bytes for use in found.places) == 8 * LAYER + TABLE


def test_what_does_not_fit():
    found = plan("t4:60MB,cpu:20MB")
    assert not found.fits and found.device_map == {} and found.missing > 0 and "add disk" in found.advice
    found = plan("t4:10MB,cpu:1GB,disk")
    assert not found.fits and "the first device must hold" in found.advice and "does not fit" in str(found)


def test_a_model_without_a_state():
    with mt.device("meta"):
        model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(3)))
    arguments = lambda batch, tokens: ((mt.empty(batch, tokens, 64, device="meta"),), {})
    found = mt.plan.device_map(model, devices="t4:40KB,cpu:1GB", context=4, arguments=arguments)
    assert found.device_map == {"0": 0, "1": "cpu", "2": "cpu"} and found.places[0].state_bytes == 0
    assert json.loads(json.dumps(found.to_dict()))["fits"] is found.fits


def test_lora():
    with mt.device("meta"):
        model = Net()
    tokens = mt.empty(2, 64, dtype=mt.int64, device="meta")
    report = mt.analysis.estimate_training(model.to(mt.float16), tokens, lora="8:*up")
    found = plan("t4", model, lora="8:*up", batch=2)
    adapters = 8 * 8 * (1024 + 4096)
    assert found.training and found.device_map == {"": 0} and found.tokens_per_second == 2 * 64 / found.seconds
    use = found.places[0]
    assert use.weight_bytes == 8 * LAYER + 2 * TABLE  # adapters belong to the state
    saved = use.state_bytes - adapters * (2 + 2 + 4)  # with AdamW's two moments in float16
    assert 0.9 * report.saved_bytes < saved < 1.1 * report.saved_bytes
    assert all(p.requires_grad for p in model.parameters()) and not any("lora" in name for name, _ in model.named_parameters())


def test_lora_loads_parts_twice():
    small = plan("t4:60MB,cpu:1GB", batch=1, context=8, lora=4, recompute="full")
    loaded = sum(place == "cpu" for path, place in small.device_map.items() if "layers" in path)
    assert loaded and small.places[1].seconds > 2 * loaded * LAYER / 16e9
    assert small.places[0].weight_bytes + small.places[0].state_bytes + small.places[0].reserved_bytes <= small.places[0].memory


def test_errors():
    with pytest.raises(ValueError, match="must be a module"):
        mt.plan.device_map(lambda x: x, devices="t4")
    with pytest.raises(ValueError, match="at least 1"):
        plan("t4", batch=0)


def test_activations_go_from_device_to_device():
    with mt.device("meta"):
        model = nn.Sequential(nn.Embedding(1000, 512), *(nn.Linear(512, 512) for _ in range(4)))
    plan = mt.plan.device_map(model, devices="t4:5MB,t4:8MB", context=8)
    assert {0, 1} == set(plan.device_map.values())
    assert plan.transfer_seconds == pytest.approx(2 * 8 * 512 * 4 / device_profile("t4").link("host").bandwidth)
    assert plan.seconds == pytest.approx(sum(use.seconds for use in plan.places) + plan.transfer_seconds)
    one = mt.plan.device_map(model, devices="t4", context=8)
    assert one.transfer_seconds == 0
    trained = mt.plan.device_map(model, devices="t4:5MB,t4:8MB", context=8, lora=4)
    assert trained.transfer_seconds == pytest.approx(2 * plan.transfer_seconds)
