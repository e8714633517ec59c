# Made by ./dev stubs; do not edit.
from collections.abc import Callable, Mapping, Sequence, Set
import os
import pathlib
from typing import Annotated, Any, overload

import numpy
import numpy as np
from numpy.typing import NDArray

from opentrn._core import (
    aten as aten,
    graph as graph,
    isa as isa,
    tiles as tiles
)
import opentrn.types.isa_enums


def configure(arg0: object, arg1: object, arg2: object, /) -> None: ...

def map_leaves(value: object | None, replace: Callable, exact: bool = False) -> object:
    """
    The value with replace(leaf) in the place of whatever is no tuple, list or dict, at any depth. exact: objects of classes derived from tuple and list are leaves too, but for tuples with names.
    """

def leaves_of(value: object | None) -> list:
    """What is no tuple, list, dict or None, in order."""

def common_shape(x: Sequence[int], y: Sequence[int]) -> tuple:
    """In which two tiles of one rank meet, dimension by dimension."""

class NkiTensor:
    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray: ...

    def __setitem__(self, key: Any, value: Any) -> None:
        """`dst[...] = tensor or number`: a copy with one rounding to the destination."""

    @property
    def is_on_chip(self) -> bool:
        """Whether the tensor is in SBUF or PSUM."""

    def numpy(self) -> np.ndarray:
        """The elements as a strided numpy view of the tensor's memory. Executes what is pending."""

    def numpy_or_gather(self) -> np.ndarray:
        """The elements as a strided numpy view of the tensor's memory. Executes what is pending."""

    def to_numpy(self) -> np.ndarray:
        """A contiguous copy of the elements; the tensor's own memory where it is already contiguous."""

    @property
    def shape(self) -> tuple: ...

    @property
    def strides(self) -> tuple: ...

    @property
    def offset(self) -> int: ...

    @property
    def dtype(self) -> object: ...

    @property
    def buffer(self) -> opentrn.types.isa_enums.MemoryRegion: ...

    @property
    def name(self) -> str: ...

    @name.setter
    def name(self, arg: str, /) -> None: ...

    @property
    def ndim(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def itemsize(self) -> int: ...

    def __getitem__(self, key: object | None) -> NkiTensor: ...

    def __len__(self) -> int: ...

    def __repr__(self) -> str: ...

    def slice(self, dim: object, start: object, end: object, step: object = 1) -> NkiTensor: ...

    def select(self, dim: object, index: object) -> NkiTensor: ...

    def vector_select(self, dim: object, vector_offset: NkiTensor) -> NkiTensor: ...

    def permute(self, dims: object) -> NkiTensor: ...

    def broadcast(self, dim: object, size: object) -> NkiTensor: ...

    def expand_dim(self, dim: object) -> NkiTensor: ...

    def squeeze_dim(self, dim: object) -> NkiTensor: ...

    def reshape_dim(self, dim: object, shape: object) -> NkiTensor: ...

    def rearrange(self, src_pattern: object, dst_pattern: object, fixed_sizes: object | None = None) -> NkiTensor:
        """Split, permute and merge by dimension names, as einops does."""

    def flatten_dims(self, start_dim: object, end_dim: object) -> NkiTensor: ...

    @overload
    def reshape(self, *args) -> NkiTensor: ...

    @overload
    def reshape(self, shape: object) -> NkiTensor: ...

    def view(self, dtype: object) -> NkiTensor: ...

    def reinterpret_cast(self, dtype: object) -> NkiTensor: ...

    def indirect(self, index: NkiTensor, num_elem: int | None = None) -> NkiTensor: ...

    def ap(self, pattern: object, offset: object | None = None, scalar_offset: object | None = None, vector_offset: object | None = None, indirect_dim: object = 0, dtype: object | None = None) -> NkiTensor: ...

    def get_pattern(self) -> list: ...

    def is_contiguous(self) -> bool: ...

    def is_indirect(self) -> bool: ...

def leave_machine() -> None: ...

def is_model_file(path: str | os.PathLike) -> bool: ...

def memory_function(cores: Sequence[int]) -> int:
    """
    The address of a runtime::MemoryCall of a process that holds these logical cores.
    """

class Launch:
    def __init__(self, generation: int, cores: int, fill_fresh_memory: bool = False, core_races: bool = True, loop_limit: int | None = None, ranks: Ranks | None = None, rank: int = 0) -> None: ...

    def core_done(self, core_id: int, failed: bool) -> None: ...

    def stop(self) -> None: ...

    def check_races(self) -> None: ...

class Machine:
    executes: bool

    ranks: Ranks | None

    programs_of_all: list[bytes]

    @property
    def nc_version(self) -> opentrn.types.isa_enums.nc_version:
        """The NeuronCore's version."""

    def __init__(self, generation: int, core_id: int = 0, launch: Launch | None = None, execute: str = 'batched') -> None: ...

    def __enter__(self) -> Machine: ...

    def __exit__(self, *args) -> None: ...

    def ndarray(self, shape: object, dtype: object, buffer: object = 'sbuf', name: object = '', address: object | None = None) -> NkiTensor: ...

    def spread_row(self, row: NkiTensor, count: int) -> NkiTensor: ...

    def flush(self) -> None: ...

    def flush_prints(self) -> None: ...

    @property
    def records_loops(self) -> bool: ...

    @property
    def open_loops(self) -> int: ...

    def begin_loop(self, lower: object, upper: object, step: int) -> VirtualRegister: ...

    def begin_while(self, condition: VirtualRegister) -> None: ...

    def end_loop(self) -> None: ...

    def abandon_loop(self) -> None: ...

    @property
    def iteration(self) -> int: ...

    @iteration.setter
    def iteration(self, arg: int, /) -> None: ...

    def begin_written_loop(self, independent: bool) -> int: ...

    def next_iteration(self, loop: int) -> None: ...

    def set_no_reorder(self, arg: bool, /) -> None: ...

    def set_release(self, minor: int) -> None: ...

    def set_stochastic_rounding(self, seed: int, launch: int) -> None: ...

    def set_print_callback(self, arg: object, /) -> None: ...

    def add_schedule(self, arg: Sequence[tuple[str, str]], /) -> None: ...

    def add_edge(self, arg0: int, arg1: int, /) -> None: ...

    @property
    def generation(self) -> int: ...

    @property
    def core_id(self) -> int: ...

    @property
    def num_cores(self) -> int: ...

    @property
    def rank(self) -> int: ...

    @property
    def num_ranks(self) -> int: ...

    @property
    def collectives(self) -> list[list[int]]: ...

    def program_text(self) -> str:
        """What was recorded, in the text form of src/isa/text.h."""

    @property
    def instruction_count(self) -> int: ...

    def opcode_counts(self) -> dict: ...

class VirtualRegister:
    def __bool__(register) -> bool:
        """`bool(register)` on a machine that records device loops where there is one."""

    def __init__(self, state: int | None = None, frozen: bool = False) -> None: ...

    def __int__(self) -> int: ...

    def __index__(self) -> int: ...

    def __float__(self) -> float: ...

    @property
    def frozen(self) -> bool: ...

    @property
    def value(self) -> int: ...

    def __add__(self, arg: object, /) -> object: ...

    def __radd__(self, arg: object, /) -> object: ...

    def __sub__(self, arg: object, /) -> object: ...

    def __rsub__(self, arg: object, /) -> object: ...

    def __mul__(self, arg: object, /) -> object: ...

    def __rmul__(self, arg: object, /) -> object: ...

    def __floordiv__(self, arg: object, /) -> object: ...

    def __rfloordiv__(self, arg: object, /) -> object: ...

    def __mod__(self, arg: object, /) -> object: ...

    def __rmod__(self, arg: object, /) -> object: ...

    def __lt__(self, arg: object, /) -> object: ...

    def __le__(self, arg: object, /) -> object: ...

    def __gt__(self, arg: object, /) -> object: ...

    def __ge__(self, arg: object, /) -> object: ...

    def __eq__(self, arg: object, /) -> Any: ...

    def __neg__(self) -> int: ...

def current_or_none() -> Machine: ...

def from_bytes(arg0: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')], arg1: Sequence[int], arg2: object, arg3: object, arg4: str, /) -> NkiTensor: ...

def storage_bytes(arg: NkiTensor, /) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...

def nan_origin(machines: Sequence[Machine]) -> Exception | None: ...

def unwritten_elements(view: NkiTensor) -> tuple[int, list[int], tuple[str, int, str] | None, str] | None: ...

def made_at(view: NkiTensor) -> tuple[str, int, str] | None: ...

def overlapping_copy(machines: Sequence[Machine]) -> str | None: ...

def first_write(machine: Machine, view: NkiTensor) -> tuple[str, int, str] | None: ...

def last_without_effect(machines: Sequence[Machine]) -> tuple[str, int, str] | None: ...

def device_print(arg0: object, arg1: NkiTensor, /) -> None: ...

def register_alloc(x: object | None = None) -> VirtualRegister: ...

def register_move(dst: VirtualRegister, src: object) -> None: ...

def register_load(dst: VirtualRegister, src: NkiTensor) -> None: ...

def register_store(dst: NkiTensor, src: VirtualRegister) -> None: ...

class Timing:
    def __repr__(self) -> str: ...

    @property
    def band(self) -> dict[str, Any]:
        """Where the measured time is expected: {"share", "low_ns", "high_ns", "runs", "kind"}, or {"unknown": why}."""

    @property
    def basis(self) -> dict[str, Any]:
        """How many constants and instruction rules the time rests on, and which of them are assumed or fitted."""

    def critical_path(self) -> np.ndarray:
        """The critical path, latest first, as a structured array; `resource` indexes `_core.resource_names()`."""

    def events(self) -> np.ndarray:
        """Every event of the run as one structured array over the simulator's own memory (read-only).

        `track` indexes `tracks()`; `name`, `file` and `function` index `strings()`; `opcode` and `stall` index
        `_core.opcode_names()` and `_core.stall_names()`. Times are nanoseconds from the start of the kernel."""

    @property
    def kind(self) -> str:
        """Whose errors the band is made of, such as "kernel.v3.nki"."""

    def profile(self) -> dict[str, Any]:
        """The whole profile as plain data; docs/profiling.md lists the keys."""

    def skipped(self) -> list[dict[str, Any]]:
        """Where iterations of loops were not stepped: {"core", "start_ns", "end_ns", "iterations", "text"}."""

    @property
    def time_us(self) -> float:
        """The predicted time of the run in microseconds, without the launch."""

    def tracks(self) -> list[dict[str, Any]]:
        """The rows of the timeline: {"kind", "name", "engine", "core"} of each; `track` of an event counts them."""

    @property
    def total_ns(self) -> float: ...

    @property
    def launch_ns(self) -> float: ...

    @property
    def nc_latency_ns(self) -> float: ...

    @property
    def beside_ns(self) -> float: ...

    @property
    def extrapolated_ns(self) -> float: ...

    @property
    def instruction_count(self) -> int: ...

    @property
    def bound_by(self) -> str | None: ...

    @property
    def mfu_percent(self) -> float: ...

    @property
    def mbu_percent(self) -> float: ...

    @property
    def tensor_flops(self) -> float: ...

    @property
    def hbm_bytes(self) -> int: ...

    @property
    def phase_seconds(self) -> dict: ...

    @property
    def assumptions(self) -> list[str]: ...

    def trust_text(self) -> str: ...

    def trust_json(self) -> str: ...

    def json(self) -> str: ...

    def text(self, lines_max: int = 12) -> str: ...

    def model_text(self, lines_max: int = 12, depth: int = 0) -> str: ...

    def executable_text(self, core: int) -> str: ...

    def save_executable(self, path: str | os.PathLike, core: int) -> None: ...

    def save_perfetto(self, path: str | os.PathLike) -> None: ...

    def event_bytes(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,), writable=False)]: ...

    def critical_bytes(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,), writable=False)]: ...

    def page(self) -> tuple: ...

    def tracks_json(self) -> str: ...

    def skipped_json(self) -> str: ...

    def memory_map(self) -> list[tuple[str, str, str, int, int]]:
        """
        (memory, name, role, offset, bytes) of every placed HBM tensor of the first core, by offset.
        """

    def strings(self) -> list[str]: ...

