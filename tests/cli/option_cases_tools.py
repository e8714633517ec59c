"""What the options of servers, of language models and of AWS's tools do; see option_cases.py."""

from __future__ import annotations

import functools
import sys
import tempfile
from pathlib import Path

from option_cases import Entry, Form, does, held, passed, refused

sys.path.insert(0, str(Path(__file__).parents[1] / "generate"))
from tiny import Tiny  # noqa: E402

CONFIG = """{"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 2, "hidden_size": 128,
"num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 16, "intermediate_size": 256,
 "vocab_size": 512, "max_position_embeddings": 512,
"rms_norm_eps": 1e-5, "tie_word_embeddings": false}"""
MONITOR = '{"period": "1s", "neuron_runtimes": [], "system_metrics": []}'


@functools.cache
def _tiny() -> bytes:
    with tempfile.TemporaryDirectory() as name:
        return Tiny(context=128).write(Path(name)).read_bytes()


def write_files(folder: Path) -> None:
    """What the command lines below name."""
    (folder / "tiny.gguf").write_bytes(_tiny())
    (folder / "config.json").write_text(CONFIG)


_ADAPTER = held("tests/generate/test_adapter.py::test_the_command_takes_a_folder")
_INSTANCE: dict[str, Entry] = {"--instance": passed("--instance trn1.32xlarge")}
_DRAWN = "--temperature 1.5"
_OF_PODS = held("tests/cli/test_options.py::test_options_of_pods_need_enable_k8s_info")
_NOT_OF_CAPTURE = [
    "--profile-nth-exec", "--capture-type", "--exec-mode", "--ignore-exec-errors", "--enable-dge-notifs",
    "--single-io", "--single-io-threshold", "--collectives-workers-per-node", "--collectives-worker-count",
    "--collectives-worker-start-id", "--collectives-profile-id", "--multi-input", "--systrace-get-event-types",
    "--systrace-event-filter",
]  # fmt: skip
_NOT_OF_VIEW = ["--ingest-only", "--display-name", "--framework-source-root", "--nki-source-root", "-F"]
_OF_A_SESSION = ["--ignore-device-profile", "--ignore-system-profile"]
_OF_A_SESSION_BY_VALUE = [
    "--system-trace-filter-neuron-core", "--system-trace-filter-event-type", "--system-trace-filter-instance-id",
    "--system-trace-primary-group", "--system-trace-secondary-group",
]  # fmt: skip

