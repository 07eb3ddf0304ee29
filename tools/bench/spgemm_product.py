#!/usr/bin/env python3
"""Whole sparse products: the library call beside cuSPARSE and other programs, in time and memory, on many kinds of matrices.

usage: spgemm_product.py [--build DIR] [--quick] [--budget SECONDS] [--matrices NAME,...] [--product NAME=A[,B] ...]
                         [--rival NAME=COMMAND ...] [--precision double|float] [--limit SECONDS] [--bandwidth TB/S] [--out FILE.json]
       spgemm_product.py --plot FILE.json

For each product it measures the library with a new multiplier in each call (cold), with one that keeps its memory (warm), and with the same
structure again (same); cusparse:alg1 to alg3; and each program of --rival. README.md beside this file has the protocol for such a program,
and says what is inside the times. Every contender runs in its own process and under a time limit (--limit: 60 s, quick 15 s). One that fails,
runs out of memory, takes longer than the limit, or finds another number of entries has a word instead of a time in the table, and is left out
of the means.

--product adds a product; A and B are names of spgemm_matrix (gen:..., a Matrix Market file, uniform:..., transpose:...). --matrices selects
products by name. A contender runs 11 times after 3 (--quick: 5 after 2). cold, warm, cusparse:alg1 and the programs of --rival come first, then the
rest. After --budget seconds (900, quick 225) nothing more is started; what was left out is reported.

Prints the tables and writes FILE.json (default spgemm-product.json; updated after every contender), FILE.txt, and pictures. --plot prints
and draws an earlier run; it needs no GPU. Exits with 77 without a GPU.
"""

import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time

import common
import spgemm_product_picture
import spgemm_product_results
from picture import say_pictures
from spgemm_product_results import ALL, FIRST, LATER, OURS, Products

# Name: (A, B). B None: A A.
PRODUCTS = {
    "atmosmodl": ("gen:atmosmodl", None),
    "twin-pwtk": ("gen:twin-pwtk", None),
    "cage14": ("gen:cage14", None),
    "nlpkkt80": ("gen:nlpkkt80", None),
    "rmat-18": ("gen:rmat:18:8", None),
    "dense-rows": ("gen:dense-rows:1000000:4:4", None),
    "web": ("web:1000000:8", None),
    "uniform": ("uniform:500000:500000:8", None),
    "A P": ("gen:brick27:100", "aggregation:100:3"),
    "A A'": ("uniform:200000:50000:8", "transpose:uniform:200000:50000:8"),
    "rmat-flat-18": ("rmat:18:8:45:15:15", None),
    "rectangular": ("uniform:400000:100000:8", "uniform:100000:300000:8"),
    "twin-af_shell10": ("gen:twin-af_shell10", None),
    "stencil27-100": ("gen:brick27:100", None),
    "elastic-40": ("gen:brick27:40:3", None),
    "twin-Hardesty1": ("gen:twin-Hardesty1", None),
    "twin-Transport": ("gen:twin-Transport", None),
    "P' A": ("transpose:aggregation:60:3", "gen:brick27:60"),
    "dense-columns": ("gen:dense-columns:1000000:4:4", None),
    "tall B": ("power:300000:16:50", "uniform:300000:64:8"),
    "web-300": ("web:300000:16", None),
    "web-600": ("web:600000:16", None),
    "A' A": ("transpose:uniform:200000:50000:8", "uniform:200000:50000:8"),
    "elastic5-30": ("gen:brick27:30:5", None),
    "elastic-78": ("gen:brick27:78:3", None),
    "rmat-20": ("gen:rmat:20:4", None),
}
LARGE = ["elastic-78", "rmat-20"]  # not in a quick run
BANDWIDTH = {"H200": 4.8, "H100 80GB HBM3": 3.35, "H100 PCIe": 2.0, "A100-SXM4-80GB": 2.04, "A100-SXM4-40GB": 1.56}  # TB/s, by the makers' data sheets
COUNTERS = re.compile(r"(\w+)=(-?[\d.]+)")


class Ended(Exception):
    """A contender gave no time; `kind` is the word of the table, the text says why."""

    def __init__(self, kind, why):
        super().__init__(why)
        self.kind = kind


def said(command, limit):
    """Standard output of a program. The processes that it started end with it. Raises Ended."""
    name = pathlib.Path(str(command[0])).name
    try:
        running = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, errors="replace", env=common.environment(), start_new_session=True)
    except OSError as problem:
        raise Ended("failed", f"{name}: {problem.strerror}") from None
    try:
        out, words = running.communicate(timeout=limit)
    except BaseException as reason:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        if isinstance(reason, subprocess.TimeoutExpired):
            raise Ended("time", f"{name}: took longer than {limit:.0f} s") from None
        raise
    if running.returncode == 0:
        return out
    why = " | ".join(words.strip().splitlines()[-3:]) or f"status {running.returncode}"
    raise Ended("memory" if "out of device memory" in words or "out of memory" in words.lower() else "failed", f"{name}: {why}")


