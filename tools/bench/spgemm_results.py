"""Results of a run of spgemm.py by matrix and method, and the tables of the thesis for comparison."""

import csv
import math
import pathlib

import spgemm_warps
from figure_text import MIB, block, items, span, titled

SIZES = [8, 16, 32, 48, 64, 96, 128, 256]  # size_per_row of the thesis (4.1)
MODES = ["upper-bound", "precise"]

# Memory efficiency in % and rounds of the growing loop, computed from the sizes of C's rows. Mode rounds must reach these figures on the
# matrices that equal those of the collection.
GOLDEN = {
    "atmosmodl": [(79.36, 4), (76.58, 2), (76.54, 1), (51.02, 1), (38.27, 1), (25.51, 1), (19.13, 1), (9.57, 1)],
    "cage14": [(97.80, 81), (95.33, 41), (91.15, 21), (86.79, 14), (83.49, 11), (76.91, 7), (72.08, 6), (54.77, 3)],
    "nlpkkt80": [(99.78, 19), (94.77, 10), (94.42, 5), (79.39, 4), (79.59, 3), (77.36, 2), (61.15, 2), (56.87, 1)],
}


def thesis():
    """Rows of the thesis' tables 5.1 and 5.2, by data set. Times are microseconds; table 5.1 calls them ms."""
    with open(pathlib.Path(__file__).with_name("thesis_spgemm.csv"), newline="") as file:
        return {row["dataset"]: row for row in csv.DictReader(file)}


def claimed(percent):
    """Whether the claim of the thesis covers this efficiency."""
    return 70 <= percent < 99.5


class Methods:
    """Figures by (matrix, kernel, method). A method is "precise", "cusparse:alg1", "rounds 64 vmm", "rounds auto vmm", ..."""

    def __init__(self, figures=None):
        self.figures = figures or {}

    def get(self, matrix, method, kernel="hash"):
        figure = self.figures.get(f"{matrix}|{kernel}|{method}")
        return None if figure is None or "error" in figure else figure

    def error(self, matrix, method, kernel="hash"):
        return (self.figures.get(f"{matrix}|{kernel}|{method}") or {}).get("error")

    def matrices(self):
        return list(dict.fromkeys(key.split("|")[0] for key in self.figures))

    def rounds(self, matrix, kernel="hash", vector="vmm"):
        """(size_per_row, figure), sizes ascending. If a size was given and also chosen by auto, the faster of both."""
        found = {}
        for key, figure in self.figures.items():
            name, by, method = key.split("|")
            if (name, by) == (matrix, kernel) and method.startswith("rounds ") and method.endswith(" " + vector) and "error" not in figure:
                size = int(figure.get("size_per_row", 0) if method.split()[1] == "auto" else method.split()[1])
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


def table_51(methods, kernel):
    known, rows, shares = thesis(), [], []
    for matrix in methods.matrices():
        precise = methods.get(matrix, "precise", kernel)
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


def table_52(methods):
    known, rows, factors = thesis(), [], []
    for matrix in methods.matrices():
        upper = next((figure for kernel in ("hash", "thesis") if (figure := methods.get(matrix, "upper-bound", kernel))), None)
        precise = methods.get(matrix, "precise") or upper
        if not precise:
            continue
        entries = upper["entries"] if upper else None
        factor = entries / upper["nnz_c"] if upper and upper["nnz_c"] else None
        factors.append(factor)
        published = known.get(matrix.replace("twin-", ""), {})
        rows.append([matrix, precise["nnz_c"], entries or methods.error(matrix, "upper-bound") or "-", cell(factor, "{:.3f}"),
                     *(published.get(name) or "-" for name in ("nnz_c", "upper_bound", "overestimation"))])
    rows.append(["geometric mean", "", "", cell(geometric(factors), "{:.3f}"), "", "", "7.018"])
    return table(["upper bound", "nnz(C)", "slots", "factor", "thesis: nnz(C)", "slots", "factor"], rows)


