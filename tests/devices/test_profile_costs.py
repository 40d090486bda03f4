"""Measured costs in profiles: the profile has the costs in the file, and mistakes in the file are named."""

import pytest

from metatensor.devices.profiles import OperatorCost, ProfileError
from metatensor.devices.profiles.loading import profile_of_text

HEAD = 'title = "A card"\nvendor = "ACME"\nkind = "gpu"\n[sources.test]\ntitle = "Measured"\n'


def read(text):
    return profile_of_text(HEAD + text, "acme.toml")


def test_tables():
    profile = read("""
[launch]
overhead = { value = "4 us", source = "test" }
backward = { value = "2 us", source = "test" }
[efficiency]
product = { value = "65 %", source = "test" }
copy = { value = "0.9", source = "test" }
[operators]
source = "test"
dtype = "bfloat16"
mm = { overhead = "2 us", bandwidth = "1 TB/s", rate = "40 TFLOP/s" }
"add strided" = { bytes = [0, 1024], seconds = [1e-6, 3e-6] }
[kinds]
source = "test"
recurrence = { overhead = "1 us", repeated = "2 GB/s" }
""")
    assert profile.efficiency == {"product": 0.65, "copy": 0.9} and profile.phase_overheads == {"backward": 2e-6}
    assert profile.operators["mm"] == OperatorCost(2e-6, 1e12, 4e13)
    assert profile.operators["add strided"].time(512, 0) == pytest.approx(2e-6)
    assert profile.kinds["recurrence"].repeated == 2e9 and profile.operator_dtype == "bfloat16"
    assert profile.figures["efficiency.product"].source.title == "Measured"
    assert profile.to_dict()["operators"]["mm"]["rate"] == 4e13
    plain = read("")
    assert not plain.operators and not plain.kinds and not plain.efficiency and plain.operator_dtype == "float32"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[operators]\nmm = { overhead = '1 us' }", "operators: source must be a text"),
        ("[operators]\nsource = 'tset'\nmm = { overhead = '1 us' }", r"operators: \[sources.tset\] is missing"),
        ("[operators]\nsource = 'test'\nmm = 3", "operators.mm: must be { overhead"),
        ("[operators]\nsource = 'test'\nmm = {}", "operators.mm: must be { overhead"),
        ("[operators]\nsource = 'test'\nmm = { overhaed = '1 us' }", "operators.mm: unknown key 'overhaed'; did you mean 'overhead'"),
        ("[operators]\nsource = 'test'\nmm = { overhead = '1 GB' }", "operators.mm.overhead: .* has no unit of seconds"),
        ("[operators]\nsource = 'test'\nmm = { bytes = [1, 2], seconds = [1.0] }", "operators.mm: bytes and seconds have 2 and 1 numbers"),
        ("[operators]\nsource = 'test'\nmm = { bytes = [2, 1], seconds = [1.0, 2.0] }", "operators.mm.bytes: the numbers must increase"),
        ("[operators]\nsource = 'test'\nmm = { bytes = [1], seconds = ['1'] }", "operators.mm.seconds: must be a list of numbers"),
        ("[operators]\nsource = 'test'\nmm = { bytes = [1], seconds = [-1.0] }", "operators.mm.seconds: must be a list of numbers"),
        ("[operators]\nsource = 'test'\nmm = { bytes = [1], seconds = [nan] }", "operators.mm.seconds: must be a list of numbers"),
        ("[operators]\nsource = 'test'\nmm = { overhead = '1 us', bytes = [1], seconds = [1.0] }", "has both points and a line"),
        ("[operators]\nsource = 'test'\ndtype = 'fp33'", "operators.dtype: must be one of"),
        ("[kinds]\nsource = 'test'\nproducts = { overhead = '1 us' }", "kinds: unknown key 'products'; did you mean 'product'"),
        ("[efficiency]\nproduct = { value = '1.2', source = 'test' }", "efficiency.product: a part of the peak is at most 1"),
        ("[efficiency]\nproduct = { value = '1 us', source = 'test' }", "efficiency.product: .* has no unit of ratio"),
        ("[efficiency]\nproducts = { value = '0.5', source = 'test' }", "efficiency: unknown key 'products'"),
        ("operators = 3", "operators: must be a table"),
    ],
)
def test_mistakes(text, message):
    if text.startswith("operators"):
        with pytest.raises(ProfileError, match=message):
            profile_of_text(text + "\n" + HEAD, "acme.toml")
        return
    with pytest.raises(ProfileError, match=message):
        read(text)
