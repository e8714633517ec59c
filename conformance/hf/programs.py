"""Small programs of Hugging Face's libraries as their users write them: python programs.py NAME.

They name no device: the libraries find neuron. Losses are compared with those of the same program on the CPU.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

STEPS = 6


def _close(found: list[float], wanted: list[float], what: str) -> None:
    worst = max(abs(a - b) / abs(b) for a, b in zip(found, wanted, strict=True))
    print(f"RESULT {what}: {len(found)} losses, {found[0]:.4f} to {found[-1]:.4f}, worst {worst:.1e} off the CPU's")
    assert worst < 2e-3, (found, wanted)


def accelerator() -> None:
    """A training loop with accelerate.Accelerator."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState, PartialState

    losses: dict[bool, list[float]] = {}
    for cpu in (True, False):
        for state in (AcceleratorState, GradientState, PartialState):
            state._reset_state()
        accelerator = Accelerator(cpu=cpu)
        assert accelerator.device.type == ("cpu" if cpu else "neuron"), accelerator.device
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))
        x, y = torch.randn(48, 8), torch.randint(0, 4, (48,))
        data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=8)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        model, optimizer, data = accelerator.prepare(model, optimizer, data)
        for given, wanted in data:
            loss = torch.nn.functional.cross_entropy(model(given), wanted)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            losses.setdefault(cpu, []).append(loss.item())
    _close(losses[False], losses[True], "Accelerator on neuron:0")


class _Letters(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    def __init__(self) -> None:
        text = torch.tensor(list(Path(__file__).read_bytes()))
        self.rows = text[: len(text) // 32 * 32].view(-1, 32) % 128

    def __len__(self) -> int:
        return 64

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.rows[i], "labels": self.rows[i]}


def _model(positions: int = 32) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=128, n_positions=positions, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        )  # fmt: skip
    )


def _trained(model: Any, cpu: bool, batch: int = 8) -> list[float]:
    from accelerate.state import AcceleratorState, GradientState, PartialState
    from transformers import Trainer, TrainingArguments

    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=STEPS, per_device_train_batch_size=batch, learning_rate=1e-2, logging_steps=1,
            report_to=[], save_strategy="no", use_cpu=cpu, disable_tqdm=True, seed=1, dataloader_pin_memory=False,
        )  # fmt: skip
        assert arguments.device.type == ("cpu" if cpu else "neuron"), arguments.device
        trainer = Trainer(model=model, args=arguments, train_dataset=_Letters())
        trainer.train()
        return [row["loss"] for row in trainer.state.log_history if "loss" in row]


def trainer() -> None:
    """transformers.Trainer on a GPT-2 of two layers."""
    _close(_trained(_model(), cpu=False), _trained(_model(), cpu=True), "Trainer, GPT-2 of 2 layers")