def table_times(methods, kernel):
    """Figure 5.1 in numbers: ms, and efficiency of rounds in %."""
    rows = []
    for matrix in methods.matrices():
        row = [matrix]
        for method in ("upper-bound", "precise"):
            figure = methods.get(matrix, method, kernel)
            row.append(cell(figure["ms_median"], "{:.3f}") if figure else "memory" if methods.error(matrix, method, kernel) else "-")
        for size in [*SIZES, "auto"]:
            figure = methods.get(matrix, f"rounds {size} vmm", kernel)
            row.append(f"{figure['ms_median']:.3f} {figure['efficiency']:.0f}%/{figure['rounds']:.0f}" if figure else "-")
        if len([value for value in row if value != "-"]) > 1:
            rows.append(row)
    return table([f"kernel {kernel}: ms eff%/rounds", "upper-bound", "precise", *map(str, SIZES), "auto"], rows) if rows else ""


def table_vectors(methods, kernel):
    """Figure 5.3 in numbers: time to grow by mapping and by copying, and the ratio of the whole calls."""
    rows = []
    for matrix in methods.matrices():
        pairs = [(size, figure, methods.get(matrix, f"rounds {size} copy", kernel)) for size, figure in methods.rounds(matrix, kernel)]
        row = {size: f"{vmm.get('grow_ms', 0):.2f} {copy.get('grow_ms', 0):.2f} {copy['ms_median'] / vmm['ms_median']:.2f}x" for size, vmm, copy in pairs if copy}
        if row:
            rows.append([matrix, *[row.get(size, "-") for size in SIZES]])
    return table([f"kernel {kernel}: grow ms vmm, copy, call copy/vmm", *map(str, SIZES)], rows) if rows else ""


def table_estimates(methods):
    """Both estimators of nnz(C): error in %, ms."""
    rows = []
    for matrix in methods.matrices():
        figure = methods.get(matrix, "rounds auto vmm")
        if figure and "cohen_nnz_c" in figure:
            off = [100 * (figure[f"{name}_nnz_c"] / figure["nnz_c"] - 1) if figure["nnz_c"] else 0 for name in ("sampled", "cohen")]
            rows.append([matrix, f"{off[0]:+.2f}", f"{figure['sampled_ms']:.3f}", f"{off[1]:+.2f}", f"{figure['cohen_ms']:.3f}",
                         f"{figure['ms_median']:.3f}"])
    return table(["", "sampled: off %", "ms", "Cohen: off %", "ms", "rounds auto ms"], rows) if rows else ""


def table_peers(methods):
    """Whole calls, compared with cuSPARSE: ms / peak MiB."""
    rows = []
    names = ["cusparse:alg1", "cusparse:alg2", "cusparse:alg3", "upper-bound", "precise", "rounds auto vmm"]
    for matrix in methods.matrices():
        row = [matrix]
        for method in names:
            figure = methods.get(matrix, method)
            row.append(f"{figure['ms_median']:.2f} / {figure['peak_bytes'] / 2**20:.0f}" if figure else "memory" if methods.error(matrix, method) else "-")
        rows.append(row)
    return table(["ms / peak MiB", *names], rows)


def claim(methods, kernel):
    """For each matrix the fastest rounds of 70 to 99 % efficiency and precise: (matrix, size or None, figure of rounds, figure of precise)."""
    found = [(m, methods.best(m, kernel), methods.get(m, "precise", kernel)) for m in methods.matrices()]
    return [(m, *(best or (None, None)), precise) for m, best, precise in found if precise and methods.rounds(m, kernel)]


def won(figure, precise):
    return bool(figure) and figure["ms_median"] < precise["ms_median"]


def with_trim(figure):
    return figure["ms_median"] + figure.get("trim_ms", 0)


def won_with_trim(methods, kernel, matrices):
    """Those of the matrices where rounds is faster even with the return of unused slots, which follows the product."""
    best = {m: methods.best(m, kernel, with_trim) for m in matrices}
    return [m for m in matrices if best[m] and with_trim(best[m][1]) < with_trim(methods.get(m, "precise", kernel))]


def table_claim(methods, kernel):
    rows = []
    for matrix, size, figure, precise in claim(methods, kernel):
        auto = methods.get(matrix, "rounds auto vmm", kernel)
        rows.append([matrix, size or "-", cell(figure and figure["efficiency"], "{:.1f}"), cell(figure and figure["ms_median"], "{:.3f}"),
                     f"{precise['ms_median']:.3f}", cell(figure and precise["ms_median"] / figure["ms_median"], "{:.2f}"),
                     "won" if won(figure, precise) else "lost" if figure else "lost: no size in the range", cell(auto and auto["ms_median"], "{:.3f}")])
    return table([f"kernel {kernel}: fastest of 70 to 99 %", "size_per_row", "eff %", "rounds ms", "precise ms", "precise/rounds", "", "rounds auto ms"],
                 rows) if rows else ""


