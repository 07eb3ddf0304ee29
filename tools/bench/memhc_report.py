"""Tables and verdicts of a run of memhc.py, from its points; ratios of the paper stand beside ours."""

import collections
import csv
import math
import pathlib

from figure_text import block, items, table, titled
from memhc_points import BASELINE, FULL, FUNCTIONS, PERCENTS, PINNED, POLICIES, RATES, SIZES, SLOW, STEPS, UNIFIED, WITHOUT

PAPER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "contract" / "eviction" / "memhc_eviction.csv"
# What the paper prints: least and most, or one number.
PAPER_FIGURE_7 = {(384, "rate"): (2.18, 3.62), (384, "size"): (2.39, 3.86), (192, "rate"): (3.26, 9.67), (192, "size"): (2.17, 10.73)}
PAPER_UNIFIED_SHARE, PAPER_ZGEMM_SHARE = (61.4, 70.5), (61.4, 94.8)
PAPER_FUNCTIONS = {"a1_rhopi": 3.56, "f0d2": 6.06, "f0d4": 6.12}

Verdict = collections.namedtuple("Verdict", "name value limit met")


def geometric(values):
    return math.exp(sum(map(math.log, values)) / len(values))


class Points:
    """The CSV rows that were measured, by name of the point."""

    def __init__(self, rows):
        self.rows = rows

    def get(self, *parts):
        return self.rows.get("|".join(map(str, parts)))

    def gflops(self, *parts):
        row = self.get(*parts)
        return float(row["gflops"]) if row else None

    def ratio(self, over, under):
        """Of the GFLOP/s of two points; None where one is missing."""
        a, b = self.gflops(*over), self.gflops(*under)
        return a / b if a and b else None

    def tensors(self):
        return sorted({int(name.split("|")[1]) for name in self.rows if name.startswith("vectors|")})

    def swept(self):
        """The tensors of figure 7: those of figure 10 alone have one vector size and one rate."""
        return [tensor for tensor in self.tensors() if len({name for name in self.rows if name.startswith(f"vectors|{tensor}|")
                                                            and name.endswith(f"|{FULL}")}) > 1]

    def speedups(self, tensor, places, under=BASELINE):
        """{(size, rate): ratio of the full version to unified memory}"""
        found = {place: self.ratio(("vectors", tensor, *place, FULL), ("vectors", tensor, *place, under)) for place in places}
        return {place: ratio for place, ratio in found.items() if ratio}


def spread(row):
    """Half of the range of a row's loops, in percent of the mean."""
    return 50 * (float(row["seconds_max"]) - float(row["seconds_min"])) / float(row["seconds"])


def number(value, form="{:.1f}"):
    return "-" if value is None else form.format(value)


def by_size(tensor):
    return [(size, "1/1") for size in SIZES]


def by_rate(tensor):
    return [(16, rate) for rate in RATES]


def figure_7(points):
    rows = []
    for tensor in points.swept():
        for kind, places in (("rate", by_rate(tensor)), ("size", by_size(tensor))):
            paper = PAPER_FIGURE_7.get((tensor, kind))
            for size, rate in places:
                at = ("vectors", tensor, size, rate)
                row = points.get(*at, FULL)
                baseline, anew, kept, pinned = [points.gflops(*at, variant) for variant in (BASELINE, UNIFIED, "unified_kept", PINNED)]
                if not row or not (baseline or anew):
                    continue
                rows.append([tensor, size, rate, number(baseline), number(float(row["gflops"])), number(spread(row)),
                             number(points.ratio((*at, FULL), (*at, BASELINE)), "{:.2f}"), "{} to {}".format(*paper) if paper else "-",
                             number(anew), number(points.ratio((*at, FULL), (*at, UNIFIED)), "{:.2f}"), number(kept), number(pinned)])
    return table(["tensor", "vector size", "repeated", "unified GFLOP/s", "full GFLOP/s", "+- %", "ratio", "paper", "unified, made anew",
                  "ratio", "unified, no advice", "full, pinned"], rows) if rows else ""


def figure_8(points):
    rows = []
    for tensor in points.tensors():
        for size in (4, 16):
            for rate in RATES:
                naive = points.gflops("vectors", tensor, size, rate, "explicit_naive")
                for variant in [*STEPS, *WITHOUT] if naive else []:
                    row = points.get("vectors", tensor, size, rate, variant)
                    if row:
                        times = [number(float(row[key]), "{:.3f}") if row[key] else "-"
                                 for key in ("allocate_s", "transfer_s", "evict_s", "seconds")]
                        rows.append([tensor, size, rate, variant, number(float(row["gflops"])), number(float(row["gflops"]) / naive, "{:.2f}"),
                                     *times, row["allocations"], number(float(row["h2d_bytes"]) / 1e9, "{:.2f}"),
                                     number(float(row["d2h_bytes"]) / 1e9, "{:.2f}")])
    return table(["tensor", "vector size", "repeated", "version", "GFLOP/s", "to explicit naive", "allocate s", "transfer s", "evict s",
                  "loop s", "allocations", "to device GB", "to host GB"], rows) if rows else ""


