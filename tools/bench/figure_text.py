"""What figures.py and the results of benches share: text, tables, the newest run of a bench, and the blocks of documents that are written
from it."""

import json
import pathlib
import re
import textwrap

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
WIDTH = 118
MIB, GIB = 1 << 20, 1 << 30
BLOCKS = {}  # NAME -> function that writes the text


def wrapped(text, indent=""):
    return textwrap.fill(" ".join(text.split()), WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def items(*texts):
    return "\n".join(wrapped("- " + text, "  ") for text in texts)


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def titled(title, head, rows):
    return wrapped(title) + "\n\n" + table(head, rows)


def time(ns):
    """Three digits and a unit."""
    for scale, unit in ((1e6, "ms"), (1e3, "us")):
        if ns >= 0.9995 * scale:
            return f"{ns / scale:.3g} {unit}" if ns < 999.5 * scale else f"{ns / scale:.0f} {unit}"
    return f"{ns:.0f} ns"


def span(values, form="{:.2f}"):
    return f"{form.format(min(values))} to {form.format(max(values))}"


class Run:
    """The newest result file of a pattern."""

    def __init__(self, pattern):
        name = max(path.name for path in RESULTS.glob(pattern))
        self.file, self.about = f"`tools/bench/results/{name}`", json.loads((RESULTS / name).read_text(encoding="utf-8"))
        self.card = f"{self.about.get('gpu')}, driver {self.about.get('driver')}"
        self.made = self.card + ", commit " + re.sub(r"\b([0-9a-f]{7})[0-9a-f]+", r"\1", self.about.get("commit", ""))

    def __getitem__(self, key):
        return self.about[key]


def block(*patterns, name=None):
    """Of a function that writes the block NAME, by default the function's own; it gets the newest Run of each pattern."""
    def add(write):
        def text():
            missing = [pattern for pattern in patterns if not any(RESULTS.glob(pattern))]
            return f"0 runs of `{missing[0]}` are published yet." if missing else write(*map(Run, patterns))

        BLOCKS[name or write.__name__.replace("_", "-")] = text
        return write

    return add