def verdicts(methods):
    """Lines that compare the results with the claims of the thesis."""
    lines = []
    for matrix, expected in GOLDEN.items():
        for kernel in methods.kernels():
            found = {size: figure for size in SIZES if (figure := methods.get(matrix, f"rounds {size} vmm", kernel))}
            pairs = [(found[size], golden) for size, golden in zip(SIZES, expected) if size in found]
            wrong = [figure for figure, golden in pairs if (round(figure["efficiency"], 2), figure["rounds"]) != golden]
            if pairs:
                lines.append(f"golden figures of {matrix}, kernel {kernel}: {len(pairs) - len(wrong)} of {len(pairs)} hit")
    for kernel in methods.kernels():
        both = claim(methods, kernel)
        losses = [one for one in both if not won(*one[2:])]
        regular, skewed = ([one for one in both if one[0].startswith("rmat") == is_skewed] for is_skewed in (False, True))
        if regular:
            lines.append(f"kernel {kernel}: rounds of 70 to 99 % efficiency beat precise on {sum(one not in losses for one in regular)} of {len(regular)} "
                         "(thesis: 17 of 20)" + "".join(f"; {one[0]}: {'lost' if one in losses else 'won'}" for one in skewed))
            if any("trim_ms" in figure for _, _, figure, _ in regular if figure):
                names = [one[0] for one in regular]
                lines.append(f"  with the return of unused slots: {len(won_with_trim(methods, kernel, names))} of {len(names)}")
        for m, size, figure, precise in losses:
            lines.append(f"  lost: {m}, " + (f"size {size}: {figure['ms_median']:.3f} ms to {precise['ms_median']:.3f}" if figure
                                             else "no size is in that range"))
    ratios = [methods.get(m, "cusparse:alg1")["ms_median"] / methods.get(m, "rounds auto vmm")["ms_median"] for m in methods.matrices()
              if methods.get(m, "cusparse:alg1") and methods.get(m, "rounds auto vmm")]
    if ratios:
        lines.append(f"rounds (auto) over cuSPARSE alg1, geometric mean of {len(ratios)}: {geometric(ratios):.2f} x")
    return lines


def text(about, methods):
    parts = [f"SpGEMM: {about['gpu']}, driver {about['driver']}, commit {about['commit']}, {about['precision']}; medians; runs: {about['runs']}",
             "parts: " + "; ".join(f"commit {one['commit']}, driver {one['driver']}" for one in about["parts"]) if about.get("parts") else "",
             "Table 5.2: upper bound", table_52(methods)]
    for kernel in methods.kernels():
        parts += [f"Table 5.1: what counting first takes, kernel {kernel}", table_51(methods, kernel), "Figure 5.1", table_times(methods, kernel),
                  f"Rounds beside precise (5.1), kernel {kernel}", table_claim(methods, kernel), "Figure 5.3", table_vectors(methods, kernel)]
    if about.get("warps"):
        parts += ["Figure 5.2: active warps of a multiprocessor (Nsight Compute)",
                  table(["", "calls", "mean", "least", "most", "of peak %"], list(spgemm_warps.rows(about["warps"])))]
    elif about.get("no_warps"):
        parts.append(f"Figure 5.2: skipped: {about['no_warps']}")
    if estimates := table_estimates(methods):
        parts += ["Estimates of nnz(C) on the GPU", estimates]
    parts += ["Whole calls", table_peers(methods)]
    if about.get("limited"):
        parts += ["Under a limit", "\n".join(about["limited"])]
    return "\n\n".join(part for part in [*parts, "\n".join(verdicts(methods))] if part)


