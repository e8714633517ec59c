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


def _model() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=128, n_positions=32, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0,
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


if __name__ == "__main__":
    {"accelerator": accelerator, "trainer": trainer, "trainer_ranks": trainer_ranks, "lora": lora}[sys.argv[1]]()
