"""Device profiles: the files of the package, the loader, and files of users."""

import dataclasses
import os
import pickle
from pathlib import Path

import pytest

import metatensor as mt
from metatensor.devices import profiles
from metatensor.devices.profiles import (
    PATH_VARIABLE,
    DeviceProfile,
    ProfileError,
    device_profile,
    device_profiles,
    load_profile,
    loading,
    register,
)
from metatensor.devices.profiles.quantities import parse_quantity

FOLDER = Path(profiles.__file__).parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.toml"))
MINIMAL = 'title = "A card"\nvendor = "ACME"\nkind = "gpu"\n'


@pytest.fixture
def write(tmp_path):
    def write(text, name="acme.toml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.fixture
def clean_registry(monkeypatch):
    monkeypatch.setattr(loading, "_registered", {})


def test_the_accelerators_that_people_rent_are_there():
    wanted = """v100-16gb v100-32gb a100-40gb a100-80gb a100-pcie-40gb a100-pcie-80gb h100-80gb h100-pcie h200 b200 gb200 mi250 mi250x
        mi300x
        mi325x mi355x tpu-v4 tpu-v5e tpu-v5p tpu-v6e l4 l40s a10 a40 t4 rtx-3090 rtx-4090 rtx-5090
        m1 m1-ultra m2-max m3-max m4 m4-max
        epyc-9654 xeon-8480"""
    for name in wanted.split():
        assert device_profile(name).memory_bandwidth


@pytest.mark.parametrize("name", NAMES)
def test_figures_have_sources_and_are_physically_possible(name):
    profile = load_profile(FOLDER / f"{name}.toml")
    assert profile.name == name and profile.title and profile.vendor
    assert profile.figures
    for figure in profile.figures.values():
        assert figure.value > 0
        assert figure.source.title and figure.source.url.startswith(("https://", "http://"))
        assert figure.note or not figure.estimate
    known = {key for key in profile.figures if key.startswith("rates.")}
    assert known == {f"rates.{key}" for key in profile.rates} and known
    if profile.kind == "cpu":
        assert profile.memory is None  # it depends on the machine
    else:
        assert 8 << 30 <= profile.memory <= 512 << 30
    assert 50e9 <= profile.memory_bandwidth <= 10e12
    for rate in (*profile.rates.values(), *profile.vector_rates.values()):
        assert 0.2e12 <= rate <= 20e15
    # Narrower numbers are not slower, dense figures are not sparse ones, vector units are not faster than matrix units.
    for slow, fast in (("float64", "float32"), ("float32", "tf32"), ("tf32", "bfloat16"), ("float32", "bfloat16"), ("float16", "float8"),
                       ("bfloat16", "int8"), ("float8", "float4")):  # fmt: skip
        if slow in profile.rates and fast in profile.rates:
            assert profile.rates[slow] <= profile.rates[fast] <= 70 * profile.rates[slow]
    if "bfloat16" in profile.rates and "float8" in profile.rates:
        assert 1.9 < profile.rates["float8"] / profile.rates["bfloat16"] < 2.1
    if "bfloat16" in profile.rates and "float16" in profile.rates:
        assert profile.rates["bfloat16"] == profile.rates["float16"]
    for key, rate in profile.vector_rates.items():
        assert rate <= profile.rates[key]
    # A device can read its memory in more than a few milliseconds and less than a second.
    if profile.memory:
        assert 0.005 < profile.memory / profile.memory_bandwidth < 1
    if profile.visible_memory:
        assert 0.9 * profile.memory < profile.visible_memory <= profile.memory
    for link in profile.links:
        assert link.bandwidth is None or 10e9 <= link.bandwidth < profile.memory_bandwidth
    if profile.launch_overhead:
        assert 1e-6 <= profile.launch_overhead <= 50e-6


@pytest.mark.slow
def test_names_and_aliases_are_unique():
    names = [alias for name in NAMES for alias in (name, *device_profile(name).aliases)]
    assert len(names) == len(set(names))
    assert set(NAMES) <= set(device_profiles())
    for name in names:
        assert device_profile(name.upper().replace("-", "_")) == device_profile(name)


def test_known_figures():
    h100 = mt.analysis.device_profile("h100-80gb")
    assert h100.memory == 80 << 30 and h100.memory_bandwidth == 3.35e12 and h100.backend == "cuda"
    assert h100.rate(mt.bfloat16) == 989.4e12 and h100.rate("torch.float8_e4m3fn") == 1978.9e12
    assert h100.rate(mt.float32) == 66.9e12 and h100.rate(mt.float32, tf32=True) == 494.7e12
    assert h100.rate(mt.complex64) == h100.rate(mt.float32)
    assert h100.rate(mt.float64, vector=True) == 33.5e12
    assert h100.rate(mt.int64) is None and h100.rate("int4") is None
    assert h100.link("node").bandwidth == 450e9 and h100.link("pair") is None
    assert h100.figures["launch.overhead"].estimate
    assert device_profile("mi300x").rate("bfloat16") == 1307.4e12
    assert device_profile("t4").rate("bfloat16") is None  # it has none; unknown is not 0
    with pytest.raises(ValueError, match="scope must be one of"):
        h100.link("rack")


def test_memory_options():
    assert device_profile("m4-max").memory == 128 << 30
    small = device_profile("m4-max-64gb")
    assert small.memory == 64 << 30 and small.rates == device_profile("m4-max").rates and small.name == "m4-max-64gb"
    with pytest.raises(ProfileError, match="sold with 36gb, 48gb, 64gb, 128gb"):
        device_profile("m4-max-63gb")


def test_profiles_are_values():
    profile = device_profile("l4")
    assert device_profile(profile) is profile
    with pytest.raises(dataclasses.FrozenInstanceError):
        profile.memory = 1
    assert pickle.loads(pickle.dumps(profile)) == profile
    assert hash(profile) == hash(device_profile("l4-24gb"))
    assert profile.to_dict()["figures"]["memory.bandwidth"]["source"]["url"]


def test_unknown_name_has_near_matches():
    with pytest.raises(ProfileError, match="no device profile is named 'h1000'. Did you mean .*h100") as error:
        device_profile("h1000")
    assert PATH_VARIABLE in str(error.value)
    with pytest.raises(ProfileError, match="no device profile is named 'qqqqq'. `metatensor profiles`"):
        device_profile("qqqqq")


def test_user_files(write, monkeypatch, tmp_path, clean_registry):
    body = MINIMAL + 'aliases = ["super card"]\n[memory]\ncapacity = { value = "4 GB", source = "us" }\n[sources.us]\ntitle = "measured"\n'
    path = write(body)
    assert load_profile(path).memory == 4 * 10**9
    assert device_profile(str(path)).name == "acme" and device_profile(path).memory_bandwidth is None
    with pytest.raises(ProfileError):
        device_profile("acme")
    monkeypatch.setenv(PATH_VARIABLE, str(tmp_path))
    assert device_profile("ACME").memory == device_profile("super-card").memory == 4 * 10**9
    assert "acme" in device_profiles()
    (tmp_path / "l4.toml").write_text(body)  # replaces the profile of the package
    assert device_profile("l4").title == "A card"
    path.write_text(body.replace("4 GB", "8 GB "))
    assert device_profile("acme").memory == 8 * 10**9
    monkeypatch.setenv(PATH_VARIABLE, os.fspath(tmp_path / "missing"))
    with pytest.raises(ProfileError, match="not a directory"):
        device_profile("l4")


def test_register(clean_registry):
    mine = DeviceProfile(name="mine", title="Mine", vendor="Me", kind="gpu", architecture="", memory=1 << 30, aliases=("my-card",))
    assert register(mine) is mine
    assert device_profile("mine") is mine and device_profile("my card") is mine and "mine" in device_profiles()
    with pytest.raises(ProfileError, match="cannot name a profile"):
        register(dataclasses.replace(mine, name="Not Good"))


SOURCE = '[sources.a]\ntitle = "A"\n'


@pytest.mark.parametrize(("text", "message"), [
    ("title = ", "Invalid value"),
    ('vendor = "A"\nkind = "gpu"', "title must be a text"),
    (MINIMAL.replace("gpu", "toaster"), "kind must be one of gpu, tpu, cpu"),
    (MINIMAL + "memori = 1", "unknown key 'memori'; did you mean 'memory'"),
    (MINIMAL + 'memory = "4 GB"', "memory: must be a table"),
    (MINIMAL + '[memory]\ncapacity = "4 GB"', r'memory.capacity: must be \{ value'),
    (MINIMAL + '[memory]\ncapacity = { value = "4 GB" }', "memory.capacity: source must be a text"),
    (MINIMAL + '[memory]\ncapacity = { value = "4 GB", source = "b" }\n' + SOURCE, r"\[sources.b\] is missing"),
    (MINIMAL + '[memory]\ncapacity = { value = 4, source = "a" }\n' + SOURCE, "the value must be a text"),
    (MINIMAL + '[memory]\ncapacity = { value = "4 GB/s", source = "a" }\n' + SOURCE, "no unit of bytes"),
    (MINIMAL + '[memory]\ncapacity = { value = "0 GB", source = "a" }\n' + SOURCE, "leave out what is not known"),
    (MINIMAL + '[memory]\ncapacity = { value = "nan GB", source = "a" }\n' + SOURCE, "not a positive quantity"),
    (MINIMAL + '[memory]\ncapacity = { value = "1.1 B", source = "a" }\n' + SOURCE, "not a whole number of bytes"),
    (MINIMAL + '[memory]\ncapacity = { value = "x GB", source = "a" }\n' + SOURCE, "does not begin with a number"),
    (MINIMAL + '[memory]\ncapacity = { value = "1 GB", source = "a" }\nvisible = { value = "2 GB", source = "a" }\n' + SOURCE, "more than"),
    (MINIMAL + '[memory]\noptions = ["1 GB"]\n', "the capacity must be one of them"),
    (MINIMAL + '[rates]\nfloat17 = { value = "1 TFLOP/s", source = "a" }\n' + SOURCE, "unknown key 'float17'; did you mean 'float16'"),
    (MINIMAL + '[links.x]\nscope = "moon"\n', "scope must be one of pair, node, host"),
    (MINIMAL + '[sources.a]\ntitle = 1\n', "sources.a: title must be a text"),
    (MINIMAL + 'aliases = "x"\n', "aliases must be a list of texts"),
    (MINIMAL + '[memory]\ncapacity = { value = "1 GB", source = "a", estimate = "yes" }\n' + SOURCE, "estimate must be true or false"),
])  # fmt: skip
def test_invalid_files_say_where_and_why(write, text, message):
    with pytest.raises(ProfileError, match=message) as error:
        load_profile(write(text))
    assert "acme.toml" in str(error.value)


def test_invalid_name_and_size(write):
    with pytest.raises(ProfileError, match="cannot name a profile"):
        load_profile(write(MINIMAL, "A B.toml"))
    with pytest.raises(ProfileError, match="too many for a profile"):
        load_profile(write("#" * (2 << 20)))
    with pytest.raises(ProfileError, match="No such file"):
        device_profile("missing.toml")


def test_quantities():
    assert parse_quantity("141 GiB", "bytes") == 141 << 30 and type(parse_quantity("1 kB", "bytes")) is int
    assert parse_quantity("3.35 TB/s", "bytes per second") == 3.35e12
    assert parse_quantity("5 us", "seconds") == 5e-6
    assert parse_quantity("989.4 TFLOP/s", "operations per second") == 989.4e12