def trainer_ranks() -> None:
    """The same under torchrun: the losses of one rank with the whole batch."""
    ranks = int(os.environ["WORLD_SIZE"])
    losses = _trained(_model(), cpu=False, batch=8 // ranks)
    if os.environ["RANK"] == "0":
        print(f"RESULT Trainer on {ranks} ranks: losses {', '.join(f'{loss:.4f}' for loss in losses)}")
    torch.distributed.destroy_process_group()
    assert losses[-1] < losses[0]


def lora() -> None:
    """peft's LoRA on the same model: only the adapters learn."""
    from peft import LoraConfig, get_peft_model

    def model() -> Any:
        base = _model()
        torch.manual_seed(1)
        return get_peft_model(base, LoraConfig(r=4, target_modules=["c_attn"], lora_dropout=0.0, fan_in_fan_out=True))

    _close(_trained(model(), cpu=False), _trained(model(), cpu=True), "Trainer with LoRA")


def pipeline() -> None:
    """torch.distributed.pipelining: as many stages as ranks, with the losses and gradients of one process."""
    import copy

    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    dist.init_process_group()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    place = torch.device("neuron", rank)
    torch.manual_seed(0)
    part = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.GELU(), torch.nn.LayerNorm(16))
    parts = [copy.deepcopy(part) for _ in range(ranks)]
    x, y = torch.randn(16, 16), torch.randn(16, 16)
    loss_of = torch.nn.functional.mse_loss
    for name, schedule_of in (("GPipe", ScheduleGPipe), ("1F1B", Schedule1F1B)):
        own = copy.deepcopy(parts[rank]).to(place)
        stage = PipelineStage(own, rank, ranks, place)
        schedule = schedule_of(stage, n_microbatches=4, loss_fn=loss_of)
        losses: list[torch.Tensor] = []
        given = (x.to(place),) if rank == 0 else ()
        schedule.step(*given, target=y.to(place), losses=losses) if rank == ranks - 1 else schedule.step(*given)
        whole = copy.deepcopy(torch.nn.Sequential(*parts))
        wanted = [loss_of(whole(a), b) for a, b in zip(x.chunk(4), y.chunk(4))]
        (sum(wanted) / 4).backward()
        for mine, theirs in zip(own.parameters(), whole[rank].parameters(), strict=True):
            torch.testing.assert_close(mine.grad.cpu(), theirs.grad, rtol=1e-4, atol=1e-6)
        if rank == ranks - 1:
            _close([loss.item() for loss in losses], [loss.item() for loss in wanted], f"{name} in {ranks} stages")
    dist.destroy_process_group()


def deepspeed() -> None:
    """DeepSpeed's engine with ZeRO-1, 2 and 3: the losses of one process on the CPU."""
    import copy

    import deepspeed as engine_of
    import torch.distributed as dist
    from deepspeed.accelerator import get_accelerator

    assert get_accelerator().device_name() == "neuron"
    engine_of.init_distributed()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
    x, y = torch.randn(8, 8), torch.randn(8, 4)
    loss_of = torch.nn.functional.mse_loss

    def trained(model: Any, mine: slice, backward: Any, step: Any, place: Any) -> list[float]:
        losses = []
        for _ in range(STEPS):
            loss = loss_of(model(x[mine].to(place)), y[mine].to(place))
            backward(loss)
            step()
            losses.append(loss.detach().clone())
        return losses

    whole = copy.deepcopy(net)
    adam = torch.optim.Adam(whole.parameters(), lr=1e-2)

    def backward(loss: torch.Tensor) -> None:
        adam.zero_grad()
        loss.backward()

    wanted = trained(whole, slice(None), backward, adam.step, "cpu")
    for stage in (1, 2, 3):
        own = copy.deepcopy(net)
        engine, *_ = engine_of.initialize(
            model=own, model_parameters=own.parameters(),
            config={
                "train_micro_batch_size_per_gpu": 8 // ranks, "zero_optimization": {"stage": stage},
                "optimizer": {"type": "Adam", "params": {"lr": 1e-2, "torch_adam": True}},
            },
        )  # fmt: skip
        losses = trained(engine, slice(rank, None, ranks), engine.backward, engine.step, engine.device)
        for loss in losses:
            dist.all_reduce(loss, dist.ReduceOp.AVG)
        if rank == 0:
            _close([loss.item() for loss in losses], [loss.item() for loss in wanted], f"ZeRO-{stage}, {ranks} ranks")
        engine.destroy()
    dist.destroy_process_group()


def _tokenizer(texts: list[str]) -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(unk_token="[unk]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = ["[unk]", "[pad]", "[eos]"]
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=128, special_tokens=special))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[pad]", eos_token="[eos]", unk_token="[unk]")


