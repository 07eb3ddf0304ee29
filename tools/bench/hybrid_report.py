"""Figures of hybrid.py: iterations by scheme and row, round by round; the targets; tables as Markdown."""

import statistics

from figure_text import MIB, block, items, span, titled
from hybrid_schemes import ACTIVE, ASYNC, AUTO, HYBRID, HYBRID_ADVISED, MANAGED, MANAGED_ADVISED, NATIVE, ORDER
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


# ---- blocks of documents

PUBLISHED = "*-hybrid*.json"
BOOTSTRAP, NETWORK = ("sequence", "bootstrap", "large bootstrap"), ("sequence", "resnet", "medium resnet")
MULTIPLY, BEYOND = ("fits", 50, "large multiply"), ("beyond", 150, "large multiply")


class Hybrid:
    def __init__(self, run):
        self.samples = Samples(run["samples"])

    def ms(self, scheme, place, which="median"):
        """None where the scheme has no figures there."""
        part, percent, row = place
        return (self.samples.stats(part, percent, scheme, row) or {}).get(which)

    def unsteady(self, scheme):
        return f"{self.ms(scheme, MULTIPLY, 'max') / self.ms(scheme, MULTIPLY, 'min'):.2f}"


@block(PUBLISHED)
def hybrid(run):
    figures, rows = Hybrid(run), []
    for scheme in figures.samples.schemes(*MULTIPLY[:2]):
        sequences = [figures.ms(scheme, place) for place in (BOOTSTRAP, NETWORK)]
        rows.append([f"`{scheme}`" if scheme in ("auto", "cache", "active-list", "plan") else scheme, f"{figures.ms(scheme, MULTIPLY):.3f}",
                     figures.unsteady(scheme), *["-" if ms is None else f"{ms:.1f}" for ms in sequences]])
    return titled(f"{run.made}, {run['rounds']} rounds ({run.file}):",
                  ["scheme", "multiplication, ms", "slowest / fastest", "bootstrap-like, ms", "network-like, ms"], rows)


@block(PUBLISHED)
def hybrid_story(run):
    figures, lives = Hybrid(run), run["lifetimes"]
    multiply, bootstrap, first = ({scheme: figures.ms(scheme, place, which) for scheme in figures.samples.schemes(*place[:2])}
                                  for place, which in ((MULTIPLY, "median"), (BOOTSTRAP, "median"), (MULTIPLY, "first")))
    beyond = {scheme: figures.ms(scheme, BEYOND) for scheme in figures.samples.schemes(*BEYOND[:2])}
    shorter = {name: {row["seconds"]: row["objects"] for row in one["thresholds"]} for name, one in lives.items()}
    network = shorter["resnet"]
    to_async, to_managed, to_best = (next(one["value"] for one in run["targets"] if one["target"].startswith(what) and ", 50 %" in one["target"])
                                     for what in ("active-list against cudaMallocAsync", "active-list against cudaMallocManaged", "auto against"))
    ratios = next(one for one in run["ratios"] if one["percent"] == 95)
    chunks = [one for one in ratios["runs"] if one["operation"] == "add"]
    shares = list(dict.fromkeys(one["ratio"] for one in chunks))

    def middle(share, key):
        return statistics.median(one[key] for one in chunks if one["ratio"] == share)

    kernels = [statistics.median(ms for one in chunks if one["ratio"] == share for ms in one["kernel_ms"]) for share in shares]
    return items(
        f"""The paper's multiplication went from 4.8 ms with asynchronous to 24 ms with managed memory. This one goes from
        {multiply['cudaMallocAsync']:.2f} ms to {multiply['cudaMallocManaged']:.1f} ms,
        {figures.samples.ratio(*MULTIPLY[:2], 'cudaMallocManaged', 'cudaMallocAsync', MULTIPLY[2]):.0f} x.""",
        f"""A program that knows only `cudaMalloc` takes, over all operations, {to_async:.2f} x of the asynchronous source and
        {to_managed:.2f} x of the managed one under `active-list`, and {to_best:.2f} x of the better native source under `auto`.""",
        f"""The bootstrap-like sequence is {100 * (bootstrap['auto'] / bootstrap['cudaMallocAsync'] - 1):.0f} % slower under `auto` than with the
        asynchronous source: a miss.""",
        f"""First iteration of a process: {first['auto']:.3f} ms under `auto`, {first['active-list']:.3f} ms under `active-list`,
        {first['managed pool']:.3f} ms with the managed pool.""",
        f"""Lifetimes: all {lives['bootstrap']['objects']} objects of the bootstrap-like sequence live less than 1 s,
        {shorter['bootstrap'][0.5]} of them less than 0.5 s. Of the {lives['resnet']['objects']} objects of the network-like sequence
        {network[4] - network[2]} live 2 to 4 s, the others less than {'0.125' if network[2] == network[0.125] else '2'} s. The paper's
        threshold of 1 s parts the second sequence, not the first; in the paper 8 % of the objects lived longer.""",
        f"""Ratios of asynchronous to managed memory, data of {ratios['percent']} % of {ratios['budget'] // MIB} MiB, operation add: from
        {shares[0]} % to {shares[-1]} % asynchronous, frees go from {middle(shares[0], 'free_ms'):.1f} to {middle(shares[-1], 'free_ms'):.1f} ms
        and copies from {middle(shares[0], 'copy_ms'):.1f} to {middle(shares[-1], 'copy_ms'):.1f} ms; kernels take
        {span(kernels, '{:.3f}')} ms at every ratio. The paper says both that higher ratios help and that they hurt.""",
        f"""Beyond the card (lasting data of 150 % of the limit, the excess in host memory): every policy ends with right results, a
        multiplication takes {span(beyond.values(), '{:.0f}')} ms, {span([ms / multiply[scheme] for scheme, ms in beyond.items()], '{:.0f}')} x
        the time within the card.""")
