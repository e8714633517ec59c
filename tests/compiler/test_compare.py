"""`opentrn compare`: the same figures as each target's own profile, side by side."""

import json
from pathlib import Path

import pytest

import opentrn
from opentrn.cli import commands as cli

MLP = Path(__file__).parents[2] / "examples" / "mlp.mlir"


@pytest.fixture(scope="module")
def found():
    return opentrn.compare(MLP)


def test_every_row_is_that_of_the_targets_own_profile(found):
    by_name = {row.instance: row for row in found.instances}
    for target, core in (("trn1", "NeuronCore-v2"), ("trn2", "NeuronCore-v3"), ("trn3", "NeuronCore-v4")):
        profile = opentrn.compile(MLP, target=target).time().profile()
        (chip,) = (row for row in found.chips if row.neuron_core == core)
        assert chip.latency_us == pytest.approx(profile["model"]["latency_us"])
        assert chip.hbm_bytes == profile["memory"]["hbm_bytes_used"] and not chip.why
        for wanted in profile["model"]["serving"]:
            row = by_name.pop(wanted["instance"])
            assert row.inferences_per_s == pytest.approx(wanted["inferences_per_s"])
            for rate, price in row.prices.items():
                assert price == (wanted[rate] and wanted[rate]["usd_per_million"])
    assert {row.chip for row in by_name.values()} == {"Inferentia"}


def test_what_no_source_gives_is_unknown(found):
    (chip,) = (row for row in found.chips if row.neuron_core == "NeuronCore-v1")
    assert chip.chips == ("Inferentia",) and chip.latency_us is None and "no public source" in chip.why
    assert found.instances[-1].usd_per_million is None and "inf1.24xlarge" in found.text()


def test_instances_without_a_time_share_one_paragraph(found):
    text = found.text()
    assert text.count("time unknown, ") == 1 and text.count("no public source") == 1
    rows = [line for line in text.splitlines() if line.lstrip().startswith("inf1.")]
    assert rows == []


def test_the_cheapest_known_price_is_first(found):
    prices = [row.usd_per_million for row in found.instances]
    known = [price for price in prices if price is not None]
    assert known == sorted(known) == prices[: len(known)] and found.instances[0].instance == "inf2.xlarge"


def test_the_text_fits_a_terminal(found):
    assert max(map(len, found.text().splitlines())) <= 100


def test_command(capsys):
    assert cli.main(["compare", str(MLP), "--targets", "trn2", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [row["neuron_core"] for row in facts["chips"]] == ["NeuronCore-v3"]
    assert {row["chip"] for row in facts["instances"]} == {"Trainium2"}
    assert cli.main(["compare", str(MLP), "--targets", "tpu"]) == 2
    assert "one of inf1, trn1, trn2, trn3" in capsys.readouterr().err
