"""GRPO or RLOO of TRL on a CPU: a random model of two layers, a tokenizer made here, a slow reward.

In FOLDER/PID of each process: for each of training_step, prepare, generate, rewards, reward (the
function within), logprob, compute_loss, backward and optimizer the times (ns of CLOCK_MONOTONIC) at
which calls began and ended. logprob are those outside of the loss. Under torchrun or accelerate it
has as many processes as it is started as.
"""

import argparse
import contextlib
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "CUDA_VISIBLE_DEVICES": "",
}

import torch
import torch.distributed
from accelerate import Accelerator
from accelerate.optimizer import AcceleratedOptimizer
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

arguments = argparse.ArgumentParser()
arguments.add_argument("folder", type=Path)
arguments.add_argument("--rloo", action="store_true")
arguments.add_argument("--steps", type=int, default=6)
arguments.add_argument("--reward-ms", type=float, default=50)
asked = arguments.parse_args()
torch.manual_seed(0)
random.seed(0)
torch.set_num_threads(1)

words = {c: i for i, c in enumerate(["<pad>", "<eos>", "<unk>", *"0123456789+= "])}
letters = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
letters.pre_tokenizer = pre_tokenizers.Split("", "isolated")
letters.decoder = decoders.Fuse()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=letters, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
)
tokenizer.padding_side = "left"
folder = tempfile.mkdtemp()
Qwen2ForCausalLM(
    Qwen2Config(
        vocab_size=len(words), hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
        pad_token_id=0, eos_token_id=1, bos_token_id=None,
    )
).save_pretrained(folder)  # fmt: skip
tokenizer.save_pretrained(folder)

times: dict[str, list[tuple[int, int]]] = {}
in_loss = False


def timed(owner: type, name: str, key: str) -> None:
    """Write down when a method begins and ends."""
    function = getattr(owner, name)

    def method(*args: object, **kwargs: object) -> object:
        global in_loss
        in_loss, was = in_loss or key == "compute_loss", in_loss
        start = time.monotonic_ns()
        try:
            return function(*args, **kwargs)
        finally:
            in_loss = was
            if not (in_loss and key == "logprob"):
                times.setdefault(key, []).append((start, time.monotonic_ns()))

    setattr(owner, name, method)


def reward(completions: list[str], **_: object) -> list[float]:
    """Take as long as it was told to."""
    start = time.monotonic_ns()
    time.sleep(asked.reward_ms / 1000)
    rewards = [len(text) % 7 for text in completions]
    times.setdefault("reward", []).append((start, time.monotonic_ns()))
    return rewards


Trainer, Config = (RLOOTrainer, RLOOConfig) if asked.rloo else (GRPOTrainer, GRPOConfig)
for attribute, key in {
    "training_step": "training_step", "_prepare_inputs": "prepare",
    "_calculate_rewards": "rewards", "compute_loss": "compute_loss",
    "_get_per_token_logps_and_entropies": "logprob",
}.items():  # fmt: skip
    timed(Trainer, attribute, key)
# What TRL makes ready for generating, and puts back afterwards, is part of it.
of_trainer = sys.modules[Trainer.__module__]
unwrap = of_trainer.unwrap_model_for_generation


@contextlib.contextmanager
def timed_unwrap(*args: object, **kwargs: object) -> Iterator[object]:
    """Write down when the model is ready for generating, and when it is not any more."""
    start = time.monotonic_ns()
    with unwrap(*args, **kwargs) as model:
        yield model
    times.setdefault("generate", []).append((start, time.monotonic_ns()))


of_trainer.unwrap_model_for_generation = timed_unwrap
timed(Accelerator, "backward", "backward")
timed(AcceleratedOptimizer, "step", "optimizer")

trainer = Trainer(
    model=Qwen2ForCausalLM.from_pretrained(folder),
    reward_funcs=reward,
    args=Config(
        output_dir=folder, max_steps=asked.steps, per_device_train_batch_size=8, num_generations=4,
        max_completion_length=16, beta=0.04, num_iterations=1, gradient_accumulation_steps=1,
        learning_rate=1e-3, save_strategy="no", report_to=[], use_cpu=True, bf16=False,
        disable_tqdm=True,
    ),
    train_dataset=Dataset.from_dict({"prompt": [f"{n % 10}+{n % 7}=" for n in range(64)]}),
    processing_class=tokenizer,
)  # fmt: skip
trainer.train()
(asked.folder / str(os.getpid())).write_text(json.dumps(times))
if torch.distributed.is_initialized():
    torch.distributed.destroy_process_group()