def compile_and_time(machines: Sequence[Machine], name: str = 'kernel', settings: Sequence[str] = [], look_ahead: int | None = None, neuronx_cc: bool = False, dge: bool = True, dma_engine_tracks: bool = False, default_trip_count: int | None = None, target: str | None = None, middle_end: bool = True) -> Timing: ...

def check_fits(machines: Sequence[Machine]) -> None: ...

def check_instances(machine: Machine, begins: Sequence[int]) -> None: ...

def event_layout() -> dict: ...

def critical_layout() -> dict: ...

def resource_names() -> list[str]: ...

def opcode_names() -> list[str]: ...

def stall_names() -> list[str]: ...

def listing(machine: Machine, name: str = 'kernel') -> str: ...

def read_text_file(path: str | os.PathLike, label: str, hint: str) -> str:
    """
    The text of a regular file, or of a pipe that the shell opened. Raises InputError with the label for any other, and for more than 256 MiB.
    """

def listing_of_file(path: str | os.PathLike) -> str: ...

def save_program(machine: Machine, path: str | os.PathLike, name: str = 'kernel') -> None: ...

def time_files(path: str | os.PathLike, cores: int, target: str, settings: Sequence[str] = [], neuronx_cc: bool = False, dge: bool = True, look_ahead: int | None = None, default_trip_count: int | None = None) -> Timing: ...

def calibrations() -> list[tuple[str, list[str]]]: ...

def target_generation(arg: str, /) -> int: ...

def check_settings(settings: Sequence[str]) -> None:
    """
    Raises for a value that the tables do not have or that nothing computes with.
    """

def register_custom_op(name: str, function: object) -> None: ...

def load_custom_op_library(path: str) -> list[str]: ...

def custom_op(name: str, outputs: Sequence, inputs: Sequence) -> None: ...

def custom_op_times() -> dict: ...

def has_custom_op(name: str) -> bool: ...

def load_custom_ops_of_environment() -> None: ...

def set_custom_op_time(name: str, ns: float, cycles_per_element: float) -> None: ...

