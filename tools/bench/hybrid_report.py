"""Figures of hybrid.py: iterations by scheme and row, round by round; the targets; tables as Markdown."""

import statistics

from hybrid_schemes import ACTIVE, ASYNC, AUTO, HYBRID, HYBRID_ADVISED, MANAGED, MANAGED_ADVISED, MIB, NATIVE, ORDER
from targets import Verdict

SINGLE = ("add", "multiply", "multiply_plain", "rotate", "conjugate", "rescale")


class Samples:
    """Milliseconds of iterations. The first of each process is apart: it pays for first touches and for blocks not yet kept."""

    def __init__(self, entries=()):
        self.figures = {} # (part, percent, scheme, row) -> {round: [ms of each iteration]}
        for entry in entries:
            key = entry["part"], entry["percent"], entry["scheme"], entry["row"]
            self.figures[key] = {turn: values for turn, values in entry["rounds"]}

    def add(self, part, percent, scheme, row, turn, values):
        self.figures.setdefault((part, percent, scheme, row), {})[turn] = values

    def places(self, part):
        return list(dict.fromkeys(percent for its_part, percent, _, _ in self.figures if its_part == part))

    def schemes(self, part, percent):
        there = dict.fromkeys(scheme for its_part, its_percent, scheme, _ in self.figures if (its_part, its_percent) == (part, percent))
        return [name for name in ORDER if name in there] + [name for name in there if name not in ORDER]

    def rows(self, part, percent):
        return list(dict.fromkeys(row for its_part, its_percent, _, row in self.figures if (its_part, its_percent) == (part, percent)))

    def warm(self, *key):
        """Of all rounds; the first iteration counts only where there is no other."""
        return [value for values in self.figures.get(key, {}).values() for value in (values[1:] or values)]

    def stats(self, *key):
        values = self.warm(*key)
        if not values:
            return None
        return {"min": min(values), "median": statistics.median(values), "max": max(values), "std": statistics.pstdev(values),
                "first": statistics.median(one[0] for one in self.figures[key].values()), "iterations": len(values)}

    def ratio(self, part, percent, scheme, to, row):
        """Median of the ratios of medians within each round, None where no round has both."""
        over, under = self.figures.get((part, percent, scheme, row), {}), self.figures.get((part, percent, to, row), {})
        ratios = [statistics.median(over[turn][1:] or over[turn]) / statistics.median(under[turn][1:] or under[turn])
                  for turn in over if turn in under]
        return statistics.median(ratios) if ratios else None

    def mean_ratio(self, part, percent, scheme, to):
        """Geometric mean over the rows that both have."""
        ratios = [ratio for row in self.rows(part, percent) if (ratio := self.ratio(part, percent, scheme, to, row))]
        return statistics.geometric_mean(ratios) if ratios else None

    def to_json(self):
        return [{"part": key[0], "percent": key[1], "scheme": key[2], "row": key[3], **self.stats(*key),
                 "rounds": [[turn, values] for turn, values in sorted(rounds.items())]} for key, rounds in self.figures.items()]


def verdicts(samples, lifetimes, beyond_failures):
    found = []
    for percent in samples.places("fits"):
        where = f"{percent} % of the budget"
        found.append(Verdict(f"active-list against cudaMallocAsync, all operations, {where}", ACTIVE,
                             samples.mean_ratio("fits", percent, ACTIVE, ASYNC), 1.10, "x"))
        found.append(Verdict(f"active-list against cudaMallocManaged, all operations, {where}", ACTIVE,
                             samples.mean_ratio("fits", percent, ACTIVE, MANAGED), 1 / 3, "x"))
        ratios = [samples.mean_ratio("fits", percent, AUTO, other) for other in (NATIVE, ASYNC)]
        found.append(Verdict(f"auto against the better of cudaMalloc and cudaMallocAsync, {where}", AUTO,
                             max(ratios) if None not in ratios else None, 1.03, "x"))
    if "bootstrap" in lifetimes:
        found.append(Verdict("objects of bootstrap that live a second or longer", "trace",
                             1 - lifetimes["bootstrap"]["below_second"], 0.10, "of all", "the paper: 8 %"))
    found.append(Verdict("runs beyond the limit that failed", "all", beyond_failures, 0, "runs"))
    return found


def story(samples):
    """The paper's 4.8 -> 24 ms of a multiplication, and what brings it back."""
    lines = []
    for percent in samples.places("fits"):
        for row in samples.rows("fits", percent):
            if not row.endswith(" multiply"):
                continue
            lines += ["", f"### `{row}` at {percent} %: all managed against all asynchronous", "",
                      "| scheme | median ms | against cudaMallocAsync | slowest / fastest iteration |", "|---|---|---|---|"]
            for scheme in samples.schemes("fits", percent):
                figure = samples.stats("fits", percent, scheme, row)
                ratio = samples.ratio("fits", percent, scheme, ASYNC, row)
                lines.append(f"| {scheme} | {figure['median']:.3f} | {f'{ratio:.2f} x' if ratio else '-'} | "
                             f"{figure['max'] / figure['min']:.2f} |")
            lines.append("")
            lines.append("The paper's multiplication: 4.8 ms asynchronous, 24 ms managed, 5 x.")
            for label, plain, advised in (("all managed", MANAGED, MANAGED_ADVISED), ("temporaries asynchronous", HYBRID, HYBRID_ADVISED)):
                gain = samples.ratio("fits", percent, advised, plain, row)
                if gain:
                    lines.append(f"Advice, {label}: {gain:.2f} x the time without.")
    return lines


