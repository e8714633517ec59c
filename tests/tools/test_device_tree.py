"""The simulated device tree: names of AWS's guide, numbers of a real process, and whose folders it leaves alone."""

import os
import subprocess
import sys
import textwrap

import pytest

from opentrn import _core
from opentrn.cli import main
from opentrn.errors import InputError
from opentrn.tools import device_tree

SYS = "sys/devices/virtual/neuron_device"
PROGRAM = textwrap.dedent(
    """
    import subprocess, sys
    import numpy as np
    from opentrn.model import compile
    model = compile("module { func.func @main(%a: tensor<128x64xf32>) -> tensor<128x64xf32> {"
                    "  %0 = stablehlo.add %a, %a : tensor<128x64xf32> return %0 : tensor<128x64xf32> } }\\n",
                    target="trn2")
    for _ in range(3):
        model(np.ones((128, 64), np.float32))
    subprocess.run([sys.executable, "-m", "opentrn", "device-tree", "--root", sys.argv[1]], check=True)
    """
)


def test_the_tree_of_a_process(tmp_path):
    environment = dict(
        os.environ, OPENTRN_RUN_DIR=str(tmp_path / "run"), NEURON_RT_VISIBLE_CORES="2",
        NEURON_PLATFORM_TARGET_OVERRIDE="trn2.3xlarge",
    )  # fmt: skip
    root = tmp_path / "root"
    subprocess.run([sys.executable, "-c", PROGRAM, root], env=environment, check=True)
    tree = root / SYS

    def read(name):
        return (tree / name).read_text().strip()

    assert [path.name for path in tree.iterdir()] == ["neuron0"]
    assert (read("neuron0/core_count"), read("neuron0/connected_devices")) == ("4", "")
    assert read("neuron0/neuron_core2/stats/other_info/inference_count") == "3"
    assert read("neuron0/neuron_core2/stats/status/success/total") == "3"
    assert read("neuron0/neuron_core1/stats/status/success/total") == "0"
    assert read("neuron0/neuron_core0/info/architecture/arch_type") == "NCv3"
    assert read("neuron0/neuron_core2/stats/other_info/model_load_count") == "1"
    assert int(read("neuron0/neuron_core2/stats/memory_usage/device_mem/model_shared_scratchpad/total")) >= 0
    assert read("neuron0/info/architecture/device_name") == "Trainium2"
    assert (root / "sys/devices/virtual/dmi/id/product_name").read_text() == "trn2.3xlarge\n"
    assert len(list((root / "dev").iterdir())) == 1
    assert main(["device-tree", "--root", str(root), "--remove"]) == 0 and not root.exists()


def test_a_folder_of_somebody_else_is_left_alone(tmp_path, capsys):
    (tmp_path / "mine").write_text("x")
    for more in ([], ["--remove"]):
        assert main(["device-tree", "--root", str(tmp_path), *more]) == 2
        assert "not a tree of" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_links_are_not_written_through(tmp_path):
    machine = _core.machine_facts("trn1.2xlarge")
    root, target = tmp_path / "root", tmp_path / "target"
    device_tree.write(root, device_tree.files_of(machine, []))
    target.write_text("keep")
    file = root / SYS / "neuron0" / "core_count"
    file.unlink()
    file.symlink_to(target)
    with pytest.raises(InputError, match="is a link"):
        device_tree.write(root, device_tree.files_of(machine, []))
    assert target.read_text() == "keep"
    (tmp_path / "link").symlink_to(root)
    with pytest.raises(InputError):
        device_tree.write(tmp_path / "link", {})


def test_names_are_those_of_the_guide():
    """One core's folder of AWS's "Neuron Sysfs User Guide": every status and every kind of device memory."""
    names = set(device_tree.files_of(_core.machine_facts("trn2.3xlarge"), []))
    core = f"{SYS}/neuron0/neuron_core0"
    for status in (
        "exec_bad_input", "hw_error", "infer_failed_to_queue", "resource_nc_error", "unsupported_neff_version",
        "failure", "infer_completed_with_error", "invalid_error", "oob_error", "success", "generic_error",
        "infer_completed_with_num_error", "resource_error", "timeout",
    ):  # fmt: skip
        assert {f"{core}/stats/status/{status}/total", f"{core}/stats/status/{status}/present"} <= names
    for kind in (
        "constants",
        "model_code",
        "model_shared_scratchpad",
        "tensors",
        "collectives",
        "notifications",
    ):
        assert f"{core}/stats/memory_usage/device_mem/{kind}/peak" in names
    for name in (
        "flop_count",
        "inference_count",
        "model_load_count",
        "reset_fail_count",
        "reset_req_count",
        "nc_time_in_use",
    ):
        assert f"{core}/stats/other_info/{name}" in names
    assert f"{SYS}/neuron0/info/serial_number" not in names  # nobody knows it
