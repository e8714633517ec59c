"""Files from anywhere: what they may name, how much they may ask for, and what is said of them."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from onnx_bytes import field, node, scalar, value_info

import opentrn
from opentrn.cli import commands as cli
from opentrn.model import cache
from opentrn.model import compiled as model
from opentrn.report import html

SECRET = b"SECRET-" * 8
TEXT = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = stablehlo.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %r = stablehlo.multiply %x, %c : tensor<4xf32>
  return %r : tensor<4xf32>
}
"""


def external(name: str, location: str, *, length: int = 16, offset: int = 0) -> bytes:
    """A TensorProto of uint8 whose data is elsewhere."""
    rows = (("location", location), ("offset", str(offset)), ("length", str(length)))
    place = b"".join(field(13, field(1, key) + field(2, text)) for key, text in rows)
    return field(1, length) + field(2, 2) + field(8, name) + place + field(14, 1)


def onnx_model(
    nodes: list[bytes], *, tensors: tuple[bytes, ...] = (), functions: tuple[bytes, ...] = (), output: int = 7
) -> bytes:
    """A ModelProto with one input x, float [8], and one output y."""
    graph = b"".join(field(1, each) for each in nodes) + field(2, "g")
    graph += b"".join(field(5, tensor) for tensor in tensors)
    graph += field(11, value_info("x", [8])) + field(12, value_info("y", ["n", "m"], output))
    opsets = field(8, field(1, "") + field(2, 17)) + field(8, field(1, "local") + field(2, 1))
    return field(1, 8) + field(7, graph) + b"".join(field(25, f) for f in functions) + opsets


NONZERO = [node("NonZero", ["x"], ["nz"]), node("Transpose", ["nz"], ["y"])]


def never_called(location: str) -> bytes:
    """A function with a constant that lies elsewhere."""
    value = field(5, field(1, "value") + field(5, external("u", location)) + field(20, 4))
    constant = node("Constant", [], ["b"], value)
    return field(1, "F") + field(4, "a") + field(5, "b") + field(7, constant) + field(10, "local")


@pytest.fixture()
def secret(tmp_path):
    path = tmp_path / "elsewhere" / "secret"
    path.parent.mkdir()
    path.write_bytes(SECRET)
    return path


@pytest.fixture()
def folder(tmp_path):
    path = tmp_path / "model"
    path.mkdir()
    return path


@pytest.mark.parametrize("how", ["function", "initializer"])
def test_files_that_nobody_reads_are_not_attached(folder, secret, how):
    if how == "function":
        data = onnx_model(NONZERO, functions=(never_called(str(secret)),))
    else:
        data = onnx_model(NONZERO, tensors=(external("u", str(secret)),))
    (folder / "m.onnx").write_bytes(data)
    staged = opentrn.compile(folder / "m.onnx")
    saved = staged.save(folder / "m.neuron").read_bytes()
    assert SECRET not in saved
    (x,) = [np.array([0, 1, 0, 2, 0, 0, 3, 0], np.float32)]
    np.testing.assert_array_equal(model.load(folder / "m.neuron")(x)[0].ravel(), [1, 3, 6])