def sft() -> None:
    """TRL's SFTTrainer on a GPT-2 of two layers, with a tokenizer of its own. TRL pads texts to 128 tokens there."""
    from accelerate.state import AcceleratorState, GradientState, PartialState
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    lines = [line.strip() for line in Path(__file__).read_text().splitlines() if len(line.strip()) > 20][:48]
    losses: dict[bool, list[float]] = {}
    for cpu in (False, True):
        for state in (AcceleratorState, GradientState, PartialState):
            state._reset_state()
        with tempfile.TemporaryDirectory() as folder:
            arguments = SFTConfig(
                output_dir=folder, max_steps=STEPS, per_device_train_batch_size=4, learning_rate=1e-2, logging_steps=1,
                report_to=[], save_strategy="no", use_cpu=cpu, disable_tqdm=True, seed=1, max_length=32, bf16=False,
                gradient_checkpointing=False, dataloader_pin_memory=False,
            )  # fmt: skip
            assert arguments.device.type == ("cpu" if cpu else "neuron"), arguments.device
            trainer = SFTTrainer(
                model=_model(positions=128), args=arguments, train_dataset=Dataset.from_dict({"text": lines}),
                processing_class=_tokenizer(lines),
            )  # fmt: skip
            trainer.train()
            losses[cpu] = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    _close(losses[False], losses[True], "TRL SFTTrainer, GPT-2 of 2 layers")


def diffusion() -> None:
    """diffusers: pictures of a random UNet (DDPM) and of a random DiT (DDIM), beside the CPU's from the same noise."""
    from diffusers import (
        AutoencoderKL,
        DDIMScheduler,
        DDPMPipeline,
        DDPMScheduler,
        DiTPipeline,
        DiTTransformer2DModel,
        UNet2DModel,
    )

    torch.manual_seed(0)
    unet = UNet2DModel(
        sample_size=8, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(16, 32),
        norm_num_groups=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    dit = DiTTransformer2DModel(
        num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=8, num_layers=2, sample_size=8,
        patch_size=2, num_embeds_ada_norm=1000,
    )  # fmt: skip
    vae = AutoencoderKL(
        block_out_channels=(16,), norm_num_groups=8, latent_channels=4, down_block_types=("DownEncoderBlock2D",),
        up_block_types=("UpDecoderBlock2D",), sample_size=8,
    )  # fmt: skip
    for model in (unet, dit, vae):
        model.eval()  # as those that are loaded; a DiT drops labels while it learns
    pictures: dict[str, list[Any]] = {}
    for place in ("neuron", "cpu"):
        made = []
        ddpm = DDPMPipeline(unet, DDPMScheduler(num_train_timesteps=20)).to(place)
        ddpm.set_progress_bar_config(disable=True)
        made.append(ddpm(generator=torch.Generator().manual_seed(1), num_inference_steps=4, output_type="np").images)
        pipe = DiTPipeline(dit, vae, DDIMScheduler(num_train_timesteps=20)).to(place)
        pipe.set_progress_bar_config(disable=True)
        assert pipe.device.type == place
        made.append(
            pipe([3], generator=torch.Generator().manual_seed(2), num_inference_steps=4, output_type="np").images
        )
        pictures[place] = made
    for name, ours, theirs in zip(("DDPM with a UNet", "DiT with its decoder"), pictures["neuron"], pictures["cpu"]):
        worst = float(abs(ours - theirs).max())
        print(f"RESULT diffusers, {name}: a picture of {ours.shape}, at most {worst:.1e} off the CPU's")
        assert worst < 2e-3 and ours.std() > 0


def lightning() -> None:
    """Lightning's Trainer with accelerator="neuron" on a module of its demos' kind."""
    import lightning as L

    class Module(L.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
            self.losses: list[float] = []

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            x, y = batch
            loss = torch.nn.functional.cross_entropy(self.net(x), y)
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    generator = torch.Generator().manual_seed(3)
    data = torch.utils.data.TensorDataset(
        torch.randn(48, 8, generator=generator), torch.randint(0, 2, (48,), generator=generator)
    )
    losses = {}
    for place in ("neuron", "cpu"):
        module = Module()
        trainer = L.Trainer(
            accelerator=place, devices=1, max_epochs=1, logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False,
        )  # fmt: skip
        trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=8))
        assert trainer.strategy.root_device.type == place, trainer.strategy.root_device
        losses[place] = module.losses
    _close(losses["neuron"], losses["cpu"], "Lightning's Trainer")


