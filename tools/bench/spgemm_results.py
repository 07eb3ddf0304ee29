"""What a run of spgemm.py found, by matrix and way, and the tables of the thesis beside it."""

import csv
import math
import pathlib

import spgemm_warps

SIZES = [8, 16, 32, 48, 64, 96, 128, 256]  # size_per_row of the thesis (4.1)
MODES = ["upper-bound", "precise"]

# Memory efficiency in % and rounds of the growing loop, from the sizes of C's rows: what the mode rounds must find on the matrices that
# are made exactly.
GOLDEN = {
    "atmosmodl": [(79.36, 4), (76.58, 2), (76.54, 1), (51.02, 1), (38.27, 1), (25.51, 1), (19.13, 1), (9.57, 1)],
    "cage14": [(97.80, 81), (95.33, 41), (91.15, 21), (86.79, 14), (83.49, 11), (76.91, 7), (72.08, 6), (54.77, 3)],
    "nlpkkt80": [(99.78, 19), (94.77, 10), (94.42, 5), (79.39, 4), (79.59, 3), (77.36, 2), (61.15, 2), (56.87, 1)],
}


def thesis():
    """Rows of its tables 5.1 and 5.2 by data set. Its times are microseconds, which table 5.1 calls ms."""
    with open(pathlib.Path(__file__).with_name("thesis_spgemm.csv"), newline="") as file:
        return {row["dataset"]: row for row in csv.DictReader(file)}


def claimed(percent):
    """Whether the thesis' claim speaks of such an efficiency."""
    return 70 <= percent < 99.5


class Ways:
    """Figures by (matrix, kernel, way). A way is "precise", "cusparse:alg1", "rounds 64 vmm", "rounds auto vmm", ..."""

    def __init__(self, figures=None):
        self.figures = figures or {}

    def get(self, matrix, way, kernel="hash"):
        figure = self.figures.get(f"{matrix}|{kernel}|{way}")
        return None if figure is None or "error" in figure else figure

    def error(self, matrix, way, kernel="hash"):
        return (self.figures.get(f"{matrix}|{kernel}|{way}") or {}).get("error")

    def matrices(self):
        return list(dict.fromkeys(key.split("|")[0] for key in self.figures))

    def rounds(self, matrix, kernel="hash", vector="vmm"):
        """(size_per_row, figure) in the order of sizes; of a size that was also chosen, the faster."""
        found = {}
        for key, figure in self.figures.items():
            name, by, way = key.split("|")
            if (name, by) == (matrix, kernel) and way.startswith("rounds ") and way.endswith(" " + vector) and "error" not in figure:
                size = int(figure.get("size_per_row", 0) if way.split()[1] == "auto" else way.split()[1])
                if size not in found or figure["ms_median"] < found[size]["ms_median"]:
                    found[size] = figure
        return sorted(found.items())

    def best(self, matrix, kernel="hash", took=lambda figure: figure["ms_median"]):
        """The fastest rounds of 70 to 99 % efficiency, the thesis' claim (5.1): (size_per_row, figure)."""
        fit = [(size, figure) for size, figure in self.rounds(matrix, kernel) if claimed(figure["efficiency"])]
        return min(fit, key=lambda one: took(one[1]), default=None)

    def kernels(self):
        return [kernel for kernel in ("hash", "thesis") if any(f"|{kernel}|" in key for key in self.figures)]


def geometric(values):
    values = [value for value in values if value and value > 0]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def cell(value, form="{:.2f}"):
    return "-" if value is None else form.format(value)


def table(head, rows):
    rows = [head, *[[str(value) for value in row] for row in rows]]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    return "\n".join("  ".join(value.ljust(width) if i == 0 else value.rjust(width) for i, (value, width) in enumerate(zip(row, widths)))
                     for row in rows)


def share(figure):
    return 100 * figure["estimate_ms"] / figure["ms_median"] if figure else None


