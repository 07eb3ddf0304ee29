"""Pictures of a run of hybrid.py. Needs matplotlib, which a run itself does not."""

import statistics

import hybrid_lifetimes
from hybrid_report import Samples
from hybrid_schemes import MIB
from picture import COLOURS, MARKERS, plain_numbers, pyplot, save

EDGES = [10.0 ** (power / 4) for power in range(-20, 12)] # seconds


def latencies(plt, document):
    samples = Samples(document["samples"])
    places = [(part, percent) for part in ("fits", "beyond", "sequence") for percent in samples.places(part)]
    panels = [(part, percent, row) for part, percent in places for row in samples.rows(part, percent)]
    columns = 4
    figure, grid = plt.subplots((len(panels) + columns - 1) // columns, columns, squeeze=False, layout="constrained",
                                figsize=(16, 2.9 * ((len(panels) + columns - 1) // columns)))
    for axes, panel in zip(grid.flat, panels):
        part, percent, row = panel
        names = [name for name in samples.schemes(part, percent) if samples.stats(part, percent, name, row)]
        for place, name in enumerate(names):
            values = sorted(samples.warm(part, percent, name, row))
            low, middle, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
            axes.hlines(place, values[0], values[-1], color="#777777", linewidth=1)
            axes.barh(place, high - low, left=low, height=0.6, color=COLOURS[2], edgecolor="black", linewidth=0.4)
            axes.vlines(middle, place - 0.3, place + 0.3, color=COLOURS[6], linewidth=1.5)
        axes.set_yticks(range(len(names)), names, fontsize=6)
        axes.use_sticky_edges = False
        axes.invert_yaxis()
        axes.set_xscale("log")
        plain_numbers(axes.xaxis)
        axes.tick_params(axis="x", which="both", labelsize=6)
        axes.grid(True, axis="x", linewidth=0.3)
        where = row if part == "sequence" else f"{row}, {percent} %{' (limit, host NUMA)' if part == 'beyond' else ''}"
        axes.set_title(where, fontsize=8)
        axes.set_xlabel("ms", fontsize=7)
    for axes in list(grid.flat)[len(panels):]:
        axes.remove()
    figure.suptitle(f"Homomorphic operations by allocation scheme: {document['gpu']}, commit {document['commit'][:12]}; boxes: quartiles of "
                    "iterations, whiskers: least and most", fontsize=10)
    return figure


def ratios(plt, document):
    wanted = [("alloc_ms", "allocation"), ("copy_ms", "copy"), ("kernel_ms", "kernel"), ("free_ms", "free")]
    operations = ("add", "butterfly")
    figure, grid = plt.subplots(len(operations), len(wanted), figsize=(16, 7), squeeze=False, layout="constrained")
    for line, operation in enumerate(operations):
        for column, (key, title) in enumerate(wanted):
            axes = grid[line][column]
            for place, one in enumerate(document["ratios"]):
                runs = [run for run in one["runs"] if run["operation"] == operation]
                points = []
                for ratio in dict.fromkeys(run["ratio"] for run in runs):
                    values = [run[key] for run in runs if run["ratio"] == ratio]
                    points.append((ratio, statistics.median(value for entry in values
                                                            for value in (entry if isinstance(entry, list) else [entry]))))
                label = f"{one['percent']} % of {one['budget'] // MIB} MiB, {one['block'] // 1024} KiB blocks{', limit' if one['beyond'] else ''}"
                axes.plot(*zip(*points), label=label, color=COLOURS[place % len(COLOURS)], marker=MARKERS[place % len(MARKERS)],
                          markersize=4, linewidth=1.2, linestyle="--" if one["beyond"] else "-")
            axes.set(yscale="log", xlabel="asynchronous share, %", ylabel="ms", title=f"{operation}: {title}")
            plain_numbers(axes.yaxis)
            axes.grid(True, linewidth=0.3)
    grid[0][2].legend(fontsize=6, loc="center") # kernel times lie far apart
    figure.suptitle(f"Ratios of asynchronous to managed memory: {document['gpu']}, commit {document['commit'][:12]}; dashed: GPUMEM_LIMIT, "
                    "the rest in host NUMA memory (no page migration)", fontsize=10)
    return figure


def traced(document, out):
    """Objects and end of each sequence, of the traces that lie beside `out`."""
    paths = {name: out.with_name(f"{out.stem}-traces") / f"sequence-{name}.csv.gz" for name in document["lifetimes"]}
    return {name: hybrid_lifetimes.read_objects(path) for name, path in paths.items() if path.exists()}


def lifetimes(plt, document, found):
    figure, grid = plt.subplots(len(found), 3, figsize=(16, 4 * len(found)), squeeze=False, layout="constrained")
    for line, (name, (objects, end)) in zip(grid, found.items()):
        one = document["lifetimes"][name]
        line[0].plot(range(len(objects)), [begun / 1e3 for begun, _, _ in objects], "^", color=COLOURS[3], markersize=2, label="allocated",
                     rasterized=True)
        freed = [(place, gone / 1e3) for place, (_, gone, _) in enumerate(objects) if gone is not None]
        line[0].plot([place for place, _ in freed], [seconds for _, seconds in freed], "v", color=COLOURS[6], markersize=2, label="freed",
                     rasterized=True)
        line[0].set(xlabel="object", ylabel="s", title=f"{name}: life of {len(objects)} objects")
        line[0].legend(fontsize=7)
        counts = hybrid_lifetimes.histogram(hybrid_lifetimes.lifetimes(objects, end), EDGES)
        line[1].stairs(counts[1:-1], EDGES, fill=True, color=COLOURS[5])
        line[1].axvline(1, color=COLOURS[6], linewidth=1)
        line[1].set(xscale="log", yscale="log", xlabel="lifetime, s", ylabel="objects",
                    title=f"{100 * one['below_second']:.1f} % live less than a second")
        rows = one["thresholds"]
        for key, label, colour in (("async_peak", "asynchronous", COLOURS[5]), ("managed_peak", "managed", COLOURS[1])):
            line[2].plot([row["seconds"] for row in rows], [row[key] / MIB for row in rows], marker="o", markersize=3, label=label,
                         color=colour)
        line[2].set(xscale="log", xlabel="threshold N, s", ylabel="peak, MiB", title="peak of each kind by threshold")
        line[2].legend(fontsize=7)
    return figure


def draw(document, out):
    """Writes STEM.svg and .png, STEM-ratios and STEM-lifetimes (with STEM-traces) beside `out`; returns their paths. Raises Missing."""
    plt = pyplot()
    objects, paths = traced(document, out), []
    for make, ending, there in ((latencies, "", document["samples"]), (ratios, "-ratios", document["ratios"]),
                                (lambda *of: lifetimes(*of, objects), "-lifetimes", objects)):
        if there:
            paths += save(plt, make(plt, document), out.with_name(f"{out.stem}{ending}"))
    return paths
