"""A language model: its tokenizer, its engine, and the times of its programs."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from opentrn import _core
from opentrn.errors import InputError
from opentrn.generate.ranks import band_of, expect_instance, time_on_stack
from opentrn.generate.source import find
from opentrn.generate.text import text_of_folder, text_of_gguf
from opentrn.generate.tokenizer import ChatTemplate
from opentrn.kernel import run as _timings  # noqa: F401 - gives _core.Timing its methods
from opentrn.settings import environment

__all__ = ["Answer", "LanguageModel", "Piece", "Program", "Sampling", "TextStream"]

BLOCK_TOKENS = _core.BLOCK_TOKENS  # positions of a block
_LOOKED_FOR = (4, 2)  # tokens that are looked for in the text in front, at most and at least

# Sizes of programs: (sequences, new tokens of each, positions, logits of every token).
Bucket = tuple[int, int, int, bool]


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen: temperature 0 takes the likeliest. top_k 0 takes all; the same seed draws the same."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0

    def parts(self) -> tuple[float, int, float, float, int]:
        """As the C++ core takes it."""
        return (self.temperature, self.top_k, self.top_p, self.min_p, self.seed)


@dataclass(frozen=True)
class Piece:
    """A new token of an answer. `text` is what it adds: empty while a character is not complete."""

    answer: int
    token: int
    text: str
    finish: str  # "", "stop" or "length"


@dataclass
class Program:
    """A compiled step, and how often it ran."""

    bucket: Bucket
    text: str
    instructions: int
    predicted_us: float
    collectives_us: float  # of predicted_us: what ranks exchange
    bound_by: str
    band: dict[str, Any]  # as Timing.band: in which the measured time is expected, or why that is unknown
    trust: str  # the same as a line of text
    runs: int = 0
    tokens: int = 0
    host_seconds: float = 0.0


@dataclass
class Answer:
    """An answer as far as it is given."""

    prompt_tokens: int
    tokens: list[int] = field(default_factory=list)
    text: str = ""
    finish: str = ""
    predicted_first_us: float = 0.0  # of the device, until its first token; prompts are read one after the other
    host_first_seconds: float = 0.0


def _expect_together(
    sequences: int, sizes: Any, pad_to: Bucket | None, speculate: int, draft_model: str | Path | None
) -> None:
    """Raises InputError for arguments of a LanguageModel that do not go together."""
    if draft_model is not None and not speculate:
        raise InputError(
            "a draft model without guesses", label="generate.draft_model", hint="speculate: tokens of a step"
        )
    if sequences < 1:
        raise InputError(f"{sequences} answers at once", label="generate.context")
    if sizes and pad_to:
        raise InputError(
            "sizes and pad_to both say which programs there are", label="generate.context", hint="one of the two"
        )


def _read(path: Path) -> tuple[Any, Any]:
    """A folder's or a .gguf file's weights, and how it makes tokens of text."""
    if path.is_dir():
        return _core.read_checkpoint(path), text_of_folder(path)
    file = _core.read_gguf(path)
    return file, text_of_gguf(file.metadata)


class LanguageModel:
    """A decoder with its weights on one NeuronCore of `target` (None: as opentrn.compile).

    source: a GGUF file, a folder of Hugging Face's (config.json, safetensors, tokenizer.json), or the name of a model
    in a package ("smollm2"). dtype: of weights, keys and values: "f16",
    "bf16" or "f32". context: positions of one answer, its prompt included. sequences: answers at once.
    pad_to: the only sizes of programs. sizes: those of programs, three ascending lists (src/server/program_sizes.h).
    speculate: tokens that a step of generate() guesses from the text in front (prompt lookup), at most. draft_model: a
    smaller model of the same tokens, by what `source` takes, or a folder with an EAGLE head of the model, which guesses
    them in its place, on the same cores.
    lora: a folder of an adapter as PEFT saves it, added to the weights when they are loaded.
    quantization: of the matrices of layers: "int8", "fp8_e4m3", "fp8_e5m2" or, on trn3, "fp8_e4m3fn", with a scale for
    each output, or "mxfp8" and "mxfp4", which trn3 multiplies by activations in MXFP8; "none" keeps them in dtype.
    Neither the head nor tables of embeddings are narrowed. Behind it, with commas, "per_tensor_symmetric" and
    "except=MODULE". kv_cache_dtype: of keys and values, "auto" (dtype), "fp8_e4m3" ("fp8"), "fp8_e5m2" or, on trn3,
    "fp8_e4m3fn".
    ranks: NeuronCores of one `instance` that share every layer (tensor parallel), by default the target. Their sums are
    rounded to `dtype`, so logits differ from those of one core by rounding. lnc: physical cores of each of them, which
    share the rank's part in the same way.
    """

    def __init__(
        self,
        source: str | Path,
        *,
        target: str | None = None,
        dtype: str = "f16",
        context: int = 2048,
        sequences: int = 1,
        pad_to: Bucket | None = None,
        sizes: tuple[list[int], list[int], list[int]] | None = None,
        lora: str | Path | None = None,
        quantization: str = "none",
        kv_cache_dtype: str = "auto",
        speculate: int = 0,
        draft_model: str | Path | None = None,
        ranks: int = 1,
        instance: str | None = None,
        lnc: int = 1,
    ) -> None:
        begin = time.perf_counter()
        expect_instance(ranks, instance, lnc)
        _expect_together(sequences, sizes, pad_to, speculate, draft_model)
        self.ranks, self.instance, self._cores = ranks, instance, ranks * lnc
        self.path = find(source)
        self.target = environment.target(target or instance)
        self.dtype = dtype
        file, self.text = _read(self.path)
        self.tokenizer = self.text.tokenizer
        self.trained = _core.decoder_context(file)  # positions that the model was made for
        self.context = _core.whole_context(context, self.trained)
        # Sizes of programs: sequences, new tokens, positions.
        self.buckets = sizes or _core.program_sizes(self.context, sequences, speculate)
        self.speculate = speculate
        if pad_to:
            self.buckets = ([pad_to[0]], [pad_to[1]], [pad_to[2]])
        self._file = file
        head = None if draft_model is None else eagle_head(draft_model)
        self._engine = _core.decoder_engine(
            file,
            self.target,
            dtype,
            BLOCK_TOKENS,
            sequences * (self.context // BLOCK_TOKENS) + 1,
            *self.buckets,
            lora=lora,
            ranks=self._cores,
            instance=instance or "",
            cores_per_rank=lnc,
            eagle=head,
            quantization=quantization,
            kv_cache_dtype=kv_cache_dtype,
        )
        self.config: dict[str, Any] = self._engine.config
        self._begin_records()
        self.draft: LanguageModel | None = None
        if draft_model is not None:
            self.draft = EagleHead(draft_model, self) if head is not None else self._draft_of(draft_model, lnc)
        self.ready_seconds = time.perf_counter() - begin

    def _begin_records(self) -> None:
        """What programs there are, and what they have made: nothing so far."""
        self._pooled: Any = None
        self._pooled_us: dict[Bucket, float] = {}
        self._embedding = threading.Lock()
        self.programs: dict[Bucket, Program] = {}
        self.choosing: dict[tuple[Bucket, str], Program] = {}  # those that choose tokens, and how
        self.answers: list[Answer] = []
        self.guessed = self.right = 0  # by the last generate(): tokens that were guessed, and those that were right
        self.drafted_us = 0.0  # of the draft model's programs, with its reading of prompts
        self.decoded_us, self.decoded_tokens = 0.0, 0  # of steps behind prompts, with the draft model's programs

    def _draft_of(self, source: str | Path, lnc: int) -> LanguageModel:
        """That makes the guesses. Raises InputError for one of other tokens."""
        draft = LanguageModel(
            source, target=self.target, dtype=self.dtype, context=self.context, sequences=self.buckets[0][-1],
            speculate=self.speculate, ranks=self.ranks, instance=self.instance, lnc=lnc,
        )  # fmt: skip
        if draft.tokenizer.get_vocab() != self.tokenizer.get_vocab():
            raise InputError(
                f"the draft model {source} has other tokens than the model: {draft.config['vocabulary']} and "
                f"{self.config['vocabulary']}", label="generate.draft_model",
                hint="a smaller model of the same family, with the same tokenizer",
            )  # fmt: skip
        return draft

    @property
    def engine(self) -> Any:
        """_core.DecoderEngine, for a scheduler of your own."""
        return self._engine

    def add_adapter(self, folder: str | Path) -> int:
        """Loads the weights once more, with an adapter as PEFT saves it; steps name it by the number that this gives.

        Weights that it does not change are kept once. Raises InputError for an adapter that is none.
        """
        return self._engine.add_adapter(self._file, Path(folder))

    # -- text
    def encode(self, text: str) -> list[int]:
        """Tokens of a text, special ones of the template included."""
        ids = self.tokenizer.encode(text, add_special_tokens=False).ids
        begin = self.text.begin
        return ids if begin is None or ids[:1] == [begin] else [begin, *ids]

    def decode(self, tokens: Sequence[int]) -> str:
        """Their text, without special tokens."""
        return self.tokenizer.decode(list(tokens), skip_special_tokens=True)

    def chat_prompt(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """The text of a conversation by the model's template. Raises InputError for a model without one."""
        if not self.text.template:
            raise InputError(
                "the model has no chat template", label="generate.template", hint="--raw takes a prompt as it is"
            )
        return ChatTemplate(self.text.template, self.text.bos, self.text.eos).prompt(messages)

    # -- answers
    def chat(self, message: str, **options: Any) -> Iterator[Piece]:
        """Answers one message of a user; options as for generate()."""
        return self.generate([self.encode(self.chat_prompt([{"role": "user", "content": message}]))], **options)

    def generate(
        self, prompts: Sequence[Sequence[int]], *, max_tokens: int = 128, sampling: Sampling | None = None
    ) -> Iterator[Piece]:
        """Answers prompts of tokens together. `answers` holds what has been given so far.

        Raises InputError for a prompt that is empty, or that does not fit the context with max_tokens, CapacityExceeded
        for more at once than the model was made for.
        """
        chosen = sampling or Sampling()
        stop = list(self.text.stop_tokens)
        rows = [(list(prompt), max_tokens, stop, chosen.parts()) for prompt in prompts]
        draft = self.draft.engine if self.draft else None
        generation = _core.decoder_generation(self._engine, rows, (self.speculate, *_LOOKED_FOR), draft)
        self.answers = [Answer(len(prompt)) for prompt in prompts]
        self.guessed = self.right = self.decoded_tokens = 0
        self.drafted_us = self.decoded_us = 0.0
        return self._pieces(generation, set(stop))

    def _pieces(self, generation: Any, stop: set[int]) -> Iterator[Piece]:
        begin, predicted = time.perf_counter(), 0.0
        streams = [TextStream(self.tokenizer) for _ in self.answers]
        while not generation.done:
            started = time.perf_counter()
            in_prompts = any(not answer.tokens for answer in self.answers)
            bucket, made, drafted = generation.step()
            self.guessed, self.right = generation.guessed, generation.right
            seconds = time.perf_counter() - started
            program = self.program(bucket)
            program.runs, program.tokens = program.runs + 1, program.tokens + len(made)
            program.host_seconds += seconds
            drafted_us = self._drafted(drafted)
            predicted += program.predicted_us + drafted_us
            self.drafted_us += drafted_us
            if not in_prompts:
                self.decoded_us += program.predicted_us + drafted_us
                self.decoded_tokens += len(made)
            for number, token, finish in made:
                answer = self.answers[number]
                if not answer.tokens:
                    answer.predicted_first_us = predicted
                    answer.host_first_seconds = time.perf_counter() - begin
                answer.tokens.append(token)
                text = "" if token in stop else streams[number].add(token)
                if finish:
                    text += streams[number].rest()
                    answer.finish = finish
                answer.text += text
                yield Piece(number, token, text, finish)

    def _drafted(self, buckets: Sequence[Bucket]) -> float:
        """Microseconds of the draft model's programs, which count that they ran."""
        predicted = 0.0
        for bucket in buckets:
            assert self.draft
            program = self.draft.program(bucket, choice="likeliest")
            program.runs += 1
            predicted += program.predicted_us
        return predicted

    def step(self, rows: Sequence[tuple[Sequence[int], int, Sequence[int]]]) -> Any:
        """Logits [rows, vocabulary] after the new tokens of some sequences, for a scheduler of your own.

        A row is (new tokens, how many came before them, the sequence's blocks of BLOCK_TOKENS positions); block 0 is
        nobody's. Raises InputError for rows that are none.
        """
        logits, _, _ = self._engine.step([(list(new), before, list(blocks)) for new, before, blocks in rows])
        return logits[: len(rows)]

    def score(self, tokens: Sequence[int]) -> Any:
        """Logits [tokens, vocabulary] of what follows each of these tokens, in fp32, in one step.

        Raises InputError for more tokens than the largest program reads at once.
        """
        count = -(-len(tokens) // BLOCK_TOKENS)
        logits, _, _ = self._engine.step([(list(tokens), 0, list(range(1, count + 1)))], True)
        return logits[: len(tokens)]

    def embed(self, tokens: Sequence[int]) -> tuple[Any, float]:
        """What the model makes of the last of these tokens: its features behind the last norm, of length 1.

        With the device's predicted time in microseconds. For several threads: one runs at a time. Raises InputError
        for no tokens, or more than the context.
        """
        if not 1 <= len(tokens) <= self.context:
            raise InputError(f"{len(tokens)} tokens; 1 to {self.context} are embedded", label="generate.context")
        with self._embedding:
            if self._pooled is None:
                self._pooled = self._engine.pooled()
            blocks = list(range(1, -(-len(tokens) // BLOCK_TOKENS) + 1))
            most, predicted = self.buckets[1][-1], 0.0
            for first in range(0, len(tokens), most):
                rows, bucket, _ = self._pooled.step([(list(tokens[first : first + most]), first, blocks)])
                if bucket not in self._pooled_us:
                    timing: Any = self._pooled.time(bucket)
                    self._pooled_us[bucket] = time_on_stack(timing, self._cores) + self._pooled.exchange_us(bucket)
                    self._pooled_us[bucket] += self._pooled.results_us(bucket)
                predicted += self._pooled_us[bucket]
            return rows[0] / np.linalg.norm(rows[0]), predicted

    # -- programs
    def program(self, bucket: Bucket, *, choice: str = "host") -> Program:
        """The compiled step of these sizes, with its predicted time. choice: who gives its tokens. The "host", of
        logits, as generate() does; or the program: the "likeliest" ones, as a draft model's does, "drawn" ones by
        temperature and min_p, or "drawn-truncated" ones, by top_k and top_p too."""
        found = self.programs.get(bucket) if choice == "host" else self.choosing.get((bucket, choice))
        if found is None:
            found = self._program(bucket, choice)
            if choice == "host":
                self.programs[bucket] = found
            else:
                self.choosing[bucket, choice] = found
        return found

    def _program(self, bucket: Bucket, choice: str) -> Program:
        timing: Any = self._engine.time(bucket, choice=choice)
        exchange = self._engine.exchange_us(bucket, choice)
        predicted = time_on_stack(timing, self._cores) + exchange + self._engine.results_us(bucket, choice)
        band, trust = band_of(timing, predicted / timing.time_us)
        return Program(
            bucket, self._engine.bucket_text(bucket, choice), self._engine.prepare(bucket, choice), predicted,
            exchange, timing.bound_by, band, trust,
        )  # fmt: skip

    def time(self, bucket: Bucket) -> Any:
        """opentrn.Timing of a step: its profile, its text, its page. Of several ranks: one's, without the exchange."""
        return self._engine.time(bucket)


def eagle_head(source: str | Path) -> Any:
    """The files of a folder with an EAGLE head, of whatever version; None where it is something else."""
    path = find(source)
    if not path.is_dir():
        return None
    file = _core.read_checkpoint(path)
    return file if _core.is_eagle(file) else None


class EagleHead(LanguageModel):
    """An EAGLE head of `model` (its authors' first version, or EAGLE-3): one layer, which reads the model's features
    and guesses. It has programs and times, and answers nothing. Raises NotModelled for heads with more layers or
    norms, InputError for a head of another model.
    """

    def __init__(self, source: str | Path, model: LanguageModel) -> None:
        self.path, self.target, self.dtype = find(source), model.target, model.dtype
        self.text, self.tokenizer = model.text, model.tokenizer
        self.context, self.speculate, self.draft = model.context, model.speculate, None
        self.ranks, self.instance, self._cores = model.ranks, model.instance, model._cores
        self.buckets = model.buckets
        sequences = self.buckets[0][-1]
        self._engine = _core.eagle_engine(
            _core.read_checkpoint(self.path), model.engine, BLOCK_TOKENS,
            sequences * (self.context // BLOCK_TOKENS) + 1, *self.buckets,
        )  # fmt: skip
        self.config = self._engine.config
        self.programs, self.choosing = {}, {}


class TextStream(_core.TextStream):
    """Text of tokens that come one after the other: a character whose bytes are in several comes with the last."""

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(functools.partial(tokenizer.decode, skip_special_tokens=True))