class LoadedModel:
    @property
    def inputs(self) -> list: ...

    @property
    def outputs(self) -> list: ...

    @property
    def instruction_count(self) -> int: ...

    @property
    def passes(self) -> dict: ...

    @property
    def kernel_count(self) -> int: ...

    @property
    def op_count(self) -> int: ...

    @property
    def weight_files(self) -> dict[str, int]: ...

    @property
    def host_ops(self) -> tuple: ...

    @property
    def narrowing(self) -> str: ...

    @property
    def constant_bytes(self) -> int: ...

    def run(self, inputs: Sequence[Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', writable=False)]]) -> list: ...

    def run_at(self, inputs: Sequence[int], outputs: Sequence[int], core: int | None = None) -> None: ...

    @property
    def call(self) -> tuple: ...

    @property
    def tensor_bytes(self) -> int: ...

    def set_stochastic_rounding(self, seed: int | None) -> None: ...

    def time(self, settings: Sequence[str] = [], loop_iterations: int | None = None) -> Timing: ...

    def description(self, dimensions: Mapping[str, int]) -> str:
        """What `opentrn describe` says of the program for these sizes, as JSON."""

    @property
    def control_inputs(self) -> list[int]: ...

    @property
    def splat_bytes(self) -> int: ...

    @property
    def generation(self) -> int: ...

    def listing(self) -> str: ...

def compile_model(text: str | None, path: str | os.PathLike, target: str, dimensions: Mapping[str, int] = {}, options: Mapping[str, str] = {}) -> LoadedModel: ...

def activity() -> tuple[str, int, int]: ...

def compiler_flags(text: str) -> tuple[dict[str, str], str, list[str]]: ...

def cache_dir_of_flags(flags: str) -> str:
    """
    What --cache_dir of NEURON_CC_FLAGS names; "" where it names nothing. Raises InputError for an open quote.
    """

def flag_words(flags: str, source: str) -> list[str]:
    """
    The words, as a shell splits them. Raises InputError for an open quotation mark, which names `source`.
    """

def has_compiler_flag(flags: str, flag: str) -> bool:
    """
    Whether the word stands in NEURON_CC_FLAGS. Raises InputError for an open quote.
    """

class OptionRow:
    """An option of the compiler, as users choose it."""

    @property
    def name(self) -> str:
        """neuronx-cc's or ours, without the dashes in front."""

    @property
    def default(self) -> object:
        """What it is where nobody says."""

    @property
    def values(self) -> list:
        """All that it takes."""

    def value(self, text: str) -> object:
        """What a text of `values` means: a word, a number or a switch."""

    @property
    def help(self) -> str: ...

    @property
    def letter(self) -> str:
        """Its flag of one letter, as -O, or nothing."""

    @property
    def pattern(self) -> str:
        """What --help writes in place of the values, or nothing."""

    @property
    def of_program(self) -> bool:
        """
        Whether it says which numbers are computed, and not how the program is run.
        """

def compiler_options() -> list[OptionRow]:
    """The table of the options that users choose (src/compiler/options.h)."""

def prepared_text(text: str | None, path: str | os.PathLike, target: str, dimensions: Mapping[str, int] = {}, options: Mapping[str, str] = {}) -> str: ...

def load_models(path: str | os.PathLike) -> tuple: ...

def facts_of_model_file(path: str | os.PathLike) -> dict[str, str]: ...

def look_up_in_cache(cache: Cache, key: str) -> tuple:
    """
    (what load_models() gives of the entry, or None; whether the entry may be written; a line for the user).
    """

def save_models(models: Sequence[LoadedModel], dimensions: Sequence[Mapping[str, int]], facts: Mapping[str, str], path: str | os.PathLike, reference_weights: bool = False, attachments: Sequence[Attachment] = [], permissions: int = 438) -> None: ...

class Attachment:
    @property
    def name(self) -> str: ...

    @property
    def path(self) -> pathlib.Path | None: ...

    @property
    def begin(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    @property
    def view(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,), writable=False)]: ...

def files_of_onnx(path: str | os.PathLike) -> list[Attachment]: ...

def onnx_stages_of(files: Sequence[Attachment], dimensions: Mapping[str, int]) -> graph.OnnxStage: ...

def coverage_of(module: graph.Module) -> list: ...

def compile_graph(module: graph.Module, target: str, options: Mapping[str, str] = {}, recognise: bool = True) -> LoadedModel: ...

def prepare(text: str | None, path: str | os.PathLike, target: str, dimensions: Mapping[str, int], options: Mapping[str, str]) -> graph.Module: ...

def prepare_graph(module: graph.Module, target: str, options: Mapping[str, str]) -> graph.Module: ...

def difference_but_for_size(smaller: graph.Module, larger: graph.Module) -> str: ...

def prove_padding(module: graph.Module, arguments: Sequence[tuple[int, int]]) -> tuple: ...

def peak_tflops(arg0: str, arg1: str, /) -> float: ...

def memory_of_core(target: str, physical_cores_per_core: int = 1) -> int: ...

def rates_of_core(target: str, physical_cores_per_core: int = 1) -> dict[str, tuple[float, str] | None]: ...

def summarise_programs(usage: str, host_s: float) -> str: ...

def programs_text(summary: str, rows_max: int) -> str:
    """Of summarise_programs(), in at most 80 columns."""

def recommendations(profile: str, source: Callable[[str, int], str]) -> str:
    """
    Markdown, of the JSON of a Timing. source(file, line): the text of a line, "" where it is not there.
    """

def join_usages(usages: Sequence[str]) -> str: ...

def environment_settings() -> dict: ...

def environment_core_races() -> bool: ...

def environment_loop_limit() -> int | None: ...

def environment_rounding() -> tuple: ...

def coverage(text: str | None, path: str | os.PathLike, dimensions: Mapping[str, int] = {}) -> list: ...

class OpenDimension:
    """
    An open dimension: the (port, axis) of inputs and results that have its size.
    """

    @property
    def name(self) -> str: ...

    @property
    def inputs(self) -> tuple: ...

    @property
    def results(self) -> tuple: ...

    @property
    def mixing(self) -> str:
        """Why padding it may change results, empty when it cannot."""

class Buckets:
    """Which program of a model with open dimensions an inference takes."""

    def __init__(self, programs: Sequence[tuple[Mapping[str, int], Sequence[Sequence[int]], Sequence[Sequence[int]]]], dimensions: Sequence[OpenDimension], input_names: Sequence[str]) -> None:
        """
        programs: (sizes, shapes of inputs, shapes of results) of each. Raises InputError `model_file` where the dimensions are none of the programs'.
        """

    @property
    def dimensions(self) -> list[OpenDimension]: ...

    def pick(self, sizes: Mapping[str, int]) -> int:
        """
        The number of the smallest program that holds these sizes. Raises InputError `model.size` for none.
        """

    def sizes_of(self, shapes: Sequence[Sequence[int]]) -> dict[str, int]:
        """
        The sizes of the open dimensions in inputs of these shapes. Raises InputError where they disagree.
        """

    def fit(self, shapes: Sequence[Sequence[int]], masked: Set[str]) -> tuple:
        """
        (program, inputs to pad at their end, results to cut) for inputs of these shapes: the (port, axis, size) of each. Raises InputError `model.padding` where padding may change results and the dimension is not `masked`.
        """

def size_combinations(sizes: Mapping[str, Sequence[int]]) -> list[dict[str, int]]:
    """Every combination of the sizes of dimensions."""

def open_dimensions(sizes: Mapping[str, Sequence[int]], programs: Sequence[tuple[Mapping[str, int], Sequence[Sequence[int]], Sequence[Sequence[int]]]], text: str | None, path: str | os.PathLike, target: str, options: Mapping[str, str]) -> list[OpenDimension]:
    """
    The dimensions that have several sizes, found in the programs of size_combinations().
    """

def open_dimensions_text(dimensions: Sequence[OpenDimension]) -> str:
    """As a model's file holds them."""

def open_dimensions_from_text(text: str) -> list[OpenDimension]:
    """
    What open_dimensions_text() wrote. Raises InputError `model_file` for another text.
    """

class CacheEntry:
    """
    A compiled model of the cache; `used`: when it was last written or hit, in seconds since the epoch.
    """

    @property
    def key(self) -> str: ...

    @property
    def path(self) -> pathlib.Path: ...

    @property
    def bytes(self) -> int: ...

    @property
    def used(self) -> float: ...

    @property
    def facts(self) -> dict[str, str]:
        """
        What compile() noted: "source", "target", "options". Raises InputError for a damaged entry.
        """

class Cache:
    """The cache of compiled models in a folder, which need not exist."""

    def __init__(self, folder: str | os.PathLike) -> None: ...

    @property
    def folder(self) -> pathlib.Path: ...

    def path_of(self, key: str) -> pathlib.Path:
        """The file of an entry, whether it exists or not."""

    def why_not_trusted(self, entry: str | os.PathLike) -> str:
        """
        Why the file of an entry, which need not exist, is neither read nor written; "" when it is.
        """

    def make_folder_of(self, entry: str | os.PathLike) -> None:
        """
        The folders of an entry, where they are missing. Raises InputError `cache.folder`.
        """

    def touch(self, entry: str | os.PathLike) -> None:
        """
        Notes that the entry was used, unless it is gone. Raises InputError `cache.folder`.
        """

    def entries(self) -> list[CacheEntry]:
        """What the cache holds, most recently used first."""

    def leftover(self) -> list[pathlib.Path]:
        """Files that interrupted writers left."""

    def sweep(self) -> tuple[int, int]:
        """Removes what interrupted writers left; (how many, bytes)."""

    def clear(self, since: float) -> tuple[int, int]:
        """
        Removes entries that nobody has used since, in seconds since the epoch; (how many, bytes).
        """

    def clear_layers(self, since: float) -> tuple[int, int]:
        """
        Removes the times of layers of `opentrn plan` that nobody has written since; as clear().
        """

CACHE_KEY_FACT: str = 'cache_key'

CACHE_PERMISSIONS: int = 420

def cache_folder() -> pathlib.Path:
    """
    Where the environment has compiled models kept. Raises InputError `cache.url` for another scheme.
    """

def stated_cache_folder() -> pathlib.Path | None:
    """
    The folder that the environment names, or None. Raises InputError as cache_folder().
    """

def cache_key(text: str | None, path: str | os.PathLike, options: str, compiler: str, files: Sequence[Attachment]) -> str:
    """
    The key of a model's text, of the file at `path`, or of an ONNX model's `files`; `options` is a JSON object, `compiler` the digest of what compiles. Raises InputError.
    """

def digest_of_files(files: Sequence[Attachment]) -> str:
    """SHA-256 of an ONNX model with the parts of files that its weights are."""

def sha256_of_file(path: str | os.PathLike) -> str:
    """In hexadecimal. Raises InputError for a file that cannot be read."""

class OpDiff:
    """One op's value on the device against float64."""

    @property
    def number(self) -> int: ...

    @property
    def op(self) -> str: ...

    @property
    def name(self) -> str:
        """The framework's; empty where it has none."""

    @property
    def file(self) -> str: ...

    @property
    def line(self) -> int: ...

    @property
    def type(self) -> str: ...

    @property
    def judgement(self) -> str: ...

    @property
    def max_abs(self) -> float:
        """The accumulated error: against the model in float64."""

    @property
    def max_rel(self) -> float:
        """That of the largest element."""

    @property
    def own_ulp(self) -> float:
        """
        The op's own error in units in the last place; of integers, elements that differ.
        """

    @property
    def of_limit(self) -> float | None:
        """
        The largest own error over what rounding explains there; None when no limit is known.
        """

    @property
    def verdict(self) -> str:
        """exact, rounding, bug or not judged."""

    @property
    def place(self) -> str:
        """The framework's name of the op, else its line."""

class Diff:
    """What diff() found; `ops` in program order."""

    @property
    def target(self) -> str: ...

    @property
    def ops(self) -> list[OpDiff]: ...

    @property
    def results(self) -> list:
        """Of the model as it is compiled, against float64."""

    def add_result(self, fused: object, kept: object, exact: object, element: str, model: object | None) -> None:
        """
        A result as it is compiled, with what the run that kept every value gave, float64, and float64 of the model without what changes values; values are (element, shape, bytes).
        """

    @property
    def first_bug(self) -> OpDiff | None:
        """The first op whose own error rounding does not explain."""

    @property
    def is_clean(self) -> bool:
        """No bug, neither in an op nor in the fused program."""

    def json(self) -> dict[str, Any]:
        """Plain data."""

    def text(self, *, rows_max: int = 12) -> str:
        """
        For a terminal, at most 79 columns: the ops of the largest own error first, those in doubt above all.
        """

class ObservedValues:
    """
    A prepared graph with every op's value as a result (compiler/observed_values.h).
    """

    @property
    def rows(self) -> list:
        """
        (kind, file, line, name, type, element, judgement, terms) of each value.
        """

    @property
    def result_count(self) -> int:
        """Results of the model, which come before the values."""

    @property
    def whole(self) -> graph.Module:
        """The graph."""

    def has_values_of(self, other: ObservedValues) -> bool:
        """Whether both have values of the same types."""

    def judge(self, target: str, arguments: list, device: list, whole: list) -> Diff:
        """
        What the device made of each value against float64. Values are (element, shape, bytes); `whole`: what the graph gives in float64.
        """

def observe(module: graph.Module) -> ObservedValues: ...

class Ask:
    """
    What the shapes behind a stage depend on: a value that the stage makes and the host reads.
    """

    @property
    def name(self) -> str:
        """Of the dimension where it counts rows, else of the value."""

    @property
    def counts(self) -> bool:
        """Whether it is a number of rows, at most `bound`."""

    @property
    def bound(self) -> int: ...

    def fields(self) -> dict:
        """Plain data of all that is known of it."""

    def text(self) -> str:
        """`boxes (up to 100), for NonMaxSuppression node 'nms'`."""

class ModelStage:
    """
    One program's worth of a model whose shapes depend on data. Values between stages are numbered, the model's inputs first (slots).
    """

    @property
    def raw(self) -> graph.OnnxStage: ...

    @property
    def number(self) -> int:
        """From 1 on."""

    @property
    def sizes(self) -> dict:
        """Answers so far that are one number, by name."""

    def sizes_text(self) -> str:
        """`boxes=5, keep=3`."""

    @property
    def key(self) -> str:
        """"" of the first stage, else what tells it from those of other answers."""

    @property
    def asks(self) -> list[Ask]:
        """None in the last stage."""

    @property
    def control_inputs(self) -> list[int]:
        """
        Of the first stage: numbers of the inputs that decide what is computed.
        """

class StageRooms:
    """
    Which stage that was compiled ahead may run in the place of a smaller one.
    """

    def __init__(self, target: str, options: Mapping[str, str]) -> None: ...

    def set_sizes(self, sizes: Mapping[str, Sequence[int]]) -> None:
        """Numbers of rows that are compiled ahead, by name."""

def first_stage(imported: graph.OnnxStage) -> ModelStage:
    """The first stage of a chain, as the importer made it."""

def stages_ahead(first: ModelStage, sizes: Mapping[str, Sequence[int]], open: Sequence[str]) -> list[ModelStage]:
    """
    The stages of these numbers of rows; `open`: names of the dimensions of inputs. Raises InputError `onnx.dimension`.
    """

def run_stages(first: ModelStage, inputs: list, execute: Callable, rooms: StageRooms | None = None, is_compiled: object | None = None) -> tuple:
    """
    ([result], [stage], {key: the larger stage that ran}) of one inference. execute: a stage's results from its arguments; is_compiled: whether a stage has a program of its own, so that no larger one is taken.
    """

def coverage_of_stages(first: ModelStage, dimensions: Mapping[str, int], inputs: dict) -> tuple:
    """
    (rows of coverage, notes) of all stages, for the values of inputs by their number.
    """

class Report:
    """What a command says of a model."""

    @property
    def text(self) -> str:
        """For people, lines that end."""

    @property
    def json(self) -> str:
        """The same for machines."""

    @property
    def complete(self) -> bool:
        """Whether nothing of the model is refused."""

def coverage_report(rows: Sequence[tuple[str, int, int, str, int, float, str, int, str]], notes: Sequence[str]) -> Report:
    """
    Of the rows that coverage() gives, those first of which most is refused.
    """

def unknown_operators_report(path: str | os.PathLike) -> Report:
    """
    Of an ONNX file: the operators that are not imported; complete where all are.
    """

def compile_report(facts: str, stages: str, predicted: str) -> Report:
    """Of facts as JSON, and lines about stages and the predicted time."""

def description_text(program: str) -> str:
    """Of the facts that LoadedModel.description() gives."""

def host_text(calls: Sequence[tuple[str, str, str, int, str, float, int]], flops_share: float, bytes_share: float) -> str: ...

def output_text(facts: str) -> str:
    """
    Of a result that `opentrn run` computed, from the facts that it prints as JSON.
    """

def size_text(count: float) -> str:
    """Bytes with four digits: 512 B, 1.5 KiB."""

def time_text(us: float) -> str:
    """Microseconds in the unit that suits them."""

def place_text(file: str, line: int, name: str) -> str:
    """The framework's name of an op, else its line."""

class StagedTiming:
    def __repr__(self) -> str: ...

    @property
    def assumptions(self) -> list[str]:
        """What the times rest on beside the tables' facts: of the target, so the same for every program."""

    @property
    def band(self) -> dict[str, Any]:
        """Where the measured time is expected: the programs' bands added up, as Timing.band gives one."""

    @property
    def basis(self) -> dict[str, Any]:
        """What the time of the longest program rests on, as Timing.basis gives it."""

    @property
    def bound_by(self) -> str | None:
        """Of the program that takes longest."""

    def profile(self) -> dict[str, Any]:
        """The profile of each program, under `stages`."""

    @property
    def time_us(self) -> float:
        """total_ns in microseconds."""

    def __init__(self, parts: Sequence[tuple[ModelStage, Timing]]) -> None: ...

    @property
    def parts(self) -> list[tuple[ModelStage, Timing]]:
        """(stage, its Timing), in the order in which they ran."""

    @property
    def total_ns(self) -> float:
        """Of all programs."""

    @property
    def launch_ns(self) -> float:
        """Of all launches."""

    @property
    def mfu_percent(self) -> float:
        """Mean over time."""

    @property
    def mbu_percent(self) -> float:
        """Mean over time."""

    @property
    def longest(self) -> Timing:
        """The Timing of the program that takes longest."""

    def band_json(self) -> str: ...

    def json(self) -> str: ...

    def trust_text(self) -> str: ...

    def text(self, lines_max: int = 12) -> str: ...

    def model_text(self, lines_max: int = 12, depth: int = 0) -> str: ...

class ComparedTarget:
    """One target of a NeuronCore, and the chips that have it."""

    @property
    def name(self) -> str: ...

    @property
    def core(self) -> str: ...

    @property
    def chips(self) -> list[str]: ...

class ModelComparison:
    """A model's rows for every NeuronCore and instance size."""

    def __init__(self, source: str) -> None: ...

    def add(self, target: ComparedTarget, profile: str, compile_s: float, mfu_percent: float, mbu_percent: float, bound_by: str | None, trust: str, band: str, host_ops: int) -> None:
        """
        A NeuronCore's row and its instances'; profile: Timing.profile() as JSON.
        """

    def add_unknown(self, target: ComparedTarget, why: str) -> None:
        """One whose time nobody knows."""

    def set_sizes(self, sizes: Sequence[tuple[str, int]]) -> None:
        """Of an inference, where data decide shapes."""

    def text(self, width: int = 100) -> str:
        """Two tables, in lines of so many characters."""

    def json(self) -> str:
        """All rows, as JSON."""

def compared_targets() -> list[ComparedTarget]:
    """One target of every NeuronCore, in the order of the tables."""

def record_kernel(machines: Sequence[Machine], name: str, grid: Sequence[int], inputs: list, outputs: list, filled: bool) -> str: ...

def run_kernel(payload: str, arrays: Sequence[Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', writable=False)]]) -> list: ...

def describe_kernel(payload: str) -> dict: ...

def source_finding(tree: object, rules: list, meaning: Callable, is_kernel: Callable, legacy: bool, is_launched: bool) -> tuple | None: ...

def source_writes(tree: object) -> bool: ...

def instruction_names() -> list[str]:
    """
    Of the calls of nki.isa that make one instruction, in the order of the instruction table.
    """

def stored_call(facts: str, tensors: Sequence[tuple[Sequence[int], Sequence[int], str, bool, bool]], numbers: int, inputs: Sequence[tuple[str, str, Sequence[int]]], outputs: Sequence[tuple[str, str, Sequence[int]]], elements: Mapping[str, str]) -> tuple[bool, list[tuple[str, int, str]], list[tuple[int, int, list[int], list[int], str, bool, list[int] | None, int]], list[tuple[str, list[int]]]] | None:
    """
    Of an entry's facts as JSON (draws, inputs, outputs, what is returned); None where they are not those of the call and the program. tensors: (shape, shape in memory, element, whether it is a number, whether it is dense) of each; inputs and outputs: ports of the program; elements: of names of types.
    """

def run_cli(arguments: Sequence[str]) -> int: ...

def cli_options() -> list: ...

def cli_commands() -> list[tuple[str, str, str, bool]]:
    """
    The rows (name, entry, line, passed_on) of the program's commands, in the order of its help (src/cli/commands.def). `entry` is module:function of Python, and empty for a command of C++.
    """

def ask_cli(arguments: Sequence[str]) -> str: ...

def machines() -> str: ...

def families() -> list[str]: ...

class NeuronxCc:
    """A command line of neuronx-cc."""

    @property
    def command(self) -> str: ...

    @property
    def model(self, /) -> str: ...

    @property
    def target(self, /) -> str: ...

    @property
    def output(self, /) -> str: ...

    @property
    def logfile(self, /) -> str: ...

    @property
    def level(self) -> int:
        """Of Python's logging."""

    @property
    def flags(self, /) -> list[str]:
        """For the compiler."""

def neuronx_cc(words: list[str]) -> NeuronxCc:
    """
    Raises InputError and NotModelled `tools.neuronx_cc` for what is no command line of it.
    """

class ParallelCompile:
    """A command line of neuron_parallel_compile."""

    @property
    def command(self) -> str: ...

    @property
    def output(self, /) -> str: ...

    @property
    def verbosity(self) -> int: ...

    @property
    def program(self, /) -> list[str]: ...

def parallel_compile(words: list[str]) -> ParallelCompile:
    """
    Raises InputError `tools.parallel_compile` for what is no command line of it.
    """

def parallel_compile_retries(text: str) -> int:
    """Of NEURON_PARALLEL_COMPILE_MAX_RETRIES."""

def parallel_compile_summary(graphs: Sequence[tuple[str, str, int]]) -> tuple[str, list[str], list[str]]:
    """
    (JSON, sentences, failures) of (path, why it failed or "", retries) of each graph.
    """

def parallel_compile_analysis(graphs: Sequence[tuple[str, str, str]], verbosity: int) -> tuple[str, list[str], bool]:
    """
    (JSON, ops without a kernel, whether there are none) of (path, its coverage as JSON, why that is not known) of each graph.
    """

def predict_collective(operation: str, machine: str, nodes: int, ranks: int, groups: int, bytes: int) -> str: ...

def nccom_table(operation: str, ranks: int, stats: Sequence[str], algorithm: bool, sizes: bool, rows: Sequence[tuple[int, int, str, Sequence[float], float, str, int, int]]) -> str: ...

class PluginResource:
    """
    Devices or cores of a node for its device plug-in (src/monitor/plugin_resource.h).
    """

    def __init__(self, instance: str, kind: str) -> None: ...

    def listing(self, lost: Set[int]) -> list[tuple[str, bool, int | None]]:
        """
        (ID, whether it is healthy, NUMA node) of each; devices that are lost make theirs unhealthy.
        """

    def preferred(self, available: Sequence[str], must: Sequence[str], size: int) -> list[str]:
        """
        A contiguous set; without one the lowest numbers. InputError where it cannot be.
        """

    def allocation(self, ids: Sequence[str], lost: Set[int]) -> tuple[list[int], dict[str, str]]:
        """
        (devices, variables of a container). InputError for IDs that there are not, and for lost devices.
        """

class NodeMachine:
    """A simulated node, for Kubernetes (src/monitor/node_sets.h)."""

    def __init__(self, instance: str = '') -> None: ...

    def pods_info(self, held: Sequence[tuple[str, str, str, str, str]], period: float) -> str:
        """
        The object neuron_k8s_info as JSON, of (resource, ID, pod, namespace, container) of each device.
        """

    def annotations(self, pod: str, others: str) -> str:
        """
        Of a pod beside the others on the node, as JSON. InputError where no contiguous set is free.
        """

    def resource_slices(self, node: str, driver: str = '', ultraserver: str = '') -> str:
        """ResourceSlice objects, as JSON."""

    def container_of(self, allocation: str) -> tuple:
        """
        (variables as JSON, servers of an UltraServer or None) of an allocation of a claim.
        """

def wants_devices(pod: str) -> bool:
    """
    Whether a pod, as JSON, asks for devices or cores. InputError for what is not a pod.
    """

def dra_device_class() -> str: ...

def allocate_claim(claim: str, published: str, taken: Sequence[tuple[str, str]] = []) -> str:
    """
    The allocation of a claim's spec, as JSON. taken: (pool, device) of others.
    """

def ranges_text(numbers: Sequence[int]) -> str:
    """[0, 1, 2, 5]: "0-2,5"."""

class MetricCollector:
    """What Prometheus scrapes of reports (src/monitor/companion_metrics.h)."""

    def __init__(self) -> None: ...

    def take(self, report: str, now_s: float) -> None:
        """Takes a report, as JSON; InputError for what is none."""

    def families(self) -> list[tuple[str, str, bool, list[tuple[str, dict[str, str], float]]]]:
        """
        (name, documentation, whether it is a counter, [(name, labels, value)]) of each.
        """

def statsd_datagrams(report: str, prefix: str, with_tags: bool) -> list[str]:
    """Datagrams of a report, which is JSON."""

def cloudwatch_data(report: str) -> list[tuple[str, str, list[tuple[str, str]], float]]:
    """(name, unit, [(dimension, value)], value) of a report, which is JSON."""

def neuron_ls(instance: str, lnc: int, words: Sequence[str], processes: Sequence[tuple[int, str, str, bool]]) -> str: ...

class Monitor:
    def __init__(self, instance: str, config: str, name: str) -> None: ...

    def wait_s(self) -> float: ...

    def report(self) -> str: ...

class TopView:
    """What neuron-top shows of a machine, and what its keys change."""

    def __init__(self, instance: str) -> None: ...

    def screen(self, report: str, title: str, width: int, height: int) -> list[list[tuple[str, int]]]:
        """
        `height` lines of at most `width` characters: (text, style) of their pieces.
        """

    def press(self, key: str, report: str) -> bool:
        """Takes a key, False to end; report: what is on the screen."""

    @property
    def tab(self) -> int: ...

    @property
    def row(self) -> int: ...

def explorer_tables(path: str | os.PathLike, version: str) -> str:
    """Rows by table of a trace, as JSON (src/monitor/explorer_tables.h)."""

def explorer_summary(path: str | os.PathLike, version: str) -> str:
    """The same in lines."""

def session_folders(folder: str | os.PathLike) -> list[pathlib.Path]:
    """The folders in it that neuron-explorer inspect wrote."""

class ExplorerSession:
    """Folders of neuron-explorer inspect (src/monitor/explorer_session.h)."""

    def __init__(self, folder: str | os.PathLike, cores: str = '', types: Set[str] = ..., instances: Set[str] = ..., without_system: bool = False, without_device: bool = False) -> None: ...

    def system_rows(self) -> str:
        """SystemProfileEvents, as JSON."""

    def system_profile(self) -> str:
        """Events and use of the host, as JSON."""

    def perfetto(self, primary: str, secondary: str) -> str:
        """A trace in Chrome's JSON."""

    def summary(self, version: str, as_text: bool) -> str:
        """What summary-json and summary-text print."""

    @property
    def models(self) -> list[tuple[str, pathlib.Path]]:
        """(number of the model and of its core, its trace) of each."""

def top_config() -> str:
    """What neuron-top has the monitor collect."""

def top_size_text(bytes: float | None) -> str: ...

def install_files(prefix: str | os.PathLike, files: Sequence[tuple[str, bytes, bool]]) -> list[pathlib.Path]:
    """
    Writes (name below the prefix, content or where it leads, whether it is a link); the paths. InputError `tools.install` where a file is there that this did not write.
    """

def uninstall_files(prefix: str | os.PathLike) -> tuple[list[pathlib.Path], list[pathlib.Path]]:
    """(removed, changed since and left) of what install_files() wrote."""

def machine_facts(instance: str = '') -> dict: ...

def device_processes(watch_s: float = 0.0) -> list: ...

def write_device_tree(root: str | os.PathLike, instance: str, watch_s: float = 0.0) -> None:
    """
    Writes the files of Neuron's driver; InputError for a folder that holds something else.
    """

def remove_device_tree(root: str | os.PathLike) -> None: ...

def hold_as_tool() -> None: ...

class Processes:
    @property
    def ranks_here(self) -> list[int]: ...

    def finish(self, results: bytes) -> list: ...

    def fail(self, text: str, because_of_others: bool) -> None: ...

def processes_of_mpirun(ranks: int, what: str) -> Processes: ...

def is_one_of_several() -> bool: ...

def encode_rank(machines: Sequence[Machine]) -> bytes: ...

def end_processes_of_mpirun() -> None: ...

class Ranks:
    def __init__(self, ranks: int, cores: int, generation: int, target: str = '', processes: Processes | None = None) -> None: ...

    @property
    def count(self) -> int: ...

    @property
    def cores(self) -> int: ...

    def records(self) -> list: ...

def collective(function: str, srcs: object | None, dsts: object | None, groups: object | None, options: dict) -> None: ...

def most_ranks() -> int: ...

def processing_rank(iteration: int, groups: object, channel: int) -> int: ...

class Traffic:
    def text(self, most: int = 8) -> str: ...

    def json(self) -> str: ...

    def save_perfetto(self, path: str | os.PathLike) -> None: ...

def save_traffic_events(json: str, path: str | os.PathLike) -> None: ...

def time_ranks(ranks: Sequence[Sequence[Machine]], name: str = 'kernel', settings: Sequence[str] = [], look_ahead: int | None = None, neuronx_cc: bool = False, dge: bool = True, default_trip_count: int | None = None, target: str | None = None, middle_end: bool = True, encoded: Sequence[bytes] = []) -> tuple: ...

def collective_function() -> int:
    """The address of a runtime::CollectiveFunction."""

def stretches_of_graph(rows: Sequence[tuple[float, Sequence[int], str, int, Sequence[int], int]]) -> list[float]:
    """
    How much longer each step takes beside collectives of other streams. A row is a part (ns, rows of the collectives that it waits for, '', 0, [], 0) or a collective (0, [], kind, bytes, cores, stream).
    """

def compile_for_logical_core(text: str, path: str | os.PathLike, target: str, options: Mapping[str, str] = {}) -> tuple: ...

class ShardedModel:
    @property
    def inputs(self) -> list: ...

    @property
    def outputs(self) -> list: ...

    @property
    def weights(self) -> list: ...

    @property
    def control_inputs(self) -> list: ...

    @property
    def choice(self) -> str: ...

    @property
    def devices(self) -> int: ...

    @property
    def host_reason(self) -> str: ...

    @property
    def collectives(self) -> list: ...

    @property
    def part_count(self) -> int: ...

    @property
    def argument_bytes(self) -> int: ...

    @property
    def band(self) -> str: ...

    @property
    def narrowing(self) -> str: ...

    @property
    def tensor_bytes(self) -> int: ...

    def set_stochastic_rounding(self, seed: int | None) -> None: ...

    def run(self, arrays: Sequence[Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', writable=False)]]) -> list: ...

    def run_at(self, inputs: Sequence[int], outputs: Sequence[int], core: int | None = None) -> None: ...

    @property
    def call(self) -> tuple: ...

    def cost(self) -> dict: ...

    def traffic(self) -> Traffic | None: ...

    def local_text(self) -> str: ...

    def save(self, facts: Mapping[str, str], path: str | os.PathLike, permissions: int = 438) -> None: ...

def shard_model(text: str | None, path: str | os.PathLike, target: str, dimensions: Mapping[str, int], options: Mapping[str, str], mesh: str, annotations: Sequence[str]) -> ShardedModel: ...

def groups_of_mesh(mesh: str, devices: Sequence[int]) -> list[list[int]]:
    """
    The groups of devices along those axes of a mesh along which these, one of the groups, differ
    """

def both_cores_us_min(target: str, device_us: float, exposed_us: float, hbm_bytes: float) -> float:
    """
    What a run on one of two physical cores would take at least if both shared its compute evenly
    """

def devices_of_mesh(arg: str, /) -> int: ...

def environment_weight_collectives() -> tuple:
    """
    AWS's variables of collectives of weights: (ordered by layers, in a stream of their own, layers early, layers late). ValueError for a value that a variable does not take.
    """

def order_of_layers(nodes: Sequence[tuple[str, str, Sequence[int], str]], early: int, late: int) -> list[int]:
    """
    The order of a graph's nodes with its gathers and scatters of weights so many layers away. nodes: (op, as torch.fx names it, name of the op's schema, numbers of the nodes that it reads, shape) of each.
    """

def shard_graph(module: graph.Module, target: str, options: Mapping[str, str], mesh: str, annotations: Sequence[str]) -> ShardedModel: ...

class Gguf:
    @property
    def metadata(self) -> dict: ...

    @property
    def tensors(self) -> list: ...

    def decoded(self, name: str) -> Annotated[NDArray[numpy.float32], dict(order='C')]: ...

def read_gguf(path: str | os.PathLike) -> Gguf: ...

def write_checkpoint(file: Gguf, folder: str | os.PathLike, element: str, stop_tokens: Sequence[int]) -> None:
    """
    config.json and model.safetensors of a GGUF file's model, in a folder that is made.
    """

class Checkpoint:
    @property
    def config(self) -> str: ...

def read_checkpoint(folder: str | os.PathLike) -> Checkpoint: ...

@overload
def decoder_context(arg: Gguf, /) -> int: ...

@overload
def decoder_context(arg: Checkpoint, /) -> int: ...

@overload
def decoder_engine(file: Gguf, target: str, element: str, block_tokens: int, blocks: int, sequences: Sequence[int], tokens: Sequence[int], contexts: Sequence[int], lora: str | os.PathLike | None = None, ranks: int = 1, instance: str = '', cores_per_rank: int = 1, eagle: Checkpoint | None = None, quantization: str = 'none', kv_cache_dtype: str = 'auto') -> DecoderEngine: ...

@overload
def decoder_engine(file: Checkpoint, target: str, element: str, block_tokens: int, blocks: int, sequences: Sequence[int], tokens: Sequence[int], contexts: Sequence[int], lora: str | os.PathLike | None = None, ranks: int = 1, instance: str = '', cores_per_rank: int = 1, eagle: Checkpoint | None = None, quantization: str = 'none', kv_cache_dtype: str = 'auto') -> DecoderEngine: ...

def eagle_engine(file: Checkpoint, model: DecoderEngine, block_tokens: int, blocks: int, sequences: Sequence[int], tokens: Sequence[int], contexts: Sequence[int]) -> DecoderEngine: ...

def is_eagle(file: Checkpoint) -> bool: ...

def time_of_config(config: str, target: str, element: str, bucket: tuple[int, int, int, bool], ranks: int = 1, layers: int = 0, contiguous: bool = False, fuse_attention: bool = True, sequence_ranks: int = 1, choice: str = "host", cores_per_rank: int = 1, quantization: str = "none", kv_cache_dtype: str = "auto", kind: str = "") -> Timing: ...

def sizes_of_config(config: str) -> dict[str, int]: ...

def exchange_us_of_config(config: str, target: str, element: str, bucket: tuple[int, int, int, bool], ranks: int, instance: str, cores_per_rank: int = 1, choice: str = 'host') -> float: ...

def results_us_of_config(config: str, bucket: tuple[int, int, int, bool], choice: str = 'host') -> float: ...

class DecoderEngine:
    def step(self, sequences: Sequence[tuple[Sequence[int], int, Sequence[int]]], every_token: bool = False, adapter: int = 0) -> tuple: ...

    @overload
    def add_adapter(self, file: Gguf, folder: str | os.PathLike) -> int: ...

    @overload
    def add_adapter(self, file: Checkpoint, folder: str | os.PathLike) -> int: ...

    def time(self, bucket: tuple[int, int, int, bool], settings: Sequence[str] = [], choice: str = "host") -> Timing: ...

    def exchange_us(self, bucket: tuple[int, int, int, bool], choice: str = 'host') -> float: ...

    def results_us(self, bucket: tuple[int, int, int, bool], choice: str = 'host') -> float: ...

    def bucket_of(self, sequences: int, tokens: int, context: int, every_token: bool = False) -> tuple[int, int, int, bool]: ...

    def bucket_text(self, bucket: tuple[int, int, int, bool], choice: str = 'host') -> str: ...

    def prepare(self, bucket: tuple[int, int, int, bool], choice: str = 'host') -> int: ...

    def listing(self, bucket: tuple[int, int, int, bool]) -> str: ...

    def pooled(self) -> DecoderEngine: ...

    @property
    def pool_bytes(self) -> int: ...

    @property
    def weight_bytes(self) -> int: ...

    @property
    def config(self) -> dict: ...

class DecoderGeneration:
    @property
    def done(self) -> bool: ...

    @property
    def guessed(self) -> int: ...

    @property
    def right(self) -> int: ...

    def step(self) -> tuple: ...

def decoder_generation(engine: DecoderEngine, requests: Sequence[tuple[Sequence[int], int, Sequence[int], tuple[float, int, float, float, int]]], speculation: tuple[int, int, int] = (0, 4, 2), draft: DecoderEngine | None = None) -> DecoderGeneration: ...

def guessed_tokens(text: Sequence[int], speculation: tuple[int, int, int], most: int) -> list[int]: ...

def power_of_two_sizes(first: int, last: int) -> list[int]:
    """first, twice that, ... up to `last`, which is the last one."""

class TokenDraws:
    def __init__(self, seed: int) -> None: ...

def choose_token(logits: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], params: dict, prompt: Sequence[int], output: Sequence[int], mask: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, draws: TokenDraws) -> tuple: ...

class Server:
    def add(self, prompt: Sequence[int], params: dict, mask: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> int: ...

    def abort(self, id: int) -> None: ...

    def stats(self) -> dict: ...

    def step(self, patience_s: float, prepares: bool) -> object: ...

    def finish(self, id: int) -> dict: ...

    def set_mask(self, id: int, mask: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    def prepare_one(self) -> bool: ...

    def audit(self) -> str: ...

def model_server(engine: DecoderEngine, options: dict, linear: str, table: str, draft: DecoderEngine | None = None) -> Server: ...

def choose_tokens(engine: DecoderEngine, sequences: Sequence[tuple[Sequence[int], int, Sequence[int]]], params: Sequence[dict], draws: Sequence[TokenDraws], choice: str = 'likeliest', every_token: bool = False) -> tuple[list[int], list[float]]: ...

def drawing_server(vocabulary: int, choices: Sequence[int], options: dict, linear: str, table: str) -> Server: ...

class ForeignSteps:
    def __init__(self, engine: DecoderEngine, on_device_sampling: str, seed: int) -> None: ...

    def add(self, name: str, prompt: Sequence[int], params: object, seed: int | None, arrival_s: float) -> None: ...

    def has(self, name: str) -> bool: ...

    def place(self, name: str, blocks: Sequence[int], computed: int) -> None: ...

    def grow(self, name: str, blocks: Sequence[int], computed: int) -> None: ...

    def end(self, name: str) -> tuple[int, int, float, float, float] | None: ...

    def run(self, entries: Sequence[tuple[str, int]]) -> tuple[float, int, int]: ...

    def sample(self, masks: Mapping[str, Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]], now_s: float) -> list[tuple[str, int, float, int, list[tuple[int, float]]]]: ...

    def prepare(self, tokens: int) -> None: ...

    def logprobs(self) -> dict[str, int]: ...

    def prompt_scores(self, name: str) -> list[tuple[list[int], list[float], int]] | None:
        """
        Of each token of a prompt but the first: tokens (itself, then the likeliest), log probabilities, rank. None before all of it is computed, and after it was told.
        """

    @property
    def programs(self) -> int: ...

    @property
    def compile_s(self) -> float: ...

class TextStream:
    """
    Text of tokens that come one after the other: a character whose bytes are in several comes with the last. decode(tokens): of the tokenizer.
    """

    def __init__(self, decode: Callable) -> None: ...

    def add(self, token: int) -> str:
        """The text that one more token adds."""

    def rest(self) -> str:
        """What was held back, as it is."""

class AnswerText:
    """
    What may be shown of an answer so far. Text that may become a stop string is held back.
    """

    def __init__(self, decode: Callable, stop: Sequence[str], keeps_stop: bool, before: Sequence[int] = []) -> None: ...

    def add(self, token: int) -> str:
        """The text to show after one more token."""

    def rest(self) -> str:
        """What is still held back, at the end."""

    @property
    def stopped(self) -> str | None: ...

def bytes_of_letters(letters: str) -> bytes: ...

def bytes_of_piece(piece: str) -> bytes: ...

BLOCK_TOKENS: int = 32

def program_sizes(context: int, sequences: int, guesses: int = 0) -> tuple[list[int], list[int], list[int]]: ...

def chosen_sizes(sequences: Sequence[int], tokens: Sequence[int], contexts: Sequence[int], context: int, max_num_seqs: int) -> tuple[list[int], list[int], list[int]]: ...

def check_server_settings(*, policy: str, values: bool, has_step_times: bool, quantization: str, kv_cache_dtype: str, has_adapters: bool, ranks: int, guesses: int) -> None: ...

def whole_context(asked: int, trained: int) -> int: ...

def generation_facts(run: str) -> str: ...

def generation_text(run: str) -> str: ...

def neuron_config_keys(nxdi: bool) -> list[tuple[str, str, str, str]]:
    """(key, verdict, why, setting) of every key that is known."""

def explain_neuron_config(config: str, nxdi: bool) -> str:
    """
    [key, value, verdict, why] of every key, as JSON. Raises InputError for an unknown one.
    """

def neuron_config_changes(config: str, nxdi: bool) -> str:
    """
    Settings with their values, as JSON. Raises InputError for the first key that is refused.
    """

def speculation_keys(honoured: bool) -> list[str]:
    """
    Keys of vLLM's speculative-config that are honoured, or those of methods that are not.
    """

def explain_speculation(config: str) -> str:
    """As explain_neuron_config()."""

def speculation_of(config: str) -> tuple[int, int, int, str, int]:
    """
    (tokens, longest, shortest, model, eagle). Raises InputError for keys and values that are not honoured.
    """

class ApiRefusal(Exception):
    pass

class ServedModel:
    def __init__(self, facts: str) -> None: ...

    @property
    def answer_format(self) -> str: ...

    def expect(self, name: str) -> None:
        """
        Raises ApiRefusal for another model than this one, and none of its adapters.
        """

class ResponseStore:
    def __init__(self, most: int) -> None: ...

    def get(self, id: str) -> bytes: ...

    def remove(self, id: str) -> None: ...

class ApiExchange:
    @property
    def inputs(self) -> list:
        """Each prompt as JSON: what the template takes, a text, or tokens."""

    @property
    def grammar(self) -> tuple[str, str] | None: ...

    @property
    def streams(self) -> bool: ...

    def kept_tokens(self, count: int) -> tuple[int, int]:
        """
        The first of so many tokens of a prompt that is kept, and the first behind them that is not
        """

    @property
    def echoes(self) -> bool: ...

    def plan(self, prompt_tokens: Sequence[int], texts: Sequence[str]) -> list[tuple[int, str]]:
        """
        For each answer the place of its prompt, and its parameters as JSON. texts: of prompts that a template wrote, else "".
        """

    def begin(self, echoed: Sequence[str]) -> bytes: ...

    def take(self, answer: int, text: str, tokens: Sequence[tuple[int, float, int, Sequence[tuple[int, float]]]], finish: str, stop_reason: object | None, end: object | None, prompt: Sequence[tuple[int, float, int, Sequence[tuple[int, float]]]] = []) -> bytes:
        """What a step gave to an answer; events of the stream."""

    def close(self) -> bytes: ...

    def failed(self, error: str) -> bytes:
        """Of OpenAI's error object, as JSON."""

    def whole(self) -> bytes: ...

    @property
    def predicted(self) -> dict:
        """Milliseconds of device time by what they are of."""

def open_exchange(kind: str, served: ServedModel, body: str, shown: object, store: ResponseStore) -> ApiExchange:
    """
    A request of chat, completions, messages or responses, as JSON. shown: the text and the bytes of a token.
    """

def without_end(prompt: str, last: str) -> str:
    """
    A conversation as its template wrote it, up to the end of the text of its last message.
    """

def prompts_of(prompt: str, param: str) -> list:
    """Texts and lists of tokens of OpenAI's `prompt` or `input`, as JSON."""
