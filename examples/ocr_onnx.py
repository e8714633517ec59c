"""Reading text from pictures: PP-OCRv4 finds the lines of a scanned page and reads them, letter for letter.

    python examples/ocr_onnx.py                      # the scanned page of scikit-image; beside ONNX Runtime
    python examples/ocr_onnx.py page.png --target trn1
    python examples/ocr_onnx.py --picture read.png   # the page with the boxes and what was read

The two models lie in the package rapidocr-onnxruntime, of which nothing else is used, and the scanned page in
scikit-image: pip install --no-deps rapidocr-onnxruntime==1.4.4 scikit-image==0.26.0. Beside them: pip install pillow
scipy, and onnxruntime, which gives the values to compare with.

The detector gives for each pixel the probability that it lies in a line of text; connected pixels of at least 0.3 are
a line, which is widened as the model's authors do (by 1.6 times its area over its perimeter) and, where it slopes, made
level. What stands on its head or is bent is not looked for. The recogniser gives for each column of a line the
probability of every letter; the likeliest ones without repetitions are the text. Ends with an error where a probability
of the device is further from ONNX Runtime's than rounding, or a text differs.
"""

from __future__ import annotations

import argparse
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from application import of_package, onnx_session, price, priced

import opentrn

LIMIT = 2e-3  # of a probability: what rounding does to a softmax over 6,625 letters
LETTERS_HIGH = 48  # pixels of a line as the recogniser takes it
BUCKETS = (160, 320, 640)  # widths that a program is compiled for; a line is padded to the next

Model = Callable[[np.ndarray], np.ndarray]


class Line(NamedTuple):
    """Of a picture, in its pixels: the middle of the line at its left and right end, and how high it is."""

    left: int
    right: int
    middle_left: int
    middle_right: int
    high: int

    def corners(self) -> list[tuple[float, float]]:
        half = self.high / 2
        ends = ((self.left, self.middle_left), (self.right, self.middle_right))
        return [(x, y - half) for x, y in ends] + [(x, y + half) for x, y in reversed(ends)]


def model_file(name: str) -> Path:
    return of_package("rapidocr_onnxruntime", "models", name, pip="rapidocr-onnxruntime==1.4.4")


def photograph(path: Path) -> np.ndarray:
    """(height, width, 3) bytes, blue first, as the models were trained."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as image:
            return np.asarray(image.convert("RGB"))[:, :, ::-1]
    except FileNotFoundError:
        raise SystemExit(f"{path} is not there") from None
    except UnidentifiedImageError:
        raise SystemExit(f"{path} is not a picture that Pillow reads") from None


def resized(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    """(3, height, width) from -1 to 1."""
    from PIL import Image

    image = Image.fromarray(np.ascontiguousarray(picture)).resize((width, height), Image.Resampling.BILINEAR)
    return (np.asarray(image, np.float32) / 127.5 - 1).transpose(2, 0, 1)


def detector_input(picture: np.ndarray, longest: int = 960) -> np.ndarray:
    """Both sizes are multiples of 32; the shorter is about 736 where the longer can be `longest` at most."""
    height, width = picture.shape[:2]
    scale = min(736 / min(height, width), longest / max(height, width))
    sizes = [max(32, round(size * scale / 32) * 32) for size in (height, width)]
    return resized(picture, *sizes)[None]


def lines_of(probabilities: np.ndarray, height: int, width: int) -> list[Line]:
    """Those of a picture of that size, from the top down."""
    from scipy import ndimage

    down, along = height / probabilities.shape[0], width / probabilities.shape[1]
    labels, count = ndimage.label(
        ndimage.binary_dilation(probabilities > 0.3, np.ones((2, 2))), np.ones((3, 3))
    )
    found = []
    for number in range(1, count + 1):
        rows, columns = np.nonzero(labels == number)
        wide = int(np.ptp(columns)) + 1
        high = len(rows) / wide
        if min(high, wide) < 3 or probabilities[rows, columns].mean() < 0.5:
            continue
        slope, middle = np.polyfit(columns, rows + 0.5, 1)
        wider = 1.6 * high * wide / (2 * (high + wide))
        ends = columns.min() - wider, columns.max() + 1 + wider
        left, right = (int(np.clip(round(end * along), 0, width)) for end in ends)
        middles = (round(float(middle + slope * end) * down) for end in ends)
        found.append(Line(left, right, *middles, round((high + 2 * wider) * down)))
    return sorted(found, key=lambda line: (line.middle_left, line.left))


def level(picture: np.ndarray, line: Line) -> np.ndarray:
    """(high, right - left, 3): each column of the line from its own height in the picture, whose edge goes on."""
    columns = np.arange(line.left, line.right)
    middles = np.linspace(line.middle_left, line.middle_right, len(columns))
    rows = np.rint(middles - line.high / 2 + np.arange(line.high)[:, None]).astype(int)
    return picture[rows.clip(0, len(picture) - 1), columns]


def recogniser_input(picture: np.ndarray, line: Line) -> np.ndarray:
    """(1, 3, 48, W) of the smallest bucket that takes it, filled up with zeros; a longer line is made narrower."""
    part = level(picture, line)
    width = min(max(1, round(LETTERS_HIGH * part.shape[1] / part.shape[0])), BUCKETS[-1])
    bucket = next(each for each in BUCKETS if each >= width)
    padded = np.zeros((1, 3, LETTERS_HIGH, bucket), np.float32)
    padded[0, :, :, :width] = resized(part, LETTERS_HIGH, width)
    return padded


def text_of(probabilities: np.ndarray, letters: list[str]) -> tuple[str, float]:
    """The likeliest letter of each column, repetitions and blanks (number 0) left out; and their mean probability."""
    best = probabilities.argmax(1)
    kept = np.flatnonzero((best != 0) & (best != np.concatenate([[0], best[:-1]])))
    score = float(probabilities[kept, best[kept]].mean()) if len(kept) else 0.0
    return "".join(letters[number - 1] for number in best[kept]), score


class Compiled:
    """A model, compiled for each size that it is given; `time_us` and `usd`: predicted, of all that it ran."""

    def __init__(self, path: Path, target: str | None) -> None:
        self.path, self.target = path, target
        self.programs: dict[tuple[int, ...], opentrn.CompiledModel] = {}
        self.time_us, self.usd, self.rented = 0.0, 0.0, ""

    def __call__(self, given: np.ndarray) -> np.ndarray:
        if given.shape not in self.programs:
            batch, _, height, width = given.shape
            sizes = {"p2o.DynamicDimension.0": batch, "p2o.DynamicDimension.1": width}
            if self.path.name.startswith("ch_PP-OCRv4_det"):
                sizes |= {"p2o.DynamicDimension.1": height, "p2o.DynamicDimension.2": width}
            else:
                sizes["?"] = height
            self.programs[given.shape] = opentrn.compile(self.path, target=self.target, dimensions=sizes)
        model = self.programs[given.shape]
        timing = model.time()
        self.time_us += timing.time_us + timing.launch_ns / 1e3
        usd, self.rented = price(timing, self.target)
        self.usd += usd
        return model(given)[0]


def reference(path: Path) -> tuple[Model, list[str]]:
    """The model in ONNX Runtime, and the letters that its file lists."""
    session = onnx_session(path)
    listed = session.get_modelmeta().custom_metadata_map.get("character", "").splitlines()
    return lambda given: session.run(None, {"x": given})[0], [*listed, " "]


def read(picture: np.ndarray, detect: Model, recognise: Model, letters: list[str]) -> Iterable[tuple[Line, str, float]]:
    """Lines with their text and its probability."""
    for line in lines_of(detect(detector_input(picture))[0, 0], *picture.shape[:2]):
        yield line, *text_of(recognise(recogniser_input(picture, line))[0], letters)


class Beside:
    """A model on the device; each result is compared with ONNX Runtime's, and `apart` is the largest difference."""

    def __init__(self, device: Compiled, cpu: Model) -> None:
        self.device, self.cpu, self.apart = device, cpu, 0.0

    def __call__(self, given: np.ndarray) -> np.ndarray:
        found = self.device(given)
        self.apart = max(self.apart, float(np.abs(found - self.cpu(given)).max()))
        return found