def shortened(names, most=8):
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def table_brief(methods, kernel):
    """One line for each matrix: the figures of the claim, cuSPARSE, peak memory."""
    rows = []
    for matrix, size, figure, precise in claim(methods, kernel):
        auto, upper, peer = methods.get(matrix, "rounds auto vmm", kernel), methods.get(matrix, "upper-bound", kernel), methods.get(matrix, "cusparse:alg1")
        rows.append([matrix, cell(upper and upper["ms_median"]), f"{precise['ms_median']:.2f}", cell(share(precise), "{:.0f}"), size or "-",
                     f"{figure['efficiency']:.1f}/{figure['rounds']:.0f}" if figure else "-", cell(figure and figure["ms_median"]),
                     cell(figure and figure.get("grow_ms")), cell(figure and figure.get("compact_ms")), cell(figure and figure.get("trim_ms")),
                     cell(figure and precise["ms_median"] / figure["ms_median"]), "won" if won(figure, precise) else "lost",
                     f"{auto['size_per_row']:.0f}: {auto['ms_median']:.2f}" if auto else "-", cell(peer and peer["ms_median"] if kernel == "hash" else None),
                     "/".join(f"{one['peak_bytes'] / 2**20:.0f}" if one else "-" for one in (precise, figure, auto))])
    return table([f"kernel {kernel}", "upper", "precise", "count %", "size", "eff %/rounds", "rounds", "grow", "compact", "trim", "precise/rounds", "", "auto", "alg1",
                  "peak MiB"], rows) if rows else ""


def brief(about, methods):
    """A summary of at most 60 lines."""
    lines = [f"SpGEMM: {about['gpu']}, driver {about['driver']}, commit {about['commit'][:12]}, {about['precision']}; ms, medians; runs: {about['runs']}",
             "peak: precise, the fastest rounds of 70 to 99 %, auto"]
    lines += [table_brief(methods, kernel) for kernel in methods.kernels()]
    lines += [f"active warps, {' '.join(map(str, row))}" for row in spgemm_warps.rows(about.get("warps") or {})]
    if about.get("no_warps"):
        lines.append(f"active warps: {about['no_warps'][:300]}")
    lines += [line[:160] for line in about.get("limited") or []]
    lines += [line for line in verdicts(methods) if not line.startswith("  lost")]
    lines += [f"failed: {what}: {why[:200]}" for what, why in list((about.get("failed") or {}).items())[:5]]
    if about.get("left_out"):
        lines.append(f"left out ({len(about['left_out'])}): {shortened(about['left_out'])}")
    return "\n".join(line for line in lines if line)


# ---- blocks of documents

@block("*-h200-spgemm.json")
def spgemm(run):
    methods, rows = Methods(run["figures"]), []

    def cell(figure):
        return f"{figure['ms_median']:.3g}, {figure['peak_bytes'] / MIB:.0f}" if figure else "-"

    for matrix, size, figure, _ in claim(methods, "hash"):
        rows.append([matrix, *[cell(methods.get(matrix, method)) for method in ("cusparse:alg1", "upper-bound", "precise")],
                     f"{figure['ms_median']:.3g} ({size})", cell(methods.get(matrix, "rounds auto vmm"))])
    return titled(f"{run.made}, {run['precision']} precision, medians ({run.file}); ms, and peak MiB by an allocation counter:",
                  ["", "cuSPARSE alg1", "`upper-bound`", "`precise`", "`rounds`, best size", "`rounds`, `auto`"], rows)


def spgemm_gains(methods, kernel, took=lambda figure: figure["ms_median"]):
    """(regular, skewed): precise's time over that of the best rounds, by matrix."""
    gains = {}
    for matrix, _, _, precise in claim(methods, kernel):
        best = methods.best(matrix, kernel, took)
        if best:
            gains[matrix] = took(precise) / took(best[1])
    return ({matrix: gain for matrix, gain in gains.items() if not matrix.startswith("rmat")},
            {matrix: gain for matrix, gain in gains.items() if matrix.startswith("rmat")})