def table_51(ways, kernel):
    known, rows, shares = thesis(), [], []
    for matrix in ways.matrices():
        precise = ways.get(matrix, "precise", kernel)
        if not precise:
            continue
        published = known.get(matrix.replace("twin-", ""))
        before = 100 * float(published["precise_estimate_time"]) / float(published["precise_total_time"]) if published and published["precise_total_time"] else None
        shares.append(share(precise))
        rows.append([matrix, cell(precise["estimate_ms"], "{:.3f}"), cell(precise["ms_median"], "{:.3f}"), cell(share(precise), "{:.1f}"),
                     cell(float(published["precise_estimate_time"]) / 1e3 if before else None), cell(float(published["precise_total_time"]) / 1e3 if before else None),
                     cell(before, "{:.1f}")])
    rows.append(["geometric mean", "", "", cell(geometric(shares), "{:.1f}"), "", "", "61.46"])
    return table(["precise", "estimate ms", "total ms", "share %", "thesis: estimate ms", "total ms", "share %"], rows)


def table_52(ways):
    known, rows, factors = thesis(), [], []
    for matrix in ways.matrices():
        upper = next((figure for kernel in ("hash", "thesis") if (figure := ways.get(matrix, "upper-bound", kernel))), None)
        precise = ways.get(matrix, "precise") or upper
        if not precise:
            continue
        entries = upper["entries"] if upper else None
        factor = entries / upper["nnz_c"] if upper and upper["nnz_c"] else None
        factors.append(factor)
        published = known.get(matrix.replace("twin-", ""), {})
        rows.append([matrix, precise["nnz_c"], entries or ways.error(matrix, "upper-bound") or "-", cell(factor, "{:.3f}"),
                     *(published.get(name) or "-" for name in ("nnz_c", "upper_bound", "overestimation"))])
    rows.append(["geometric mean", "", "", cell(geometric(factors), "{:.3f}"), "", "", "7.018"])
    return table(["upper bound", "nnz(C)", "places", "factor", "thesis: nnz(C)", "places", "factor"], rows)


def table_times(ways, kernel):
    """Figure 5.1 in numbers: ms, and efficiency of rounds in %."""
    rows = []
    for matrix in ways.matrices():
        row = [matrix]
        for way in ("upper-bound", "precise"):
            figure = ways.get(matrix, way, kernel)
            row.append(cell(figure["ms_median"], "{:.3f}") if figure else "memory" if ways.error(matrix, way, kernel) else "-")
        for size in [*SIZES, "auto"]:
            figure = ways.get(matrix, f"rounds {size} vmm", kernel)
            row.append(f"{figure['ms_median']:.3f} {figure['efficiency']:.0f}%/{figure['rounds']:.0f}" if figure else "-")
        if len([value for value in row if value != "-"]) > 1:
            rows.append(row)
    return table([f"kernel {kernel}: ms eff%/rounds", "upper-bound", "precise", *map(str, SIZES), "auto"], rows) if rows else ""


def table_vectors(ways, kernel):
    """Figure 5.3 in numbers: what growing takes by a vector that maps, by one that copies, and how many times the whole call takes."""
    rows = []
    for matrix in ways.matrices():
        pairs = [(size, figure, ways.get(matrix, f"rounds {size} copy", kernel)) for size, figure in ways.rounds(matrix, kernel)]
        row = {size: f"{vmm.get('grow_ms', 0):.2f} {copy.get('grow_ms', 0):.2f} {copy['ms_median'] / vmm['ms_median']:.2f}x" for size, vmm, copy in pairs if copy}
        if row:
            rows.append([matrix, *[row.get(size, "-") for size in SIZES]])
    return table([f"kernel {kernel}: grow ms vmm, copy, call copy/vmm", *map(str, SIZES)], rows) if rows else ""


def table_estimates(ways):
    """Both estimators of nnz(C): off by %, ms."""
    rows = []
    for matrix in ways.matrices():
        figure = ways.get(matrix, "rounds auto vmm")
        if figure and "cohen_nnz_c" in figure:
            off = [100 * (figure[f"{name}_nnz_c"] / figure["nnz_c"] - 1) if figure["nnz_c"] else 0 for name in ("sampled", "cohen")]
            rows.append([matrix, f"{off[0]:+.2f}", f"{figure['sampled_ms']:.3f}", f"{off[1]:+.2f}", f"{figure['cohen_ms']:.3f}",
                         f"{figure['ms_median']:.3f}"])
    return table(["", "sampled: off %", "ms", "Cohen: off %", "ms", "rounds auto ms"], rows) if rows else ""


