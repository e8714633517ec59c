"""`opentrn compare`: the same figures as each target's own profile, side by side."""

import json
from pathlib import Path

import pytest

import opentrn
from opentrn.cli import commands as cli

MLP = Path(__file__).parents[2] / "examples" / "mlp.mlir"


# Its gather is GpSimd's, which NeuronCore-v1 has not.
LOOKUP = """
func.func @main(%table: tensor<64x32xf32>, %ids: tensor<8xi32>) -> tensor<8x32xf32> {
  %0 = "stablehlo.gather"(%table, %ids) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 32>}>
    : (tensor<64x32xf32>, tensor<8xi32>) -> tensor<8x32xf32>
  return %0 : tensor<8x32xf32>
}
"""


@pytest.fixture(scope="module")
def found():
    return opentrn.compare(MLP)


@pytest.fixture(scope="module")
def found_without_inf1():
    return opentrn.compare(LOOKUP)


def test_every_row_is_that_of_the_targets_own_profile(found):
    by_name = {row.instance: row for row in found.instances}
    cores = {"inf1": 1, "trn1": 2, "trn2": 3, "trn3": 4}
    for target, core in ((target, f"NeuronCore-v{version}") for target, version in cores.items()):
        profile = opentrn.compile(MLP, target=target).time().profile()
        (chip,) = (row for row in found.chips if row.neuron_core == core)
        assert chip.latency_us == pytest.approx(profile["model"]["latency_us"])
        assert chip.hbm_bytes == profile["memory"]["hbm_bytes_used"] and not chip.why
        for wanted in profile["model"]["serving"]:
            row = by_name.pop(wanted["instance"])
            assert row.inferences_per_s == pytest.approx(wanted["inferences_per_s"])
            for rate, price in row.prices.items():
                assert price == (wanted[rate] and wanted[rate]["usd_per_million"])
    assert not by_name


def test_what_a_core_cannot_run_has_no_time(found_without_inf1):
    found = found_without_inf1
    (chip,) = (row for row in found.chips if row.neuron_core == "NeuronCore-v1")
    assert chip.chips == ("Inferentia",) and chip.latency_us is None and "GpSimd" in chip.why
    assert found.instances[-1].usd_per_million is None and "inf1.24xlarge" in found.text()


def test_instances_without_a_time_share_one_paragraph(found_without_inf1):
    text = found_without_inf1.text()
    assert text.count("time unknown, ") == 1 and text.count("GpSimd") == 1
    rows = [line for line in text.splitlines() if line.lstrip().startswith("inf1.")]
    assert rows == []


def test_the_cheapest_known_price_is_first(found):
    prices = [row.usd_per_million for row in found.instances]
    known = [price for price in prices if price is not None]
    assert known == sorted(known) == prices[: len(known)] and found.instances[0].instance == "inf1.xlarge"


def test_the_text_fits_a_terminal(found):
    assert max(map(len, found.text().splitlines())) <= 100


def test_command(capsys):
    assert cli.main(["compare", str(MLP), "--targets", "trn2", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [row["neuron_core"] for row in facts["chips"]] == ["NeuronCore-v3"]
    assert {row["chip"] for row in facts["instances"]} == {"Trainium2"}
    assert cli.main(["compare", str(MLP), "--targets", "tpu"]) == 2
    assert "one of inf1, trn1, trn2, trn3" in capsys.readouterr().err