@block("*-h200-spgemm.json")
def spgemm_story(run):
    methods = Methods(run["figures"])
    regular, skewed = spgemm_gains(methods, "hash")
    trimmed, _ = spgemm_gains(methods, "hash", with_trim)
    thesis, _ = spgemm_gains(methods, "thesis")
    counting = [share(methods.get(matrix, "precise")) for matrix in regular]
    alg1 = {matrix: methods.get(matrix, "cusparse:alg1")["ms_median"] for matrix in methods.matrices() if methods.get(matrix, "cusparse:alg1")}
    both = [matrix for matrix in alg1 if matrix in regular]
    graph, lost = next(iter(skewed)), [matrix for matrix, gain in thesis.items() if gain <= 1]
    trims = {matrix: max(figure.get("trim_ms", 0) for _, figure in methods.rounds(matrix)) for matrix in regular}

    upper = {matrix: figure for matrix in regular if (figure := methods.get(matrix, "upper-bound"))}
    uneven = max(upper, key=lambda matrix: upper[matrix]["ms_max"] / upper[matrix]["ms_min"])

    def over(matrices, figure):
        return geometric([alg1[matrix] / figure(matrix)["ms_median"] for matrix in matrices])

    return items(
        f"""The thesis' claim holds with a fast kernel: growing while computing is faster than counting first on
        {sum(gain > 1 for gain in regular.values())} of {len(regular)} regular matrices, {span(regular.values())} x; with the return of
        unused memory counted in, on {sum(gain > 1 for gain in trimmed.values())} of {len(trimmed)}, {span(trimmed.values())} x. Counting
        takes {span(counting, '{:.0f}')} % of a call here, 47 to 93 % in the thesis.""",
        f"""With the thesis' own kernel growing wins on {sum(gain > 1 for gain in thesis.values())} of {len(thesis)} matrices (17 of 20 in the
        thesis), {span(thesis.values())} x.{f" It loses on {', '.join(lost)}." if lost else ""}""",
        f"""It loses on the skewed graph {graph}: {skewed[graph]:.2f} x.""",
        f"""Against cuSPARSE alg1 the geometric mean over {len(both)} regular matrices is
        {over(both, lambda m: methods.get(m, 'precise')):.1f} x with `precise` and {over(both, lambda m: methods.best(m)[1]):.1f} x with
        `rounds`; on {graph} {over([graph], lambda m: methods.get(m, 'precise')):.1f} x and {over([graph], lambda m: methods.best(m)[1]):.1f} x.""",
        f"""The return of unused memory takes up to {max(trims.values()):.1f} ms after a call ({max(trims, key=trims.get)}).""",
        f"""Calls of `upper-bound` differ most, from {upper[uneven]['ms_min']:.1f} to {upper[uneven]['ms_max']:.1f} ms on {uneven}: the driver wipes
        gigabytes that came back from a call before it gives them to the next one.""")


@block("*-spgemm-scale*.json")
def spgemm_scale(run):
    rows = []
    for row in run["rows"]:
        alone, *others = [one if one and "ms" in one else None for one in map(row["sets"].get, ("0", "0,1", "0,1 copied"))]
        if alone:
            rows.append([row["matrix"].removeprefix("gen:"), f"{alone['nnz_c'] / 1e6:.1f}", f"{alone['ms']:.3g}", f"{alone['peak_bytes'] / MIB:.0f}",
                         *[f"{one['ms']:.3g} ({one['distribute_ms']:.2g})" if one else "-" for one in others],
                         f"{others[0]['peak_bytes'] / MIB:.0f}" if others[0] else "-"])
    return titled(f"Two {run.made}, medians of {run['runs']} runs in ms, in brackets the part that distributes A and B ({run.file}); "
                  "peak: MiB on the device that has most:", ["matrix", "nnz(C), millions", "one", "peak", "two, NCCL", "two, copies", "peak"], rows)


@block("*-spgemm-host*.json")
def spgemm_host(run):
    rows = [[row["matrix"].removeprefix("gen:"), f"{row['needs'] / 1e9:.2f}", "none" if row["limit"] == "0" else row["limit"].replace("iB", ""), row["slabs"],
             f"{row['sent_bytes'] / 1e9:.2f}", f"{row['received_bytes'] / 1e9:.2f}", f"{row['ms']:.1f}", f"{100 * row['bus_ms'] / row['ms']:.0f} %"]
            for row in run["rows"] if "ms" in row]
    return titled(f"{run.made}, medians of {run['runs']} runs ({run.file}); the share of the bus is the time of plain copies of as many bytes between pinned "
                  "memory and the device, in both directions at once, over that of the product:",
                  ["matrix", "A and C, GB", "limit", "slabs", "GB to the device", "GB back", "ms", "share of the bus"], rows)
