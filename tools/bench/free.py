#!/usr/bin/env python3
"""What the implicit synchronisation of cudaFree costs: the same programs natively and under each GPUMEM_FREE, side by side in one run.

usage: free.py [--build DIR] [--rounds N] [--policy NAME,...] [--out FILE.json]

Rows: the pair of cudaMalloc and cudaFree, malloc + kernel + free with a short and a long kernel, Thrust, two threads on streams of
their own that hand a table over by a free, a CuPy round without its pool, a PyTorch training step without its cache (also with the
loss read in each step, and of a small GPT with a pinned loader), and a CKKS multiplication (examples/he_ops). Each is a process of
its own, taken in turn, round by round (default 3).
Prints nanoseconds (least, median, most of the rounds' medians) and ratios, and writes FILE.json (default free.json) and FILE.txt.
Ends with 77 without a GPU; a program that cannot run here is left out and named.
"""

import json
import pathlib
import statistics
import sys
import tempfile

import common

HERE = pathlib.Path(__file__).resolve().parent
LEVELS = ("safe", "wait", "order", "async")
UNCACHED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


def he_ops(options, environment):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "he.json"
        common.run([options.build / "examples" / "he_ops_static", "--set", "medium", "--operation", "multiply", "--iterations", 40, "--json", out],
                   environment, 120)
        times = sorted(1e6 * value for value in json.loads(out.read_text())["sets"][0]["operations"][0]["host_ms"])
    return [common.Measured(f"ckks-multiply {len(times)} {times[0]} {times[len(times) // 2]} {times[-1]}")]


def rows(options):
    """Name of each part, and what measures it in an environment."""
    bench = options.build / "tools" / "bench"

    def program(*command):
        return lambda environment: common.measure(command, environment, timeout=180)

    for name in ("pair:1048576", "loop-short", "loop-long", "thrust-sort"):
        yield name, program(bench / "alloc", "--samples", 7, "--passes", options.passes, "--rows", name), {}
    yield "hand-over", program(bench / "hand_over"), {}
    yield "cupy-step", program(sys.executable, HERE / "programs" / "cupy_step.py"), {}
    yield "torch-step", program(sys.executable, HERE / "programs" / "torch_step.py"), UNCACHED
    yield "gpt-step", program(sys.executable, HERE / "programs" / "gpt_step.py"), UNCACHED
    yield "torch-step-item", program(sys.executable, HERE / "programs" / "torch_step.py", "item"), UNCACHED
    yield "ckks-multiply", lambda environment: he_ops(options, environment), {}


def contenders(options):
    yield "native", None, {}
    for policy in options.policy.split(","):
        for level in LEVELS:
            yield f"{policy} {level}", options.build / "shim" / "libgpumem.so", {"GPUMEM_POLICY": policy, "GPUMEM_FREE": level}


def take(options):
    figures, missing, wrong = {}, {}, {}
    turns = [(row, measure, settings, *contender) for _ in range(options.rounds) for row, measure, settings in rows(options)
             for contender in contenders(options)]
    for row, measure, settings, name, shim, more in turns:
        if (row, name) in missing:
            continue
        try:
            lines = measure(common.environment(shim, {**settings, **more}))
        except common.Failed as failure:
            missing[row, name] = str(failure)
            continue
        for line in lines:
            figures.setdefault((line.name, name), []).append([line.min, line.median, line.max])
            wrong[line.name, name] = wrong.get((line.name, name), 0) + line.more.get("wrong", 0)
    return figures, missing, wrong


def table(figures, missing, wrong, names):
    lines = []
    for row in dict.fromkeys(row for row, _ in figures):
        native = statistics.median(median for _, median, _ in figures[row, "native"]) if (row, "native") in figures else None
        lines.append(row)
        for name in names:
            if (row, name) not in figures:
                continue
            medians = [median for _, median, _ in figures[row, name]]
            median = statistics.median(medians)
            free = figures.get((row, name.rsplit(" ", 1)[0] + " async"))
            parts = [f"  {name:14} {min(medians):14.0f} {median:14.0f} {max(medians):14.0f} ns"]
            if native and name != "native":
                parts.append(f"native / this {native / median:7.2f}")
            if free and name.endswith("safe"):
                parts.append(f"this / async {median / statistics.median(one for _, one, _ in free):6.2f}")
            if wrong[row, name]:
                parts.append(f"{wrong[row, name]} words read wrong")
            lines.append("  ".join(parts))
    lines += [f"left out: {row} of {name}: {why}" for (row, name), why in missing.items()]
    return lines


def main():
    parser = common.Parser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"), help="build folder (build)")
    parser.add_argument("--rounds", type=common.count, default=3, help="rounds (3)")
    parser.add_argument("--policy", default="cache", help="policies, separated by commas (cache)")
    parser.add_argument("--out", type=common.output, default=pathlib.Path("free.json"), help="file for the figures (free.json)")
    options = parser.parse_args()
    common.build(options.build, "tools/bench/alloc", "tools/bench/hand_over", "examples/he_ops_static")
    options.passes = int(common.run([options.build / "tools" / "bench" / "alloc", "--calibrate", 4250], common.environment(), 60))
    figures, missing, wrong = take(options)
    gpu, driver = common.card()
    names = [name for name, _, _ in contenders(options)]
    head = [f"commit {common.commit()}, {gpu}, driver {driver}, {options.rounds} rounds; least, median, most of the rounds' medians"]
    text = "\n".join(head + table(figures, missing, wrong, names)) + "\n"
    print(text, end="")
    options.out.write_text(json.dumps({"commit": common.commit(), "gpu": gpu, "driver": driver, "rounds": options.rounds,
                                       "figures": [{"row": row, "contender": name, "wrong": wrong[row, name], "rounds": values}
                                                   for (row, name), values in figures.items()]}, indent=1) + "\n")
    options.out.with_suffix(".txt").write_text(text)
    return 0


if __name__ == "__main__":
    common.end(main, without_card="it measures on a card only")