FORMS = [
    Form(
        "generate",
        "tiny.gguf --json --max-tokens 6 --context 64 --prompt the",
        {
            "--prompt": does("--prompt in"),
            "--system": does("--system thin"),
            "--raw": does("--raw"),
            "--max-tokens": does("--max-tokens 3"),
            "--context": does("--context 128"),
            "--temperature": does("--temperature 2"),
            "--top-k": does("--top-k 1", _DRAWN),
            "--top-p": does("--top-p 0.01", _DRAWN),
            "--min-p": does("--min-p 1", _DRAWN),
            "--seed": does("--seed 7", _DRAWN),
            "--speculate": does("--speculate 2"),
            "--draft-model": does("--draft-model tiny.gguf", "--speculate 2"),
            "--target": does("--target trn1"),
            "--dtype": does("--dtype f32"),
            "--quantization": does("--quantization int8"),
            "--kv-cache-dtype": does("--kv-cache-dtype fp8"),
            "--progress": does("--progress"),
            "--lora": _ADAPTER,
            "--ranks": does("--ranks 2 --instance trn2.48xlarge"),
            "--instance": refused("--instance trn2.48xlarge"),
        },
    ),
    Form("generate", "tiny.gguf --max-tokens 2 --context 64 --prompt the", {"--json": does("--json")}),
    Form(
        "generate",
        "tiny.gguf --max-tokens 2 --context 64 --prompt the",
        {
            "--top-k": refused("--top-k 3"),
            "--top-p": refused("--top-p 0.5"),
            "--min-p": refused("--min-p 0.5"),
            "--seed": refused("--seed 7"),
            "--draft-model": refused("--draft-model tiny.gguf"),
        },
    ),
    Form(
        "step-times",
        "config.json --max-model-len 64 --max-num-seqs 1",
        {
            "--target": does("--target trn1"),
            "--dtype": does("--dtype f32"),
            "--quantization": does("--quantization int8"),
            "--kv-cache-dtype": does("--kv-cache-dtype fp8"),
            "--json": does("--json"),
            "--progress": does("--progress"),
            "--output": does("-o times.csv"),
            "--max-model-len": does("--max-model-len 128"),
            "--max-num-seqs": does("--max-num-seqs 2"),
            "--ranks": does("--ranks 2 --instance trn1.32xlarge"),
            "--instance": refused("--instance trn1.32xlarge"),
            "--lnc": does("--lnc 2 --ranks 1 --instance trn2.48xlarge"),
            "--on-device-sampling": does("--on-device-sampling drawn"),
        },
    ),
    Form(
        "serve",
        "tiny.gguf",
        {
            "--target": passed("--target trn1"),
            "--dtype": passed("--dtype f32"),
            "--quantization": passed("--quantization int8"),
            "--kv-cache-dtype": passed("--kv-cache-dtype fp8"),
            "--lora": passed("--lora folder"),
            "--speculative-config": passed("--speculative-config '{\"num_speculative_tokens\": 3}'"),
            "--lora-modules": passed("--lora-modules me=folder"),
            "--ranks": passed("--ranks 2"),
            "--instance": passed("--instance trn2.48xlarge"),
            "--host": passed("--host 127.0.0.2"),
            "--port": passed("--port 9"),
            "--api-key": passed("--api-key abc"),
            "--max-waiting": passed("--max-waiting 3"),
            "--max-connections": passed("--max-connections 3"),
            "--max-body-bytes": passed("--max-body-bytes 3"),
            "--drain-seconds": passed("--drain-seconds 3"),
            "--served-model-name": passed("--served-model-name me"),
            "--max-model-len": passed("--max-model-len 64"),
            "--max-num-seqs": passed("--max-num-seqs 3"),
            "--num-gpu-blocks-override": passed("--num-gpu-blocks-override 9"),
            "--no-enable-prefix-caching": passed("--no-enable-prefix-caching"),
            "--policy": passed("--policy vllm"),
            "--scheduling-policy": passed("--scheduling-policy priority"),
            "--max-loras": passed("--max-loras 2"),
            "--chat-template": passed("--chat-template t.jinja"),
            "--default-chat-template-kwargs": passed("--default-chat-template-kwargs '{\"a\": 1}'"),
            "--reasoning-parser": passed("--reasoning-parser none"),
            "--tool-call-parser": passed("--tool-call-parser mistral"),
            "--override-generation-config": passed("--override-generation-config '{\"temperature\": 0.2}'"),
            "--additional-config": held("tests/serve/test_neuron_config.py::test_the_command_explains"),
            "--override-neuron-config": held("tests/serve/test_neuron_config.py::test_the_command_explains"),
            "--explain-config": held("tests/serve/test_neuron_config.py::test_the_command_explains"),
            "--time": passed("--time paced"),
            "--no-values": passed("--no-values"),
            "--linear": passed("--linear step=1"),
            "--step-times": passed("--step-times t.csv"),
            "--host-us": passed("--host-us 3"),
            "--host-request-us": passed("--host-request-us 3"),
            "--trace": passed("--trace t"),
            "--audit": passed("--audit"),
            "--json": held("tests/serve/test_neuron_config.py::test_the_command_explains"),
            "--progress": held("tests/cli/test_options.py::test_steps_of_serve_are_told"),
        },
        calls=("opentrn.serve.build", "uvicorn.Config"),
    ),
    Form(
        "neuron-monitor",
        "",
        {
            "--config-file": passed("-c monitor.json"),
            "--verbose": passed("--verbose 3"),
            **_INSTANCE,
        },
        calls=("opentrn.tools.monitor.run",),
    ),
    Form(
        "neuron-monitor-prometheus",
        "",
        {
            "--port": passed("--port 9"),
            "--host": passed("--host 127.0.0.2"),
            "--enable-k8s-info": passed("--enable-k8s-info"),
        },
        calls=("opentrn.tools.prometheus.run",),
    ),
    Form(
        "neuron-monitor-prometheus",
        "",
        {
            "--period": _OF_PODS,
            "--socket": _OF_PODS,
            "--instance": _OF_PODS,
        },
    ),
    Form(
        "neuron-monitor-prometheus",
        "--enable-k8s-info",
        {"--period": passed("--period 3"), "--socket": passed("--socket s"), **_INSTANCE},
        calls=("opentrn.tools.kubernetes.k8s_info.Kubelet", "opentrn.tools.prometheus.run"),
    ),
    Form(
        "neuron-monitor-k8s-info",
        "",
        {"--period": passed("--period 3"), "--socket": passed("--socket s"), **_INSTANCE},
        calls=("opentrn.tools.kubernetes.k8s_info.run",),
    ),
    Form(
        "neuron-monitor-cloudwatch",
        "--namespace n --region us-west-2",
        {"--namespace": passed("--namespace m"), "--region": passed("--region us-east-1")},
        calls=("opentrn.tools.cloudwatch.run",),
    ),
    Form(
        "neuron-monitor-statsd",
        "",
        {
            "--port": passed("--port 9"),
            "--host": passed("--host 127.0.0.2"),
            "--prefix": passed("--prefix me"),
            "--tags": passed("--tags datadog"),
        },
        calls=("opentrn.tools.statsd.run",),
    ),
    Form("neuron-top", "", _INSTANCE, calls=("opentrn.tools.top.run",)),
    Form(
        "device-tree",
        "--root tree",
        {
            "--root": does("--root other"),
            "--every": held("tests/tools/test_device_tree.py::test_it_is_written_again_until_it_is_interrupted"),
            "--instance": does("--instance trn1.32xlarge"),
            "--remove": held("tests/tools/test_device_tree.py::test_the_tree_of_a_process"),
        },
    ),
    Form(
        "device-tree",
        "--root tree --remove",
        {
            "--every": refused("--every 2"),
            "--instance": refused("--instance trn1.32xlarge"),
        },
    ),
    Form(
        "neuron-explorer",
        "",
        {
            "--version": held("tests/tools/test_explorer.py::test_version_and_schema"),
            "--show-profile-schema": held("tests/tools/test_explorer.py::test_version_and_schema"),
        },
    ),
    Form(
        "neuron-explorer capture",
        "-n m.neuron",
        {name: refused(f"{name} 1") for name in _NOT_OF_CAPTURE},
    ),
    Form(
        "neuron-explorer view",
        "-s p.ntff",
        {name: refused(f"{name} 1") for name in [*_NOT_OF_VIEW, *_OF_A_SESSION_BY_VALUE]}
        | {name: refused(name) for name in _OF_A_SESSION},
    ),
    Form(
        "neuron-explorer view",
        "-d made",
        {name: passed(f"{name} 1") for name in _OF_A_SESSION_BY_VALUE}
        | {name: passed(name) for name in _OF_A_SESSION}
        | {"--session-dir": passed("-d other")},
        calls=("opentrn.tools.explorer_session.view",),
    ),
    Form(
        "neuron-explorer inspect",
        "true",
        {
            "--output-dir": passed("-o made", "true"),
            "--num-trace-events": passed("-n 3", "true"),
            "program": passed("false"),
        },
        calls=("opentrn.tools.explorer_session.inspect",),
    ),
    Form(
        "neuron-explorer recommend",
        "-n m.neuron",
        {
            "--neff": passed("-n other.neuron"),
            "--nki-source-root": passed("--nki-source-root made"),
            "--loop-iterations": passed("--loop-iterations 3"),
            "--session-file": held("tests/cli/test_options.py::test_session_file_of_recommend_is_said_not_to_be_read"),
        },
        calls=("opentrn.tools.recommend.recommend",),
    ),
    Form(
        "neuron-explorer capture",
        "-n m.neuron",
        {
            "--neff": passed("-n other.neuron"),
            "--session-file": passed("-s other.ntff"),
            "--loop-iterations": passed("--loop-iterations 3"),
            "inputs": passed("input0 a.npy"),
            "--num-exec": passed("--num-exec 2"),
            "--save-output-npy": passed("--save-output-npy"),
            "--save-output": passed("--save-output"),
            "--check-output-determinism": passed("--check-output-determinism"),
            "--disable-profile": passed("--disable-profile"),
        },
        calls=("opentrn.tools.explorer.capture",),
    ),
    Form(
        "neuron-explorer view",
        "-s p.ntff",
        {
            "--session-file": passed("-s other.ntff"),
            "--output-format": passed("--output-format json"),
            "--output-file": passed("--output-file made"),
            "--neff": held("tests/cli/test_options.py::test_neff_of_view_is_said_not_to_be_read"),
        },
        calls=("opentrn.tools.explorer.view",),
    ),
    Form(
        "neuron-tools install",
        "--prefix made",
        {"--prefix": held("tests/tools/test_install.py::test_installs_runs_and_leaves_nothing")},
    ),
    Form(
        "neuron-tools uninstall",
        "--prefix made",
        {"--prefix": held("tests/tools/test_install.py::test_installs_runs_and_leaves_nothing")},
    ),
    Form(
        "kubernetes device-plugin",
        "",
        {
            "--kubelet": passed("--kubelet made"),
            "--dev": passed("--dev made"),
            "--resource": passed("--resource neuron"),
            **_INSTANCE,
        },
        calls=("opentrn.tools.kubernetes.device_plugin.run",),
    ),
    Form(
        "kubernetes scheduler-extender",
        "",
        {
            "--api": passed("--api http://127.0.0.1:9"),
            "--port": passed("--port 9"),
            "--host": passed("--host 127.0.0.2"),
        },
        calls=("opentrn.tools.kubernetes.extender.run",),
    ),
    Form(
        "kubernetes resource-slices",
        "--node one",
        {
            "--node": does("--node two"),
            "--driver-version": does("--driver-version 2.25.4.0"),
            "--ultraserver": does("--ultraserver 7"),
            "--instance": does("--instance trn1.32xlarge"),
        },
    ),
    Form(
        "slurm config",
        "--nodes trn[0-3]",
        {
            "--nodes": does("--nodes trn[0-1]"),
            "--dev": does("--dev /devices"),
            "--prolog": does("--prolog /p.sh"),
            "--instance": does("--instance trn1.32xlarge"),
        },
    ),
    Form(
        "slurm task-prolog",
        "",
        {"--instance": passed("--instance trn1.32xlarge")},
        calls=("opentrn.tools.slurm.task_prolog",),
    ),
    Form("completion", "bash", {"shell": held("tests/cli/test_help.py::test_other_shells_have_a_script")}),
    Form("", "", {"--version": held("tests/house/test_repository.py::test_there_is_one_version_number")}),
]