def _titan_files(folder: Path) -> None:
    """A tokenizer and a text of torchtitan's kinds, which its wheel leaves out."""
    import json

    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    text = Path(__file__).read_text()
    rows = [text[at : at + 600] for at in range(0, len(text) - 600, 200)]
    (folder / "data").mkdir()
    (folder / "data" / "part.json").write_text("\n".join(json.dumps({"text": row}) for row in rows))
    tokenizer = Tokenizer(models.BPE(unk_token="[unk]"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    special = ["[unk]", "<bos>", "<eos>"]
    tokenizer.train_from_iterator([text], trainers.BpeTrainer(vocab_size=512, special_tokens=special))
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {"bos_token": "<bos>", "eos_token": "<eos>", "add_bos_token": True, "add_eos_token": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))


def _titan_on_the_cpu() -> None:
    """The same program on the CPU with gloo, which torchtitan has no means for: what it asks of a device's module."""
    from types import SimpleNamespace

    torch._utils._get_available_device_type = lambda: "cpu"
    stated = {"name": "cpu", "total_memory": 1 << 30}
    for name, value in {
        "get_device_name": "cpu", "get_device_properties": SimpleNamespace(**stated), "memory_stats": {},
        "reset_peak_memory_stats": None, "empty_cache": None, "set_device": None, "current_device": 0,
    }.items():  # fmt: skip
        setattr(torch.cpu, name, lambda *_, value=value: value)
    torch.cpu.device_count = lambda: int(os.environ["WORLD_SIZE"])
    barrier = torch.distributed.barrier
    torch.distributed.barrier = lambda *_, **__: barrier()  # gloo refuses device_ids
    from torch.distributed.fsdp._fully_shard import _fsdp_collectives

    factors = _fsdp_collectives._get_gradient_divide_factors  # gloo has no PREMUL_SUM: sums, as FSDP has them on MTIA
    _fsdp_collectives._get_gradient_divide_factors = lambda *given: factors(*given[:5], True)


def _titan_weights(model: torch.nn.Module) -> None:
    """Weights that do not depend on the device's random numbers, nor on how they lie over ranks."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    for number, (_, weight) in enumerate(sorted(model.named_parameters())):
        generator = torch.Generator().manual_seed(number)
        drawn = torch.randn(weight.shape, generator=generator) * 0.02 if weight.dim() > 1 else torch.ones(weight.shape)
        drawn = drawn.to(weight.device, weight.dtype)
        if isinstance(weight, DTensor):
            drawn = distribute_tensor(drawn, weight.device_mesh, weight.placements)
        with torch.no_grad():
            weight.copy_(drawn)


def titan() -> None:
    """torchtitan's llama3_debugmodel, four steps; under torchrun with FSDP2, or tensor parallelism where TP says so.

    DEVICE=cpu: on the CPU with gloo, compiled regions as they are. PRECISION: of parameters in products, "bfloat16"
    as torchtitan has it or "float32"; then the weights too are the same on every device.
    Not unmodified: torchtitan 0.3.0 is written for a later torch. What differs is
    stated line by line.
    """
    from torch.nn.attention import flex_attention

    from opentrn.torch.backend import neuron

    is_cpu = os.environ.get("DEVICE") == "cpu"
    # Its calls of torch.compile are Inductor's, which has no code for the device; so Inductor's options go too.
    torch._TorchCompileInductorWrapper.__call__ = lambda _, module, inputs: (
        module.forward if is_cpu else neuron(module, inputs)
    )
    flex_attention._validate_device = lambda *_: None  # a closed list of torch's own devices
    if not hasattr(torch.distributed, "set_timeout"):  # torch 2.13 has none: the group keeps its timeout
        torch.distributed.set_timeout = lambda *_: None
    if is_cpu:
        _titan_on_the_cpu()
    from torchtitan.components.metrics import MetricsProcessor
    from torchtitan.models.llama3.config_registry import llama3_debugmodel

    losses: list[float] = []
    log = MetricsProcessor.log

    def noted(self: Any, step: int, loss: float, *args: Any, **kwargs: Any) -> None:
        losses.append(loss)
        log(self, step, loss, *args, **kwargs)

    MetricsProcessor.log = noted
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _titan_files(folder)
        config = llama3_debugmodel()
        config.hf_assets_path, config.dump_folder = name, str(folder / "out")
        config.dataloader.dataset_path = str(folder / "data")
        config.training.seq_len, config.training.local_batch_size, config.training.steps = 64, 2, 4
        config.training.mixed_precision_param = os.environ.get("PRECISION", "bfloat16")
        config.checkpoint.enable = config.validator.enable = False
        config.debug.seed, config.activation_checkpoint = 7, None
        config.parallelism.spmd_backend = "partial_dtensor"  # torch 2.13 refuses the default one, spmd_types
        config.parallelism.tensor_parallel_degree = tensor = int(os.environ.get("TP", "1"))
        trainer = config.build()
        if "PRECISION" in os.environ:
            for part in trainer.model_parts:
                _titan_weights(part)
        trainer.train()
        trainer.close()
    ranks = int(os.environ["WORLD_SIZE"])
    if os.environ["RANK"] == "0":
        shards = ranks // tensor
        how = [f"FSDP2 of {shards}"] * (shards > 1) + [f"tensor parallelism of {tensor}"] * (tensor > 1)
        print(f"RESULT torchtitan, {ranks} ranks, {' x '.join(how) or 'one rank'}{' on the CPU' * is_cpu}: "
              f"losses {', '.join(f'{each:.6f}' for each in losses)}")  # fmt: skip
        assert len(losses) == 4 and losses[-1] < losses[0]
    torch.distributed.destroy_process_group()


def titan_parallel() -> None:
    """The same on four ranks, FSDP2 of 2 x tensor parallelism of 2, beside the same on the CPU with gloo."""
    import re
    import subprocess

    found = []
    for device in ("cpu", "neuron"):
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4"]
        stated = {**os.environ, "DEVICE": device, "TP": "2", "PRECISION": "float32"}
        done = subprocess.run(
            [*launch, __file__, "titan"], env=stated, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            check=False,
        )  # fmt: skip
        said = re.search(r"^RESULT .*: losses (.*)$", done.stdout, re.MULTILINE)
        assert said, done.stdout[-4000:]
        print(said[0])
        found.append([float(each) for each in said[1].split(", ")])
    off = max(abs(a - b) for a, b in zip(*found, strict=True))
    print(f"RESULT torchtitan, FSDP2 x tensor parallelism: losses at most {off:.1e} off those of the CPU with gloo")
    assert off < 1e-3


def fp16_script() -> None:
    """accelerate's test_script, where its list of devices with fp16 names this one: what that list refuses."""
    from accelerate import Accelerator
    from accelerate.test_utils.scripts import test_script

    code = Accelerator.__init__.__code__
    is_list = [isinstance(each, tuple) and {"cuda", "xpu", "mps", "hpu"} <= set(each) for each in code.co_consts]
    assert sum(is_list) == 1, "accelerate has another list"
    constants = [(*each, "neuron") if its else each for its, each in zip(is_list, code.co_consts)]
    Accelerator.__init__.__code__ = code.replace(co_consts=tuple(constants))
    test_script.main()
    print("RESULT accelerate's test_script passed with neuron in its list of devices for fp16")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