def figure_10(points):
    rows = []
    for tensor in points.tensors():
        at = ("vectors", tensor, 16, "1/1")
        full, zgemm = points.gflops(*at, FULL), points.gflops(*at, "zgemm")
        if not full or not zgemm:
            continue
        shares = [points.ratio((*at, what), (*at, FULL)) for what in (BASELINE, "extra copies", UNIFIED)]
        rows.append([tensor, number(zgemm), number(full), number(100 * full / zgemm), *(number(100 * one if one else None) for one in shares)])
    return table(["tensor", "zgemm GFLOP/s", "contraction GFLOP/s", "% of zgemm (paper 61.4 to 94.8)", "unified, % of explicit (paper 61.4 to 70.5)",
                  "extra copies, % of explicit", "unified, made anew, % of explicit"], rows) if rows else ""


def paper_rows():
    with open(PAPER, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def paper_ratio(row):
    """GFLOP/s of Pre-Protected LRU over those of a row of LRU."""
    best = next(one for one in paper_rows() if one["policy"] == "preprotected_lru" and
                all(one[key] == row[key] for key in ("vector_size", "oversubscription_pct", "repeated_rate")))
    return float(best["gflops_p100"]) / float(row["gflops_p100"])


def eviction_pairs(points):
    """(paper's row, our row of LRU, our row of Pre-Protected LRU)"""
    for row in paper_rows():
        if row["policy"].startswith("lru_"):
            at = ("evict", row["vector_size"], row["oversubscription_pct"], row["repeated_rate"])
            distribution = row["policy"][len("lru_"):]
            ours, best = points.get(*at, "lru", distribution), points.get(*at, "preprotected_lru", distribution)
            if ours and best:
                yield row, ours, best


def tables_1_to_3(points):
    rows = [[row["table"], row["vector_size"], row["oversubscription_pct"], row["repeated_rate"], row["policy"], ours["evictions"], row["evictions"],
             best["evictions"], *(f"{float(one['gflops']):.1f} +- {spread(one):.0f} %" for one in (ours, best)), number(float(best["gflops"]) / float(ours["gflops"]), "{:.2f}"),
             number(paper_ratio(row), "{:.2f}")] for row, ours, best in eviction_pairs(points)]
    return table(["table", "vector size", "oversubscription %", "repeated", "policy", "evictions", "paper", "Pre-Protected evicts", "GFLOP/s",
                  "Pre-Protected", "ratio", "paper"], rows) if rows else ""


def slow_pairs(points):
    """(paper's row, our row of LRU, our row of Pre-Protected LRU) over the slow link, uniform."""
    for row in paper_rows():
        at = ("evict", row["vector_size"], row["oversubscription_pct"], row["repeated_rate"])
        ours, best = points.get(*at, "lru", "uniform", "slow"), points.get(*at, "preprotected_lru", "uniform", "slow")
        if row["policy"] == "lru_uniform" and ours and best:
            yield row, ours, best


def slow_link(points):
    rows = [[row["table"], row["vector_size"], row["oversubscription_pct"], row["repeated_rate"],
             *(f"{float(one['gflops']):.1f} +- {spread(one):.0f} %" for one in (ours, best)),
             number(float(best["gflops"]) / float(ours["gflops"]), "{:.2f}"), number(paper_ratio(row), "{:.2f}")]
            for row, ours, best in slow_pairs(points)]
    return table(["table", "vector size", "oversubscription %", "repeated", "LRU GFLOP/s", "Pre-Protected", "ratio", "paper"], rows) if rows else ""


def figure_11(points):
    rows = []
    for distribution in ("uniform", "gaussian"):
        for percent in PERCENTS:
            found = {policy: points.get("evict", 64, percent, "1/2", policy, distribution) for policy in POLICIES}
            if found["preprotected_lru"]:
                rows.append([distribution, percent, *(f"{float(row['gflops']):.0f} / {float(row['evictions']):.0f}" if row else "-"
                                                      for row in found.values())])
    return table(["distribution", "oversubscription %", *POLICIES], rows) if rows else ""


def table_5(points):
    rows = []
    for name in FUNCTIONS:
        full = points.get("function", name, FULL)
        speedups = [points.ratio(("function", name, FULL), ("function", name, variant)) for variant in (BASELINE, UNIFIED)]
        if full and any(speedups):
            unified = [points.gflops("function", name, variant) for variant in (BASELINE, UNIFIED)]
            rows.append([name, full["scale_pct"], full["tensor"], full["contractions"], number(float(full["gflops"])), number(unified[0]),
                         number(speedups[0], "{:.2f}"), PAPER_FUNCTIONS[name], number(unified[1]), number(speedups[1], "{:.2f}")])
    return table(["function", "scale %", "tensor", "contractions", "full GFLOP/s", "unified GFLOP/s", "speed-up", "paper", "unified, made anew",
                  "speed-up"], rows) if rows else ""


def verdicts(points):
    """Verdicts that the points suffice for."""
    every = [ratio for tensor in points.tensors() for ratio in points.speedups(tensor, by_size(tensor) + by_rate(tensor)).values()]
    if every:
        yield Verdict("full over unified memory, least of all points", min(every), ">= 2.2 x", min(every) >= 2.2)
    at_192 = points.speedups(192, by_size(192)).values()
    if at_192:
        mean = geometric(at_192)
        yield Verdict("full over unified memory, tensor 192, 100 % repeated, geometric mean", mean, ">= 6 x", mean >= 6)
    pairs = list(eviction_pairs(points))
    if pairs:
        ratios = [float(best["gflops"]) / float(ours["gflops"]) for _, ours, best in pairs]
        fewer = sum(float(best["evictions"]) < float(ours["evictions"]) for _, ours, best in pairs)
        yield Verdict("Pre-Protected LRU over LRU in GFLOP/s, mean (paper 1.21 x, 1.12 to 1.36)", sum(ratios) / len(ratios), "> 1 x",
                      sum(ratios) / len(ratios) > 1)
        slow = [float(best["gflops"]) / float(ours["gflops"]) for _, ours, best in slow_pairs(points)]
        if slow:
            yield Verdict(f"Pre-Protected LRU over LRU in GFLOP/s, mean, link {SLOW} times slower", sum(slow) / len(slow), "> 1 x",
                          sum(slow) / len(slow) > 1)
        yield Verdict("rows in which Pre-Protected LRU evicts less than LRU, share", fewer / len(pairs), "= 1 x", fewer == len(pairs))


def steps_story(points):
    """What each step of figure 8 gains over the one before, where all were measured."""
    for tensor in points.tensors():
        for rate in RATES:
            values = [points.gflops("vectors", tensor, 16, rate, variant) for variant in STEPS]
            if all(values):
                gains = ", ".join(f"{name} {after / before:.2f} x" for name, before, after in zip(STEPS[3:], values[2:], values[3:]))
                yield f"Tensor {tensor}, repeated {rate}, each step against the one before, from explicit_naive on: {gains}."


def kept_story(points):
    """The full version beside managed memory that stays where it is, by the memory of the host."""
    for tensor in points.tensors():
        for variant, words in ((FULL, "pageable"), (PINNED, "pinned")):
            found = [(rate, points.ratio(("vectors", tensor, 16, rate, variant), ("vectors", tensor, 16, rate, "unified_kept"))) for rate in RATES]
            found = [f"{ratio:.2f} x at {rate}" for rate, ratio in found if ratio]
            if found:
                yield (f"Tensor {tensor}, full version with {words} host memory over managed memory that is kept without advice (ours, not the "
                       f"paper's baseline), by repeated rate: {', '.join(found)}.")


def shares(points, over, under):
    found = [points.ratio(("vectors", tensor, 16, "1/1", over), ("vectors", tensor, 16, "1/1", under)) for tensor in points.tensors()]
    return [100 * one for one in found if one]


def story(points):
    """Sentences on what was measured beside what the paper says."""
    for tensor in points.swept():
        for kind, places in (("rate", by_rate(tensor)), ("size", by_size(tensor))):
            paper, by = PAPER_FIGURE_7.get((tensor, kind)), "repeated rate" if kind == "rate" else "vector size"
            for under, words, beside in ((BASELINE, "unified memory", f" (paper {paper[0]} to {paper[1]} x)" if paper else ""),
                                         (UNIFIED, "managed memory that each contraction makes anew", " (not the paper's baseline)")):
                found = list(points.speedups(tensor, places, under).values())
                if found:
                    yield (f"Full version over {words}, tensor {tensor}, by {by}: {min(found):.2f} to {max(found):.2f} x, geometric mean "
                           f"{geometric(found):.2f} x{beside}.")
    yield from kept_story(points)
    yield from steps_story(points)
    for over, under, words, paper in ((BASELINE, FULL, "Unified memory reaches", PAPER_UNIFIED_SHARE),
                                      ("extra copies", FULL, "Explicit memory with extra copies reaches", PAPER_UNIFIED_SHARE),
                                      (FULL, "zgemm", "The contraction reaches", PAPER_ZGEMM_SHARE)):
        found = shares(points, over, under)
        if found:
            yield (f"{words} {min(found):.0f} to {max(found):.0f} % of {'zgemm alone' if under == 'zgemm' else 'the full version'} "
                   f"(paper {paper[0]} to {paper[1]} %).")
    ratios = [float(best["gflops"]) / float(ours["gflops"]) for _, ours, best in eviction_pairs(points)]
    if ratios:
        yield (f"Pre-Protected LRU over LRU in GFLOP/s, {len(ratios)} rows of tables 1 to 3: {min(ratios):.2f} to {max(ratios):.2f} x, mean "
               f"{sum(ratios) / len(ratios):.2f} x (paper 1.12 to 1.36 x, mean 1.21 x).")
    slow = [float(best["gflops"]) / float(ours["gflops"]) for _, ours, best in slow_pairs(points)]
    if slow:
        yield (f"The same over a link that is {SLOW} times slower, {len(slow)} rows: {min(slow):.2f} to {max(slow):.2f} x, mean "
               f"{sum(slow) / len(slow):.2f} x.")
    for name in FUNCTIONS:
        for under, words in ((BASELINE, f"unified memory (paper {PAPER_FUNCTIONS[name]} x)"),
                             (UNIFIED, "managed memory that each contraction makes anew (not the paper's baseline)")):
            speedup = points.ratio(("function", name, FULL), ("function", name, under))
            if speedup:
                yield f"{name}: {speedup:.2f} x of {words}."
    for verdict in verdicts(points):
        if not verdict.met:
            yield f"Missed: {verdict.name}: {verdict.value:.2f} x, the aim was {verdict.limit}."


PARTS = (("Figure 7: unified memory and the full version", figure_7), ("Figure 8: what each part gains", figure_8),
         ("Figure 10: unified memory, extra copies, and zgemm alone", figure_10), ("Tables 1 to 3: Pre-Protected LRU and LRU", tables_1_to_3),
         ("Tables 1 to 3 over a slow link", slow_link), ("Figure 11: GFLOP/s / evictions of a loop", figure_11), ("Table 5: correlation functions", table_5))


def text(document):
    points = Points(document["points"])
    lines = [f"MemHC's experiments: {document['gpu']}, driver {document['driver']}, commit {document['commit']}",
             f"{len(document['points'])} points, {document['loops']} loops (versions without reuse {document['slow'][1]} of "
             f"{document['slow'][0]} vectors), {document['seconds']:.0f} s"]
    if document["simulated"]:
        lines.append("On the simulated CUDA: times mean nothing.")
    for verdict in verdicts(points):
        lines.append(f"{'met' if verdict.met else 'MISSED'}: {verdict.name}: {verdict.value:.2f} x ({verdict.limit})")
    for title, make in PARTS:
        made = make(points)
        lines += ["", title, "", made] if made else ["", f"{title}: not measured"]
    lines += [f"left out: {name}: {why}" for name, why in document["left_out"].items()]
    lines += [f"FAILED: {name}: {why}" for name, why in document["failed"].items()]
    return "\n".join(lines)


# ---- blocks of documents

MADE_ANEW, MADE_ONCE = "*-memhc-quick.json", "*-memhc-baseline.json"


@block(MADE_ANEW)
@block(MADE_ONCE, name="memhc-baseline")
def memhc(run):
    points, rows = Points(run["points"]), []
    for tensor in points.swept():
        for size, rate in dict.fromkeys([*by_size(tensor), *by_rate(tensor)]):
            at = ("vectors", tensor, size, rate)
            made = [points.gflops(*at, variant) for variant in (BASELINE, UNIFIED, "unified_kept", FULL)]
            if made[3] and (made[0] or made[1]):
                ratios = [points.ratio((*at, FULL), (*at, under)) for under in (BASELINE, UNIFIED)]
                rows.append([tensor, size, rate, number(made[0], "{:.0f}"), number(made[3], "{:.0f}"),
                             number(ratios[0], "{:.2f}"), *(number(one, "{:.0f}") for one in made[1:3]),
                             number(ratios[1], "{:.2f}")])
    return titled(f"{run.made}, means of {run['loops']} loops, GFLOP/s ({run.file}):",
                  ["tensor", "vector size", "repeated", "unified", "full", "ratio", "made anew", "no advice", "full / made anew"], rows)


@block(MADE_ANEW)
@block(MADE_ONCE, name="memhc-baseline-story")
def memhc_story(run):
    return items(*story(Points(run["points"])))