def draw(file: Path, picture: np.ndarray, found: list[tuple[Line, str, float]]) -> None:
    """The page with boxes, and what was read, each in its place."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import patches, pyplot

    figure, (page, text) = pyplot.subplots(1, 2, figsize=(9, 2.6), layout="constrained")
    page.imshow(picture[:, :, ::-1])
    text.set_xlim(0, picture.shape[1])
    text.set_ylim(picture.shape[0], 0)
    for line, words, _ in found:
        page.add_patch(patches.Polygon(line.corners(), fill=False, color="tab:red"))
        text.text(line.left, line.middle_left, unicodedata.normalize("NFKC", words), fontsize=8,
                  parse_math=False)  # fmt: skip
    for place in (page, text):
        place.axis("off")
    figure.savefig(file, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", nargs="?", type=Path, help="default: page.png of scikit-image")
    parser.add_argument("--target", help="default: of NEURON_PLATFORM_TARGET_OVERRIDE, else trn2")
    parser.add_argument("--picture", type=Path, help="draw boxes and text (needs matplotlib)")
    o = parser.parse_args()
    page = o.page or of_package("skimage", "data", "page.png", pip="scikit-image==0.26.0")
    files = [model_file(f"ch_PP-OCRv4_{name}_infer.onnx") for name in ("det", "rec")]
    picture = photograph(page)
    (find_cpu, _), (read_cpu, letters) = (reference(file) for file in files)
    find, recognise = (Beside(Compiled(file, o.target), cpu) for file, cpu in zip(files, (find_cpu, read_cpu)))
    found = list(read(picture, find, recognise, letters))
    for line, words, score in found:
        print(f"{line.left:4d},{line.middle_left:4d}  {score:.4f}  {words}")
    lines = list(read(picture, find_cpu, read_cpu, letters))
    same = sum(mine[:2] == theirs[:2] for mine, theirs in zip(found, lines)) if len(found) == len(lines) else 0
    apart = max(find.apart, recognise.apart)
    print(
        f"{page.name}: {len(found)} lines, {same} of {len(lines)} with the box and the text of ONNX Runtime;"
        f" probabilities at most {apart:.1e} apart"
    )
    times = find.device.time_us, recognise.device.time_us
    print(
        f"{sum(times) / 1e3:.2f} ms a page, predicted, launches included: {times[0] / 1e3:.2f} to find the lines,"
        f" {times[1] / 1e3:.2f} to read them"
    )
    usd = sum(each.device.usd for each in (find, recognise))
    print(priced(usd * 1e6, "a million such pages", find.device.rented))
    if o.picture:
        draw(o.picture, picture, found)
    if apart > LIMIT or same != len(lines):
        raise SystemExit(f"further from ONNX Runtime than rounding explains: {apart:.1e}, limit {LIMIT:.0e}")


if __name__ == "__main__":
    main()