@pytest.mark.parametrize("location", ["{secret}", "../elsewhere/secret", "link", "folder/secret"])
def test_data_outside_the_models_folder_is_refused(folder, secret, location, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENTRN_CACHE", str(tmp_path / "cache"))
    (folder / "link").symlink_to(secret)
    (folder / "folder").symlink_to(secret.parent)
    nodes = [node("Cast", ["u"], ["f"], field(5, field(1, "to") + field(3, 7) + field(20, 2))),
             node("NonZero", ["x"], ["nz"]), node("Gather", ["f", "nz"], ["y"])]  # fmt: skip
    tensor = external("u", location.format(secret=secret))
    (folder / "m.onnx").write_bytes(onnx_model(nodes, tensors=(tensor,)))
    for cached in (False, True):
        with pytest.raises(
            ValueError, match=r"(?s)onnx.external_data.*tensor 'u'.*outside the model's folder.*try: "
        ):
            opentrn.compile(folder / "m.onnx", cache=cached)


def test_only_the_declared_bytes_go_along(folder):
    (folder / "w.bin").write_bytes(SECRET[:24] + bytes(range(16)) + SECRET)
    nodes = [node("Cast", ["u"], ["f"], field(5, field(1, "to") + field(3, 7) + field(20, 2))),
             node("NonZero", ["x"], ["nz"]), node("Gather", ["f", "nz"], ["y"])]  # fmt: skip
    (folder / "m.onnx").write_bytes(onnx_model(nodes, tensors=(external("u", "w.bin", offset=24),)))
    x = np.array([0, 1, 0, 2, 0, 0, 3, 0], np.float32)
    for weights in ("copy", "reference"):
        path = opentrn.compile(folder / "m.onnx").save(folder / f"{weights}.neuron", weights=weights)
        assert b"SECRET" not in path.read_bytes()
        np.testing.assert_array_equal(model.load(path)(x)[0].ravel(), [1, 3, 6])
    (folder / "w.bin").write_bytes(bytes(200))
    with pytest.raises(ValueError, match="has changed since"):
        model.load(folder / "reference.neuron")


@pytest.mark.parametrize("kind", ["fifo", "device", "folder"])
def test_what_is_no_file_is_never_waited_for(folder, kind, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENTRN_CACHE", str(tmp_path / "cache"))
    place = folder / "w.bin"
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "device":
        place.symlink_to("/dev/zero")
    else:
        place.mkdir()
    nodes = [node("Cast", ["u"], ["y"], field(5, field(1, "to") + field(3, 7) + field(20, 2)))]
    (folder / "m.onnx").write_bytes(onnx_model(nodes, tensors=(external("u", "w.bin"),)))
    for cached in (False, True):
        with pytest.raises(ValueError, match=r"(?s)onnx.external_data.*(m.onnx|tensor 'u')"):
            opentrn.compile(folder / "m.onnx", cache=cached)


def test_missing_weights_say_which_and_what_to_do(folder, capsys):
    nodes = [node("Cast", ["u"], ["y"], field(5, field(1, "to") + field(3, 7) + field(20, 2)))]
    (folder / "m.onnx").write_bytes(onnx_model(nodes, tensors=(external("u", "llama.onnx.data"),)))
    assert cli.main(["compile", str(folder / "m.onnx"), "-o", str(folder / "m.neuron")]) == cli.INPUT
    said = capsys.readouterr().err
    assert "[onnx.external_data]" in said and str(folder / "m.onnx") in said and "llama.onnx.data" in said
    assert "try: " in said


def test_a_report_holds_no_text_but_the_kernels(tmp_path, secret):
    text = TEXT.replace("tensor<4xf32>\n  return", f'tensor<4xf32> loc("{secret}":1:1)\n  return')
    timing = opentrn.compile(text).time()
    assert SECRET.decode() not in html.page(timing)
    assert SECRET.decode() in html.page(timing, [secret])  # asked for
    page = html.page(timing)
    assert str(secret) in page  # the place is still named
    secret.write_bytes(SECRET + b"x" * html.SOURCE_BYTES_MAX)
    assert SECRET.decode() not in html.page(timing, [secret])  # too large for a page


def test_the_page_of_a_command_takes_files_by_an_option(tmp_path, capsys):
    source, page = tmp_path / "m.mlir", tmp_path / "m.html"
    source.write_text(TEXT)
    for words, there in ([], False), (["--embed-source", str(source)], True):
        assert cli.main(["profile", str(source), "--html", str(page), "--no-cache", *words]) == 0
        assert ("stablehlo.multiply %x" in page.read_text()) == there


# Each a small file that asks for much: (name, text or bytes, label of the error).
def doubling(levels: int) -> str:
    """Functions that call the next one twice."""
    text = "func.func @main(%x: tensor<f32>) -> tensor<f32> {\n"
    text += " %y = func.call @f0(%x) : (tensor<f32>) -> tensor<f32>\n return %y : tensor<f32>\n}\n"
    call = " = func.call @f{next}({of}) : (tensor<f32>) -> tensor<f32>\n"
    for level in range(levels):
        text += f"func.func private @f{level}(%x: tensor<f32>) -> tensor<f32> {{\n"
        text += " %a" + call.format(next=level + 1, of="%x") + " %b" + call.format(next=level + 1, of="%a")
        text += " return %b : tensor<f32>\n}\n"
    return (
        text
        + f"func.func private @f{levels}(%x: tensor<f32>) -> tensor<f32> {{\n return %x : tensor<f32>\n}}\n"
    )


def reduced(op: str, size: int) -> str:
    """The sum of a value of that many elements."""
    return (
        f"func.func @main(%x: tensor<f32>) -> tensor<f32> {{\n %c = {op} : tensor<{size}xf32>\n"
        " %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        f" %r = stablehlo.reduce(%c init: %z) applies stablehlo.add across dimensions = [0] : (tensor<{size}xf32>, "
        "tensor<f32>) -> tensor<f32>\n %y = stablehlo.add %r, %x : tensor<f32>\n return %y : tensor<f32>\n}\n"
    )


def onnx_sum(op: str, inputs: list[str], *tensors: bytes) -> bytes:
    """The sum of what `op` makes of its inputs."""
    nodes = [node(op, inputs, ["c"]), node("ReduceSum", ["c"], ["r"]), node("Add", ["x", "r"], ["y"])]
    return onnx_model(nodes, tensors=tensors, output=1)


def real(name: str, value: float) -> bytes:
    return scalar(name, 1, np.float32(value).tobytes())


def ranked(rank: int) -> str:
    """A tensor of that many dimensions."""
    kind = f"tensor<{'1x' * rank}f32>"
    return f"func.func @main(%x: {kind}) -> {kind} {{\n %y = stablehlo.negate %x : {kind}\n return %y : {kind}\n}}\n"


def onnx_splat() -> bytes:
    """ConstantOfShape of 10^12 elements."""
    shape = field(1, 2) + field(2, 7) + field(8, "s") + field(9, np.array([10**6, 10**6]).tobytes())
    nodes = [
        node("ConstantOfShape", ["s"], ["c"]),
        node("ReduceSum", ["c"], ["r"]),
        node("Add", ["x", "r"], ["y"]),
    ]
    return onnx_model(nodes, tensors=(shape,), output=1)


BOMBS = {
    "doubling.mlir": (doubling(40), "graph.inline"),
    "splat.mlir": (reduced("stablehlo.constant dense<1.0>", 10**12), "compiler.hbm"),
    "splat.onnx": (onnx_splat(), "compiler.hbm"),
    "iota.mlir": (reduced("stablehlo.iota dim = 0", 10**12), "compiler.hbm"),
    "range.onnx": (
        onnx_sum("Range", ["a", "b", "d"], real("a", 0), real("b", 10**12), real("d", 1)), "compiler.hbm",
    ),
    "expand.onnx": (
        onnx_sum("Expand", ["k", "s"], real("k", 1.5),
                 field(1, 1) + field(2, 7) + field(8, "s") + field(9, np.array([10**12]).tobytes())),
        "compiler.hbm",
    ),
    "iota_of_16_gb.mlir": (reduced("stablehlo.iota dim = 0", 4 * 10**9), "compiler.hbm"),
    "rank.mlir": (ranked(200_000), "graph.rank"),
}  # fmt: skip
LIMITED = """
import resource, sys
import opentrn
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), used + (1 << 30)))
from opentrn import cli
sys.exit(cli.main(sys.argv[1:]))
"""


def limited(*words: str) -> tuple[int, str, float]:
    """Exit status, messages and seconds of a command that may have a GiB beyond what it starts with."""
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", LIMITED, *words], capture_output=True, text=True, timeout=120,
                          check=False, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"})  # fmt: skip
    return done.returncode, done.stderr, time.monotonic() - start


WITHOUT_ROOM = """
import resource, sys
import opentrn
from opentrn.errors import CapacityExceeded
small, large = sys.argv[1:]
opentrn.compile(small).time()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (32 << 20), used + (32 << 20)))
try:
    opentrn.compile(large).time()
except CapacityExceeded as error:
    print(error.label)
"""


def test_a_host_without_room_for_a_program_is_an_error_of_capacity():
    texts = [reduced("stablehlo.iota dim = 0", size) for size in (10**4, 4 * 10**8)]
    done = subprocess.run([sys.executable, "-c", WITHOUT_ROOM, *texts], capture_output=True, text=True, timeout=120,
                          check=False, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"})  # fmt: skip
    assert done.stdout == "host_memory\n", done.stderr


@pytest.mark.parametrize("name", BOMBS)
def test_small_files_do_not_take_the_machine(name, tmp_path):
    content, label = BOMBS[name]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    status, said, seconds = limited(
        "compile", str(tmp_path / name), "-o", str(tmp_path / "o.neuron"), "--no-cache"
    )
    assert f"[{label}]" in said and "a bug in OpenTrn" not in said, said
    assert status in (cli.INPUT, cli.CAPACITY)
    assert seconds < 30  # two of them on a machine that does nothing else


def test_damaged_weights_are_noticed(tmp_path):
    path = opentrn.compile(TEXT).save(tmp_path / "m.neuron")
    data = bytearray(path.read_bytes())
    at = bytes(data).index(np.array([1, 2, 3, 4], np.float32).tobytes())
    data[at + 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(ValueError, match="is damaged: a constant"):
        model.load(path)


def test_a_file_of_an_older_version_is_named_so(tmp_path):
    path = opentrn.compile(TEXT).save(tmp_path / "m.neuron")
    data = bytearray(path.read_bytes())
    data[4] = 2
    path.write_bytes(bytes(data))
    with pytest.raises(ValueError, match=r"(?s)version 2 of the format.*reads version 3.*opentrn compile"):
        model.load(path)


def test_a_file_that_is_truncated_while_it_is_open_is_an_error(tmp_path):
    path = opentrn.compile(TEXT).save(tmp_path / "m.neuron")
    loaded = model.load(path)
    x = np.ones(4, np.float32)
    np.testing.assert_array_equal(loaded(x)[0], [1, 2, 3, 4])
    os.truncate(path, 100)
    with pytest.raises(ValueError, match=r"file.changed.*m.neuron"):
        loaded(x)


TRUNCATED_MEANWHILE = """
import os, sys, threading
import numpy as np
from opentrn.model import compiled as model
loaded = model.load(sys.argv[1])
threading.Timer(0.3, lambda: os.truncate(sys.argv[1], 100)).start()
try:
    loaded(np.int32(0), np.ones((512, 512), np.float32))
except ValueError as error:
    print(error)
"""


def test_a_file_that_is_truncated_during_a_run_is_an_error(tmp_path):
    """A long loop that reads weights of many pages."""
    weights = np.random.default_rng(0).random((512, 512), np.float32)
    text = f"""
func.func @main(%x: tensor<i32>, %m: tensor<512x512xf32>) -> tensor<512x512xf32> {{
  %w = stablehlo.constant dense<"0x{weights.tobytes().hex()}"> : tensor<512x512xf32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %last = stablehlo.constant dense<-1> : tensor<i32>
  %r:2 = stablehlo.while(%a = %x, %v = %m) : tensor<i32>, tensor<512x512xf32>
    cond {{
      %p = stablehlo.compare NE, %a, %last : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    }} do {{
      %b = stablehlo.add %a, %two : tensor<i32>
      %n = stablehlo.maximum %v, %w : tensor<512x512xf32>
      stablehlo.return %b, %n : tensor<i32>, tensor<512x512xf32>
    }}
  return %r#1 : tensor<512x512xf32>
}}
"""
    path = opentrn.compile(text).save(tmp_path / "m.neuron")
    done = subprocess.run(
        [sys.executable, "-c", TRUNCATED_MEANWHILE, str(path)], capture_output=True, text=True, timeout=100,
        check=False, env=os.environ | {"OPENTRN_LOOP_LIMIT": "3000"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "[file.changed]" in done.stdout and "was truncated while it was read" in done.stdout


class TestCache:
    @pytest.fixture(autouse=True)
    def own_folder(self, tmp_path, monkeypatch):
        monkeypatch.setenv("OPENTRN_CACHE", str(tmp_path / "cache"))
        model._tell_cache_is_not_used.cache_clear()

    def compiled(self, tmp_path, text: str = TEXT, name: str = "m.mlir"):
        (tmp_path / name).write_text(text)
        return opentrn.compile(tmp_path / name, cache=True)

    def test_an_entry_under_another_models_name_is_not_taken(self, tmp_path, capsys):
        other = TEXT.replace("4.0]", "9.0]")
        self.compiled(tmp_path)
        self.compiled(tmp_path, other, "other.mlir")
        a, b = [entry.path for entry in cache.entries()]
        a.write_bytes(b.read_bytes())
        for text, name, last in ((TEXT, "m.mlir", 4), (other, "other.mlir", 9)):
            assert self.compiled(tmp_path, text, name)(np.ones(4, np.float32))[0][3] == last
        assert "is the entry of another model" in capsys.readouterr().err

    def test_a_folder_that_others_may_write_to_is_not_used(self, tmp_path, capsys):
        assert self.compiled(tmp_path).cached == "miss"
        (tmp_path / "cache").chmod(0o777)
        assert [self.compiled(tmp_path).cached for _ in range(2)] == ["not kept"] * 2
        said = capsys.readouterr().err
        assert said.count("the cache is not used: others may write to") == 1 and "chmod go-w" in said
        (tmp_path / "cache").chmod(0o755)
        assert self.compiled(tmp_path).cached == "hit"

    def test_what_is_written_is_nobody_elses(self, tmp_path):
        before = os.umask(0)
        try:
            assert [self.compiled(tmp_path).cached for _ in range(2)] == ["miss", "hit"]
        finally:
            os.umask(before)

    def test_interrupted_writers_rests_are_seen_and_swept(self, tmp_path, capsys):
        self.compiled(tmp_path)
        (entry,) = cache.entries()
        gone = subprocess.Popen([sys.executable, "-c", ""])
        gone.wait()
        rest = entry.path.with_name(f"{entry.path.name}.{gone.pid}.0123456789abcdef.part")
        kept = entry.path.with_name(f"{entry.path.name}.{os.getpid()}.0123456789abcdef.part")
        for path in (rest, kept):
            path.write_bytes(b"half")
        assert cli.main(["cache", "ls"]) == 0
        assert "1 files that interrupted writers left" in capsys.readouterr().out
        assert cli.main(["cache", "clear", "--older-than", "1"]) == 0
        assert not rest.exists() and kept.exists() and entry.path.exists()
        os.utime(kept, (0, 0))
        assert cache.sweep() == (1, 4)


@pytest.mark.parametrize("suffix", [".mlir", ".onnx", ".txt"])
def test_messages_about_bytes_that_are_no_text(suffix, tmp_path, capsys):
    path = tmp_path / f"m{suffix}"
    contents = {
        ".mlir": TEXT.encode().replace(b"stablehlo.multiply", b'"stablehlo.mul\xfftiply"'),
        ".onnx": onnx_model([node("A\0dd", ["x", "x"], ["y"])]).replace(b"A\0dd", b"A\xff\xc2d"),
        ".txt": b'opentrn program 1 "k"\nregisters 0\nno_such "\xff"\n',
    }
    path.write_bytes(contents[suffix])
    words = ["disasm"] if suffix == ".txt" else ["compile", "-o", str(tmp_path / "o.neuron"), "--no-cache"]
    status = cli.main([words[0], str(path), *words[1:]])
    said = capsys.readouterr().err
    assert status in (cli.INPUT, cli.NOT_MODELLED) and "codec can't decode" not in said, said
    assert suffix != ".onnx" or "\\xff" in said, said


def test_file_names_that_are_no_text(tmp_path):
    folder = os.fsencode(tmp_path) + b"/m\xff"
    os.mkdir(folder)
    source = os.fsdecode(folder + b"/f\xfe.mlir")
    with open(source, "w") as file:
        file.write(TEXT)
    target = os.fsdecode(folder + b"/f\xfe.neuron")
    for words in (["compile", source, "-o", target], ["run", target], ["profile", source, "--html", source + ".html"],
                  ["coverage", source], ["describe", target]):  # fmt: skip
        done = subprocess.run([sys.executable, "-m", "opentrn", *words], capture_output=True, check=False,
                              env=os.environ | {"OPENTRN_CACHE": str(tmp_path / "cache")})  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert os.path.exists(target) and os.path.exists(source + ".html")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_names_the_file(tmp_path, capsys):
    (tmp_path / "m.mlir").write_text(TEXT)
    status = cli.main(["profile", str(tmp_path / "m.mlir"), "--html", "/dev/full", "--no-cache"])
    said = capsys.readouterr().err
    assert status == cli.INPUT and "No space left on device" in said and "/dev/full" in said, said


def test_pages_appear_whole_or_not_at_all(tmp_path, monkeypatch):
    page = tmp_path / "p.html"
    page.write_text("old")
    timing = opentrn.compile(TEXT).time()

    def full(path, *_, **__):
        Path(path).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match=r"No space left on device: .*p.html'"):
        html.save(timing, page)
    assert page.read_bytes() == b"old" and list(tmp_path.iterdir()) == [page]


def test_the_table_of_ops_has_no_depth(tmp_path):
    """Bytes that would nest without end in another encoding are an input error."""
    path = opentrn.compile(TEXT).save(tmp_path / "m.neuron")
    data = path.read_bytes()
    header = json.loads(data[24 : 24 + int.from_bytes(data[8:16], "little")])
    place = header["buckets"][0]["origin"]
    assert any(row[0] == place["offset"] for row in header["pieces"])
    damaged = bytearray(data)
    damaged[place["offset"] : place["offset"] + place["bytes"]] = b"\x81" * place["bytes"]
    path.write_bytes(bytes(damaged))
    with pytest.raises(ValueError, match="is damaged"):
        model.load(path)
