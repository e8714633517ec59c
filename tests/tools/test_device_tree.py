"""`opentrn device-tree`: numbers of a real process, and whose folders it leaves alone.

Names and files: src/monitor/device_tree_test.cc.
"""

import os
import subprocess
import sys
import textwrap
import time

import pytest

from opentrn.cli import main

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


def test_a_period_is_checked(tmp_path, capsys):
    for seconds in ("0", "-1", "inf", "nan", "soon"):
        with pytest.raises(SystemExit) as ended:
            main(["device-tree", "--root", str(tmp_path / "root"), "--every", seconds])
        assert ended.value.code == 2
        assert "--every" in capsys.readouterr().err
    assert not (tmp_path / "root").exists()


def test_it_is_written_again_until_it_is_interrupted(tmp_path):
    root = tmp_path / "root"
    words = ["device-tree", "--root", str(root), "--every", "0.05", "--instance", "trn1.2xlarge"]
    with subprocess.Popen([sys.executable, "-m", "opentrn", *words], stderr=subprocess.PIPE) as writer:
        file = root / SYS / "neuron0" / "core_count"

        def wait_for(text):
            while not file.exists() or file.read_text() != text:
                assert writer.poll() is None
                time.sleep(0.02)

        wait_for("2\n")
        file.write_text("0\n")
        wait_for("2\n")
        writer.terminate()
        assert writer.wait() == 143
