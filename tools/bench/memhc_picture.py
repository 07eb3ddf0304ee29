"""Draws a run of memhc.py as figures 7, 8, 10 and 11 of the paper. Only this file needs matplotlib."""

from memhc_points import BASELINE, FULL, PERCENTS, PINNED, POLICIES, RATES, SIZES, STEPS, UNIFIED
from memhc_report import Points
from picture import COLOURS, MARKERS, pyplot, save


def line(axes, place, label, pairs):
    """Points that were measured, at their places on the axis."""
    there = [(at, y) for at, (_, y) in enumerate(pairs) if y]
    if there:
        axes.plot(*zip(*there), color=COLOURS[place % len(COLOURS)], marker=MARKERS[place % len(MARKERS)], markersize=4, linewidth=1.2, label=label)
    axes.set_xticks(range(len(pairs)), [str(x) for x, _ in pairs])


def finish(axes, title, xlabel, ylabel="GFLOP/s"):
    axes.set_title(title, fontsize=8)
    axes.set_xlabel(xlabel, fontsize=7)
    axes.set_ylabel(ylabel, fontsize=7)
    axes.set_ylim(bottom=0)
    axes.tick_params(labelsize=6)
    axes.grid(linewidth=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=6)


def overall(axes, points, tensor, over_rates):
    places = [(16, rate) for rate in RATES] if over_rates else [(size, "1/1") for size in SIZES]
    for place, variant in enumerate((BASELINE, FULL, UNIFIED, "unified_kept", PINNED)):
        line(axes, place, variant, [(at[over_rates], points.gflops("vectors", tensor, *at, variant)) for at in places])
    finish(axes, f"figure 7: tensor {tensor}, {'vector size 16' if over_rates else 'all repeated'}", "repeated" if over_rates else "vector size")


def breakdown(axes, points, tensor, size):
    for place, rate in enumerate(("0/1", "1/2", "1/1")):
        values = [points.gflops("vectors", tensor, size, rate, variant) or 0 for variant in STEPS]
        axes.bar([i + 0.28 * (place - 1) for i in range(len(STEPS))], values, 0.26, color=COLOURS[(2, 5, 6)[place]], label=f"repeated {rate}")
    axes.set_xticks(range(len(STEPS)), [name.replace("_", "\n") for name in STEPS])
    finish(axes, f"figure 8: tensor {tensor}, vector size {size}", "")


def products(axes, points, unified):
    for place, variant in enumerate((FULL, BASELINE, "extra copies") if unified else ("zgemm", FULL)):
        line(axes, place, variant, [(tensor, points.gflops("vectors", tensor, 16, "1/1", variant)) for tensor in points.tensors()])
    finish(axes, f"figure 10{'a' if unified else 'b'}", "tensor")


def policies(axes, points, distribution, key):
    for place, policy in enumerate(POLICIES):
        rows = [(percent, points.get("evict", 64, percent, "1/2", policy, distribution)) for percent in PERCENTS]
        line(axes, place, policy, [(percent, float(row[key])) if row else (percent, None) for percent, row in rows])
    finish(axes, f"figure 11: {distribution}", "oversubscription, %", "GFLOP/s" if key == "gflops" else "evictions of a loop")


def draw(document, out):
    """Writes the picture as `out` with the suffixes .svg and .png; returns both paths. Raises Missing without matplotlib."""
    plt, points = pyplot(), Points(document["points"])
    panels = [(overall, tensor, over) for tensor in (document["tensors"]) for over in (False, True)]
    panels += [(breakdown, document["steps"], size) for size in (16, 4)]
    panels += [(products, unified) for unified in (True, False)]
    panels += [(policies, distribution, key) for distribution in ("uniform", "gaussian") for key in ("gflops", "evictions")]
    figure, grid = plt.subplots((len(panels) + 3) // 4, 4, figsize=(16, 3.2 * ((len(panels) + 3) // 4)), layout="constrained", squeeze=False)
    for axes, (paint, *what) in zip(grid.flat, panels):
        paint(axes, points, *what)
    for axes in list(grid.flat)[len(panels):]:
        axes.remove()
    figure.suptitle(f"MemHC: {document['gpu']}, driver {document['driver']}, commit {document['commit']}", fontsize=10)
    return save(plt, figure, out.with_suffix(""))
