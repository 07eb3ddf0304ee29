"""The picture of a run of alloc.py: pair time against size, and bars for the rest. Needs matplotlib, which a run itself does not."""

import pathlib
import sys

from contenders import NATIVE, ORDER

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "plot"))
from style import COLOURS, MARKERS, Missing, place_labels, plain_numbers, pyplot, save

BARS = [("loop-long", "malloc + kernel + free, one round"), ("free-behind-1ms", "free behind a 1 ms kernel, host time"),
        ("busy-streams:100", "pair 1 MiB beside 100 busy streams"), ("threads-same:16", "pair 1 MiB in each of 16 threads"),
        ("mixed", "free + malloc, mixed sizes, 64 live"), ("first-touch:1048576", "malloc, first write, free, 1 MiB"),
        ("fresh-alloc", "malloc of a new small block"), ("bootstrap", "bootstrap-like operation"),
        ("thrust-sort", "thrust sequence + sort, 1 M integers"), ("torch-step", "PyTorch training step")]


def style(name):
    """Colour and marker of a contender, the same in every picture."""
    place = ORDER.index(name) if name in ORDER else len(ORDER)
    return COLOURS[place % len(COLOURS)], MARKERS[(place + place // len(COLOURS)) % len(MARKERS)], "-" if place < len(COLOURS) else "--"


def say_pictures(bench, out, draw):
    """Prints the paths that draw() returns, or, without matplotlib, how `bench` draws them later from the run's file `out`."""
    try:
        print("pictures:", ", ".join(str(path) for path in draw()))
    except Missing:
        print(f"no matplotlib here: {bench} --plot {out.name} draws the pictures where it is", file=sys.stderr)


def pair_lines(axes, results):
    sizes = sorted((row for row in results.rows() if row.startswith("pair:")), key=lambda row: int(row.split(":")[1]))
    for name in results.contenders():
        points = [(int(row.split(":")[1]), results.median(name, row) / 1e3) for row in sizes if results.has(name, row)]
        if len(points) > 1:
            colour, marker, dash = style(name)
            axes.plot(*zip(*points), color=colour, marker=marker, markersize=4, linestyle=dash, linewidth=1.2, label=name,
                      markeredgecolor="black", markeredgewidth=0.3)
    axes.set(xscale="log", yscale="log", xlabel="block size (bytes)", ylabel="time of a pair (us)", title="malloc + free, idle card")
    axes.set_xscale("log", base=2)
    sizes = [(1, "1"), (512, "512"), (1 << 12, "4 Ki"), (1 << 16, "64 Ki"), (1 << 20, "1 Mi"), (1 << 25, "32 Mi"), (1 << 28, "256 Mi"),
             (1 << 30, "1 Gi")]
    axes.set_xticks([size for size, _ in sizes], [text for _, text in sizes])
    axes.grid(True, which="major", linewidth=0.3)
    axes.legend(fontsize=7, ncol=2)


def bars(axes, title, unit, values):
    """values: (contender, value, least, most)."""
    for place, (name, value, least, most) in enumerate(values):
        colour, _, dash = style(name)
        axes.barh(place, value, color=colour, edgecolor="black", linewidth=0.4, hatch="" if dash == "-" else "///",
                  xerr=[[max(0, value - least)], [max(0, most - value)]], error_kw={"linewidth": 0.6, "ecolor": "#777777"})
        axes.text(max(value, most), place, f" {value:.3g}", va="center", fontsize=6)
    axes.set_yticks(range(len(values)), [name for name, *_ in values], fontsize=6)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.xaxis.set_minor_formatter("")
    axes.margins(x=0.15)
    axes.tick_params(axis="x", labelsize=6)
    axes.set_xlabel(unit, fontsize=7)
    axes.set_title(title, fontsize=8)


def time_panels(results):
    for row, title in BARS:
        values = [(name, results.median(name, row) / 1e3, results.figures[name, row]["min"] / 1e3,
                   results.figures[name, row]["max"] / 1e3) for name in results.contenders(row)]
        if row == "loop-long" and results.has(NATIVE, "kernel-long"):
            values.append(("kernel alone", *(results.figures[NATIVE, "kernel-long"][key] / 1e3 if key else
                                             results.median(NATIVE, "kernel-long") / 1e3 for key in (None, "min", "max"))))
        if values:
            yield title, "us", values


def memory_panels(results):
    for row in [row for row in results.rows() if row.startswith("replay:")]:
        values = [(name, share, share, share) for name in results.contenders(row)
                  if (share := (results.more(name, row, "reserved") or 0) / max(1, results.more(name, row, "live") or 1)) > 0]
        if values:
            yield f"trace {row.split(':')[1]}: peak reserved / peak live", "ratio", values


def draw(about, results, out):
    """Writes `out` with .svg and .png for its ending; returns their paths. Raises Missing."""
    plt = pyplot()
    panels = [*time_panels(results), *memory_panels(results)]
    rows = 2 + (len(panels) + 3) // 4
    figure = plt.figure(figsize=(15, 2.7 * rows), layout="constrained")
    grid = figure.add_gridspec(rows, 4)
    pair_lines(figure.add_subplot(grid[0:2, :]), results)
    for place, (title, unit, values) in enumerate(panels):
        bars(figure.add_subplot(grid[2 + place // 4, place % 4]), title, unit, values)
    figure.suptitle(f"Allocation path: {about['gpu']}, driver {about['driver']}, commit {about['commit']}; median of {about['rounds']} "
                    "rounds, whiskers least and most", fontsize=10)
    return save(plt, figure, out.with_suffix(""))