def table_peers(ways):
    """Whole calls beside cuSPARSE: ms / peak MiB."""
    rows = []
    names = ["cusparse:alg1", "cusparse:alg2", "cusparse:alg3", "upper-bound", "precise", "rounds auto vmm"]
    for matrix in ways.matrices():
        row = [matrix]
        for way in names:
            figure = ways.get(matrix, way)
            row.append(f"{figure['ms_median']:.2f} / {figure['peak_bytes'] / 2**20:.0f}" if figure else "memory" if ways.error(matrix, way) else "-")
        rows.append(row)
    return table(["ms / peak MiB", *names], rows)


def claim(ways, kernel):
    """Per matrix: the fastest rounds of 70 to 99 % efficiency beside precise. (matrix, size or None, its figure, precise's)"""
    found = [(m, ways.best(m, kernel), ways.get(m, "precise", kernel)) for m in ways.matrices()]
    return [(m, *(best or (None, None)), precise) for m, best, precise in found if precise and ways.rounds(m, kernel)]


def won(figure, precise):
    return bool(figure) and figure["ms_median"] < precise["ms_median"]


def with_trim(figure):
    return figure["ms_median"] + figure.get("trim_ms", 0)


def won_with_trim(ways, kernel, matrices):
    """Of them, those where rounds wins with giving back places counted in, which comes behind C."""
    best = {m: ways.best(m, kernel, with_trim) for m in matrices}
    return [m for m in matrices if best[m] and with_trim(best[m][1]) < with_trim(ways.get(m, "precise", kernel))]


def table_claim(ways, kernel):
    rows = []
    for matrix, size, figure, precise in claim(ways, kernel):
        auto = ways.get(matrix, "rounds auto vmm", kernel)
        rows.append([matrix, size or "-", cell(figure and figure["efficiency"], "{:.1f}"), cell(figure and figure["ms_median"], "{:.3f}"),
                     f"{precise['ms_median']:.3f}", cell(figure and precise["ms_median"] / figure["ms_median"], "{:.2f}"),
                     "won" if won(figure, precise) else "lost" if figure else "lost: no size in the range", cell(auto and auto["ms_median"], "{:.3f}")])
    return table([f"kernel {kernel}: fastest of 70 to 99 %", "size_per_row", "eff %", "rounds ms", "precise ms", "precise/rounds", "", "rounds auto ms"],
                 rows) if rows else ""


def verdicts(ways):
    """Lines that say what holds of what is claimed."""
    lines = []
    for matrix, expected in GOLDEN.items():
        for kernel in ways.kernels():
            found = {size: figure for size in SIZES if (figure := ways.get(matrix, f"rounds {size} vmm", kernel))}
            pairs = [(found[size], golden) for size, golden in zip(SIZES, expected) if size in found]
            wrong = [figure for figure, golden in pairs if (round(figure["efficiency"], 2), figure["rounds"]) != golden]
            if pairs:
                lines.append(f"golden figures of {matrix}, kernel {kernel}: {len(pairs) - len(wrong)} of {len(pairs)} hit")
    for kernel in ways.kernels():
        both = claim(ways, kernel)
        losses = [one for one in both if not won(*one[2:])]
        regular, skewed = ([one for one in both if one[0].startswith("rmat") == is_skewed] for is_skewed in (False, True))
        if regular:
            lines.append(f"kernel {kernel}: rounds of 70 to 99 % efficiency beat precise on {sum(one not in losses for one in regular)} of {len(regular)} "
                         "(thesis: 17 of 20)" + "".join(f"; {one[0]}: {'lost' if one in losses else 'won'}" for one in skewed))
            if any("trim_ms" in figure for _, _, figure, _ in regular if figure):
                names = [one[0] for one in regular]
                lines.append(f"  with giving back places counted in: {len(won_with_trim(ways, kernel, names))} of {len(names)}")
        for m, size, figure, precise in losses:
            lines.append(f"  lost: {m}, " + (f"size {size}: {figure['ms_median']:.3f} ms to {precise['ms_median']:.3f}" if figure
                                             else "no size is in that range"))
    ratios = [ways.get(m, "cusparse:alg1")["ms_median"] / ways.get(m, "rounds auto vmm")["ms_median"] for m in ways.matrices()
              if ways.get(m, "cusparse:alg1") and ways.get(m, "rounds auto vmm")]
    if ratios:
        lines.append(f"rounds (auto) over cuSPARSE alg1, geometric mean of {len(ratios)}: {geometric(ratios):.2f} x")
    return lines