def latency_table(samples, part, percent, title):
    rows = samples.rows(part, percent)
    lines = ["", f"### {title}", "", "| scheme | " + " | ".join(rows) + " |", "|---" * (len(rows) + 1) + "|"]
    for scheme in samples.schemes(part, percent):
        cells = []
        for row in rows:
            figure = samples.stats(part, percent, scheme, row)
            cells.append("-" if not figure else f"{figure['median']:.3f} ({figure['min']:.3f}-{figure['max']:.3f}, sd {figure['std']:.3f}; "
                                                f"first {figure['first']:.3f})")
        lines.append(f"| {scheme} | " + " | ".join(cells) + " |")
    return lines


def ratio_tables(ratios):
    lines = []
    for one in ratios:
        what = "beyond the limit" if one["beyond"] else "natively"
        lines += ["", f"### {one['percent']} % of {one['budget'] / MIB:.0f} MiB, blocks of {one['block']} bytes, {what}", "",
                  "| operation | async % | async MiB | allocation ms | copy ms | kernel ms (min-max, sd) | free ms |", "|---" * 7 + "|"]
        for operation, ratio in dict.fromkeys((run["operation"], run["ratio"]) for run in one["runs"]):
            runs = [run for run in one["runs"] if (run["operation"], run["ratio"]) == (operation, ratio)]
            kernels = [value for run in runs for value in run["kernel_ms"]]
            middle = {key: statistics.median(run[key] for run in runs) for key in ("alloc_ms", "copy_ms", "free_ms")}
            lines.append(f"| {operation} | {ratio} | {runs[0]['async_bytes'] / MIB:.1f} | {middle['alloc_ms']:.3f} | "
                         f"{middle['copy_ms']:.3f} | {statistics.median(kernels):.4f} ({min(kernels):.4f}-{max(kernels):.4f}, "
                         f"{statistics.pstdev(kernels):.4f}) | {middle['free_ms']:.3f} |")
    return lines


def lifetime_lines(lifetimes):
    lines = []
    for name, one in lifetimes.items():
        lines += ["", f"### `{name}`: {one['objects']} objects, {100 * one['below_second']:.1f} % live less than a second", "",
                  "| N, s | objects below | peak of those, MiB | peak of the others, MiB |", "|---|---|---|---|"]
        lines += [f"| {row['seconds']:g} | {row['objects']} | {row['async_peak'] / MIB:.1f} | {row['managed_peak'] / MIB:.1f} |"
                  for row in one["thresholds"]]
    return lines


def markdown(document):
    samples = Samples(document["samples"])
    about = ", ".join([f"Commit {document['commit']}", f"GPU {document['gpu']}", f"driver {document['driver']}",
                       f"{document['rounds']} rounds", *(["simulated CUDA: times mean nothing"] if document["simulated"] else [])])
    lines = ["# Hybrid allocation, measured", "", f"{about}. Schemes take turns within a round; "
             "milliseconds from an idle device to an idle device: median (min-max, sd = standard deviation of iterations; first = first "
             "iteration of a process). Names with `cudaMalloc` and `hybrid source` are what the program's own calls give; the others are policies "
             "of the library under the program that knows only cudaMalloc.", "", "| target | value | limit | verdict |", "|---|---|---|---|"]
    for one in document["targets"]:
        value = "-" if one["value"] is None else f"{one['value']:.3f} {one['unit']}"
        lines.append(f"| {one['target']} | {value} | {one['limit']:.3f} | {one['verdict']}{', ' + one['note'] if one['note'] else ''} |")
    lines += story(samples)
    budget = document["budget"] / MIB
    lines += ["", "## Operations"]
    for percent in samples.places("fits"):
        lines += latency_table(samples, "fits", percent, f"Lasting data of {percent} % of {budget:.0f} MiB, no limit")
    lines += ["", f"## Beyond the card: `GPUMEM_LIMIT` of {budget:.0f} MiB, `GPUMEM_OOM=trim,host,fail`", "",
              "What does not fit lies in host NUMA memory that the device reads over the bus; nothing migrates."]
    for percent in samples.places("beyond"):
        lines += latency_table(samples, "beyond", percent, f"Lasting data of {percent} %")
    lines += ["", "## Sequences"]
    for name in samples.places("sequence"):
        lines += latency_table(samples, "sequence", name, name)
    for percent in samples.places("sweep"):
        lines += latency_table(samples, "sweep", percent, f"Range X of the active list, lifetime N of plans, {percent} %")
    lines += ["", "## Lifetimes", *lifetime_lines(document["lifetimes"]), "", "## Ratios of asynchronous to managed memory",
              *ratio_tables(document["ratios"])]
    for title, notes in (("Failed", document["failed"].items()), ("Left out", ((one, "") for one in document["left_out"]))):
        notes = list(notes)
        if notes:
            lines += ["", f"## {title}", "", *(f"- {what}{': ' + why if why else ''}" for what, why in notes)]
    return "\n".join(lines) + "\n"