def counters(text):
    """Numbers that a program printed, by name; the last one of each name."""
    return {name: float(value) if "." in value else int(value) for name, value in COUNTERS.findall(text)}


def of_driver(text):
    figure = counters("\n".join(line for line in text.splitlines() if not line.startswith(("matrix=", "b="))))
    return {name: figure[name] for name in ("ms_min", "ms_median", "ms_max", "trim_ms", "peak_bytes", "nnz_c", "runs", "warmup") if name in figure}


def of_rival(text):
    """One line `ms=... nnz=... [peak=...]` for each timed product."""
    runs = [found for line in text.splitlines() if "ms" in (found := counters(line)) and "nnz" in found]
    if not runs:
        raise Ended("failed", "printed no line with ms=... nnz=...")
    times = sorted(run["ms"] for run in runs)
    peaks = [run["peak"] for run in runs if "peak" in run]
    return {"ms_min": times[0], "ms_median": (times[(len(times) - 1) // 2] + times[len(times) // 2]) / 2, "ms_max": times[-1], "nnz_c": runs[-1]["nnz"],
            "runs": len(runs), **({"peak_bytes": max(peaks)} if peaks else {})}


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, pathlib.Path(folder)
        self.begin, self.card, self.written = time.monotonic(), (None, None), {}
        self.about_products, self.figures, self.left_out = {}, {}, []

    def left(self):
        return self.options.budget - (time.monotonic() - self.begin)

    def tool(self, *arguments):
        return said([self.options.build / "spgemm" / "spgemm_matrix", *arguments], max(10, min(120, self.left() + 10)))

    def path(self, name, suffix):
        """The matrix as a file, written when it is first needed."""
        if suffix == "mtx" and not name.startswith("gen:") and name.endswith(".mtx"):
            return pathlib.Path(name)
        if (name, suffix) not in self.written:
            path = self.folder / f"{len(self.written)}.{suffix}"
            self.tool("write", name, path)
            self.written[name, suffix] = path
        return self.written[name, suffix]

    def forget(self, keep):
        """Deletes the files that no later contender reads."""
        for key, path in list(self.written.items()):
            if key not in keep:
                path.unlink(missing_ok=True)
                del self.written[key]

    def driver(self, product, contender):
        def operand(name):
            return name if name.startswith("gen:") else self.path(name, "mtx")

        first, second = self.options.products[product]
        mode = f"auto:{contender.split()[1]}" if contender in OURS else contender
        text = said([self.options.build / "spgemm" / "spgemm", "--matrix", operand(first), *(["--b", operand(second)] if second else []), "--mode", mode,
                     "--precision", self.options.precision, "--runs", self.options.runs, "--warmup", self.options.warmup], self.limit())
        return of_driver(text)

    def rival(self, product, command):
        first, second = self.options.products[product]
        words = shlex.split(command)
        if not any(re.search(r"\{[ab]\.(mtx|csr)\}", word) for word in words):
            words += ["{a.mtx}", "{b.mtx}"]

        def value(found):
            what = found[1]
            if what in ("runs", "warmup", "precision"):
                return str(getattr(self.options, what))
            return str(self.path(first if what[0] == "a" else second or first, what[2:]))

        return of_rival(said([re.sub(r"\{(runs|warmup|precision|[ab]\.(?:mtx|csr))\}", value, word) for word in words], self.limit()))

    def limit(self):
        return max(2, min(self.options.limit, self.left() + 10))

    def describe(self, product):
        """Sizes of A and B, counted once."""
        first, second = self.options.products[product]
        about = {"a": first, "b": second}
        try:
            about.update(counters(self.tool("product", first, *([second] if second else []))))
        except Ended as problem:
            about["error"] = str(problem)
        self.about_products[product] = about

    def take(self, product, contender):
        key = f"{product}|{contender}"
        if self.left() < 2:
            self.left_out.append(key)
            return
        limit = self.limit()
        try:
            figure = self.rival(product, self.options.rivals[contender]) if contender in self.options.rivals else self.driver(product, contender)
            known = next((other["nnz_c"] for name, other in self.figures.items() if name.startswith(f"{product}|") and "nnz_c" in other), figure.get("nnz_c"))
            if "ms_median" not in figure:
                raise Ended("failed", "printed no time")
            if figure["nnz_c"] != known:
                raise Ended("wrong", f"{figure['nnz_c']} entries of C; {known} expected")
        except Ended as problem:
            if problem.kind == "time" and limit < self.options.limit:  # the budget cut its limit short
                self.left_out.append(key)
                return
            figure = {"error": str(problem), "kind": problem.kind}
        self.figures[key] = figure
        self.save()

    def about(self):
        gpu, driver = self.card
        known = next((value for name, value in BANDWIDTH.items() if gpu and name in gpu), None)
        return {"commit": self.options.commit or common.commit(), "gpu": gpu, "driver": driver, "precision": self.options.precision, "quick": self.options.quick,
                "runs": f"{self.options.runs} after {self.options.warmup}", "bandwidth": self.options.bandwidth or known, "rivals": self.options.rivals,
                "left_out": self.left_out, "products": self.about_products}

    def save(self):
        new = self.options.out.with_suffix(".new")
        new.write_text(json.dumps({**self.about(), "figures": self.figures}, indent=1) + "\n")
        os.replace(new, self.options.out)

    def run(self):
        self.card = common.card()
        later = list(LATER)
        for contenders in ([*FIRST, *self.options.rivals], later):
            for product in self.options.matrices:
                before = time.monotonic()
                if product not in self.about_products:
                    if self.left() < 2:
                        self.left_out += [f"{product}|{contender}" for contender in contenders]
                        continue
                    self.describe(product)
                for contender in contenders:
                    self.take(product, contender)
                # Files of the driver are needed again; those of rivals are not, and are large.
                again = {(name, "mtx") for name in self.options.products[product] if name and not name.startswith("gen:")} if contenders is not later else set()
                self.forget(again | {key for key in self.written if contenders is not later and self.shared(key, product)})
                print(f"{product}: {', '.join(contenders)}: {time.monotonic() - before:.0f} s", flush=True)

    def shared(self, key, product):
        """Whether another product's contenders of the driver read this file."""
        name, suffix = key
        return suffix == "mtx" and not name.startswith("gen:") and any(
            name in operands for other, operands in self.options.products.items() if other in self.options.matrices and other != product)


def pairs(parser, option, texts, what):
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals or not value or "|" in name:
            parser.error(f"{option} '{text}' is not NAME={what}")
        if name in found or name in ALL:
            parser.error(f"{option} '{text}': there is another {name}")
        found[name] = value
    return found


def arguments():
    parser = common.Parser(usage=__doc__)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--budget", type=float)
    parser.add_argument("--matrices", type=lambda names: names.split(","))
    parser.add_argument("--product", action="append", default=[])
    parser.add_argument("--rival", action="append", default=[])
    parser.add_argument("--precision", choices=["double", "float"], default="double")
    parser.add_argument("--bandwidth", type=float)
    parser.add_argument("--limit", type=float)
    parser.add_argument("--out", type=common.output, default=pathlib.Path("spgemm-product.json"))
    parser.add_argument("--plot", type=pathlib.Path)
    parser.add_argument("--commit", help="where git does not know it")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.budget = options.budget or (225 if options.quick else 900)
    options.limit = options.limit or (15 if options.quick else 60)
    options.runs, options.warmup = (5, 2) if options.quick else (11, 3)
    options.rivals = pairs(parser, "--rival", options.rival, "COMMAND")
    own = {name: (text.split(",")[0], (text.split(",") + [None])[1]) for name, text in pairs(parser, "--product", options.product, "A[,B]").items()}
    options.products = {**PRODUCTS, **own}
    usual = [name for name in PRODUCTS if not (options.quick and name in LARGE)]
    options.matrices = [*(options.matrices if options.matrices is not None else usual), *own]
    unknown = [name for name in options.matrices if name not in options.products]
    if unknown:
        parser.error(f"no such product: {', '.join(unknown)}; there are {', '.join(options.products)}")
    return options


def draw(about, products, out):
    say_pictures("spgemm_product.py", out, lambda: spgemm_product_picture.draw(about, products, out))


def main():
    options = arguments()
    if options.plot:
        document = common.earlier(options.plot)
        products = Products(document)
        print(spgemm_product_results.text(document, products))
        return draw(document, products, options.plot)
    common.build(options.build, "spgemm/spgemm", "spgemm/spgemm_matrix", shim=False)
    try:
        common.run([options.build / "spgemm" / "spgemm", "--matrix", "gen:cage:3", "--mode", "precise"], common.environment(), 120)
    except common.Failed as failure:
        if "no CUDA device" in str(failure):
            raise common.NoCard from None
        raise
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="spgemm-product-") as folder:
        bench = Bench(options, folder)
        try:
            bench.run()
        except KeyboardInterrupt:
            bench.left_out.append("the rest: the run was cut short")
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    bench.save()
    document = {**bench.about(), "figures": bench.figures}
    text = spgemm_product_results.text(document, Products(document))
    options.out.with_suffix(".txt").write_text(text + "\n")
    print(text, flush=True)
    draw(document, Products(document), options.out)
    return 0 if any("ms_median" in figure for figure in bench.figures.values()) else 1


if __name__ == "__main__":
    common.end(main)