def text(about, ways):
    parts = [f"SpGEMM: {about['gpu']}, driver {about['driver']}, commit {about['commit']}, {about['precision']}; medians; runs: {about['runs']}",
             "Table 5.2: upper bound", table_52(ways)]
    for kernel in ways.kernels():
        parts += [f"Table 5.1: what counting first takes, kernel {kernel}", table_51(ways, kernel), "Figure 5.1", table_times(ways, kernel),
                  f"Rounds beside precise (5.1), kernel {kernel}", table_claim(ways, kernel), "Figure 5.3", table_vectors(ways, kernel)]
    if about.get("warps"):
        parts += ["Figure 5.2: active warps of a multiprocessor (Nsight Compute)",
                  table(["", "calls", "mean", "least", "most", "of peak %"], list(spgemm_warps.rows(about["warps"])))]
    elif about.get("no_warps"):
        parts.append(f"Figure 5.2: skipped: {about['no_warps']}")
    if estimates := table_estimates(ways):
        parts += ["Estimates of nnz(C) on the GPU", estimates]
    parts += ["Whole calls", table_peers(ways)]
    if about.get("limited"):
        parts += ["Under a limit", "\n".join(about["limited"])]
    return "\n\n".join(part for part in [*parts, "\n".join(verdicts(ways))] if part)


def shortened(names, most=8):
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def table_brief(ways, kernel):
    """A line for each matrix: what the claim compares, beside cuSPARSE and the peaks."""
    rows = []
    for matrix, size, figure, precise in claim(ways, kernel):
        auto, upper, peer = ways.get(matrix, "rounds auto vmm", kernel), ways.get(matrix, "upper-bound", kernel), ways.get(matrix, "cusparse:alg1")
        rows.append([matrix, cell(upper and upper["ms_median"]), f"{precise['ms_median']:.2f}", cell(share(precise), "{:.0f}"), size or "-",
                     f"{figure['efficiency']:.1f}/{figure['rounds']:.0f}" if figure else "-", cell(figure and figure["ms_median"]),
                     cell(figure and figure.get("grow_ms")), cell(figure and figure.get("compact_ms")), cell(figure and figure.get("trim_ms")),
                     cell(figure and precise["ms_median"] / figure["ms_median"]), "won" if won(figure, precise) else "lost",
                     f"{auto['size_per_row']:.0f}: {auto['ms_median']:.2f}" if auto else "-", cell(peer and peer["ms_median"] if kernel == "hash" else None),
                     "/".join(f"{one['peak_bytes'] / 2**20:.0f}" if one else "-" for one in (precise, figure, auto))])
    return table([f"kernel {kernel}", "upper", "precise", "count %", "size", "eff %/rounds", "rounds", "grow", "compact", "trim", "precise/rounds", "", "auto", "alg1",
                  "peak MiB"], rows) if rows else ""


def brief(about, ways):
    """What was found, in at most 60 lines."""
    lines = [f"SpGEMM: {about['gpu']}, driver {about['driver']}, commit {about['commit'][:12]}, {about['precision']}; ms, medians; runs: {about['runs']}",
             "peak: precise, the fastest rounds of 70 to 99 %, auto"]
    lines += [table_brief(ways, kernel) for kernel in ways.kernels()]
    lines += [f"active warps, {' '.join(map(str, row))}" for row in spgemm_warps.rows(about.get("warps") or {})]
    if about.get("no_warps"):
        lines.append(f"active warps: {about['no_warps'][:300]}")
    lines += [line[:160] for line in about.get("limited") or []]
    lines += [line for line in verdicts(ways) if not line.startswith("  lost")]
    lines += [f"failed: {what}: {why[:200]}" for what, why in list((about.get("failed") or {}).items())[:5]]
    if about.get("left_out"):
        lines.append(f"left out ({len(about['left_out'])}): {shortened(about['left_out'])}")
    return "\n".join(line for line in lines if line)
