"""Draws the pictures of one trace from the numbers of data.py."""

import dataclasses
import typing

from matplotlib.collections import PolyCollection

import data
import memory_kinds
from style import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, bytes_scale, bytes_text, time_scale, time_text

RASTER = 2000  # with more marks than this the SVG contains pixels
DENSE = 1500   # with more marks than this they are dots
DOT = 2.2      # points


@dataclasses.dataclass
class Subject:
    """The data of the pictures."""
    series: data.Series
    trace: dict      # of gpumem report --json

    @property
    def thresholds(self):
        """For each device the peaks of asynchronous and managed memory for thresholds up to the first that no block outlives; for longer
        ones they are the same."""
        sizes = {row["device"]: row["bytes"] for row in self.trace["process"]["devices"]}
        return {device["device"]: data.peaks_of(device, self.series.end_ns, sizes.get(device["device"])) for device in self.series.devices
                if device["splits"]}


@dataclasses.dataclass
class Picture:
    name: str   # of its file
    title: str
    caption: str
    make: typing.Callable  # of pyplot and a Subject: returns a figure, or None if there is nothing to show


def axes_of(plt, rows, columns, width, height):
    figure, grid = plt.subplots(rows, columns, squeeze=False, layout="constrained", figsize=(width, height))
    for axes in grid.flat:
        axes.grid(True, linewidth=0.3, color="#bbbbbb")
        axes.set_axisbelow(True)
        axes.tick_params(labelsize=8)
        axes.title.set_fontsize(10)
    return figure, grid


def label(axes, **texts):
    axes.set(**texts)
    for part in (axes.title, axes.xaxis.label, axes.yaxis.label):
        part.set_fontsize(10 if part is axes.title else 9)


def legend(axes, **more):
    if axes.get_legend_handles_labels()[0]:
        axes.legend(**{"fontsize": 8, "framealpha": 0.9, **more})


def marks(axes, document, across, up, marker, size, **style):
    """Draws points, only one for points that would overlap. Many points become dots, darker where there are more points. across, up:
    divisors of the coordinates."""
    x, y, counts = (data.numpy.array(document[name], dtype=data.numpy.int64) for name in ("x", "y", "count"))
    x, y = x / across, y / up
    if len(x) <= DENSE:
        axes.plot(x, y, linestyle="none", markeredgewidth=0, marker=marker, markersize=size, **style)
        return
    name = style.pop("label")
    shades = data.shades(counts)
    for shade in sorted(set(shades.tolist())):
        part = shades == shade
        axes.plot(x[part], y[part], linestyle="none", markeredgewidth=0, marker=".", markersize=DOT, alpha=0.2 + 0.2 * shade,
                  rasterized=len(x) > RASTER, **style)
    axes.plot([], [], linestyle="none", marker=marker, markersize=5, label=name, **style)


def allocations_and_frees(axes, part, which, across, up):
    """Each mark is centred on its point."""
    size = 5 if part["objects"] <= 200 else 3
    marks(axes, part[which]["allocated"], across, up, "^", size, color=GREEN, label="allocated")
    if part[which]["freed"]["x"]:
        marks(axes, part[which]["freed"], across, up, "v", size, color=VERMILLION, label="freed")


# ---- the scatter: every object's allocation and free

def title_of(parts, place, count):
    return f"{'the first' if place else 'all'} {parts[place][count]:,} objects"


def objects(plt, subject):
    parts = subject.series.parts
    if not parts[0]["objects"]:
        return None
    figure, grid = axes_of(plt, 1, len(parts), 6.5 * len(parts) + 1, 5)
    size, unit = time_scale(subject.series.end_ns)
    for place, (axes, part) in enumerate(zip(grid[0], parts)):
        allocations_and_frees(axes, part, "numbers", 1, size)
        label(axes, title=f"Allocation and free of {title_of(parts, place, 'objects')}", xlabel="object, in the order of allocation",
              ylabel=f"time, {unit}")
        legend(axes, loc="lower right")
    return figure


def sizes(plt, subject):
    parts = [part for part in subject.series.parts if part["sized"]]
    if not parts:
        return None
    figure, grid = axes_of(plt, 1, len(parts), 6.5 * len(parts) + 1, 5)
    for place, (axes, part) in enumerate(zip(grid[0], parts)):
        size, unit = time_scale(max(part["until_ns"], 1))
        allocations_and_frees(axes, part, "sizes", size, 1)
        axes.set_yscale("log", base=2)
        low, high = part["least_bytes"].bit_length() - 1, part["most_bytes"].bit_length()
        step = max(1, -(-(high - low) // 8))
        axes.set_yticks([2 ** power for power in range(low, high + step, step)],
                        [bytes_text(2 ** power) for power in range(low, high + step, step)])
        axes.yaxis.set_minor_locator(plt.NullLocator())
        label(axes, title=f"Sizes of {title_of(parts, place, 'sized')}", xlabel=f"time, {unit}", ylabel="size of the object")
        legend(axes, loc="upper left")
    return figure


# ---- lifetimes

def lifetimes(plt, subject):
    (below, short), (above, long) = data.lifetime_bars(subject.series.lifetimes)
    ended, count = int(short.sum() + long.sum()), subject.series.objects
    if not ended:
        return None
    figure, grid = axes_of(plt, 1, 2, 14, 4.5)
    first, second = grid[0]
    first.stairs(short, below, fill=True, color=SKY, edgecolor=BLUE, linewidth=0.6)
    first.set_xscale("log")
    shortest = int(data.numpy.flatnonzero(short)[0]) // 4 if short.any() else 0
    first.set_xlim(below[4 * shortest], below[-1])
    places = [10.0 ** power for power in range(shortest - 8, 1)]
    first.set_xticks(places, [time_text(place * 1.0000001) for place in places])
    second.stairs(long, above, fill=True, color=ORANGE, edgecolor="#8a6100", linewidth=0.6)
    second.set_xlim(above[0], above[-1])
    for axes, counts in ((first, short), (second, long)):
        axes.set_ylim(0.7, max(10, 2 * counts.max()))
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_locator(plt.NullLocator())
        if not counts.sum():
            axes.text(0.5, 0.5, "no object", transform=axes.transAxes, ha="center", fontsize=10, color="#555555")
    label(first, title=f"{int(short.sum()):,} objects live less than a second ({100 * short.sum() / count:.1f} % of all)",
          xlabel="lifetime, four bars a decade", ylabel="objects")
    label(second, title=f"{int(long.sum()):,} live a second or longer; {count - ended:,} were never freed (not drawn)",
          xlabel="lifetime, s", ylabel="objects")
    return figure


# ---- thresholds

def threshold_text(ns):
    seconds = ns / 1e9
    return f"{seconds:g}" if seconds >= 1 else f"1/{round(1 / seconds)}"


def device_line(axes, device_bytes, most, scale):
    """The device's memory: a line if it is inside the picture, else text in the legend."""
    if not device_bytes:
        return
    if device_bytes <= 4 * most:
        axes.axhline(device_bytes / scale, color=BLACK, linewidth=1.4, linestyle=":", label=f"device memory, {bytes_text(device_bytes)}")
    else:
        axes.plot([], [], color=BLACK, linewidth=1.4, linestyle=":", label=f"device memory, {bytes_text(device_bytes)}, above the picture")


def thresholds(plt, subject):
    by_device = subject.thresholds
    if not by_device:
        return None
    figure, grid = axes_of(plt, len(by_device), 1, 12, 4.2 * len(by_device))
    for axes, (device, rows) in zip(grid[:, 0], by_device.items()):
        most = max(max(row["async_peak_bytes"], row["managed_peak_bytes"]) for row in rows)
        scale, unit = bytes_scale(most)
        for key, words, colour, mark in (("async_peak_bytes", "asynchronous: live at most N", BLUE, "o"),
                                         ("managed_peak_bytes", "managed: live longer, or to the end", ORANGE, "s")):
            axes.plot(range(len(rows)), [row[key] / scale for row in rows], color=colour, marker=mark, markersize=5, linewidth=1.6,
                      label=words)
        device_line(axes, rows[0]["device_bytes"], most, scale)
        axes.set_xticks(range(len(rows)), [threshold_text(row["threshold_ns"]) for row in rows], rotation=45)
        axes.set_ylim(bottom=0)
        label(axes, title=f"Peak of each kind of memory for each threshold on lifetimes, device {device}", xlabel="threshold N, s",
              ylabel=f"peak, {unit}")
        legend(axes, loc="upper left", bbox_to_anchor=(1.01, 1))
    return figure


def over_time(plt, subject):
    """For some thresholds the bytes in asynchronous and managed memory over time, a block of panels for each device."""
    parts = []
    for device in subject.series.devices:
        rows = subject.thresholds.get(device["device"])
        if rows:
            parts.append((device, rows, data.distinct_thresholds(rows, most=9 if len(subject.series.devices) == 1 else 3)))
    if not parts:
        return None
    columns = min(3, max(len(places) for *_, places in parts))
    lines = [-(-len(places) // columns) for *_, places in parts]
    figure, grid = axes_of(plt, sum(lines), columns, 4.7 * columns + 1, 2.8 * sum(lines) + 0.8)
    size, unit = time_scale(subject.series.end_ns)
    for (device, rows, places), first in zip(parts, [sum(lines[:place]) for place in range(len(lines))]):
        panels = grid[first:first + -(-len(places) // columns)].flat
        draw_splits(panels, device, rows, places, columns, len(parts) > 1, size, unit, subject.series.end_ns)
    legend(grid[0][0])
    return figure


def draw_splits(panels, device, rows, places, columns, several, size, unit, end_ns):
    split = [[data.line(device["splits"][place][name]) for name in ("async", "managed")] for place in places]
    most = max(int(live.max(initial=0)) for pair in split for _, live in pair)
    scale, bytes_unit = bytes_scale(most)
    device_bytes = rows[0]["device_bytes"]
    for at, axes in enumerate(panels):
        if at >= len(places):
            axes.remove()
            continue
        for (times, live), words, colour, dash in zip(split[at], ("asynchronous", "managed"), (BLUE, ORANGE), ("-", (0, (4, 1)))):
            axes.step([0, *times / size, end_ns / size], [0, *live / scale, (live[-1] if len(live) else 0) / scale],
                      where="post", color=colour, linewidth=1.2, linestyle=dash, label=words)
        device_line(axes, device_bytes, most, scale)
        axes.set_ylim(0, (device_bytes if device_bytes and device_bytes <= 4 * most else most) / scale * 1.06 or 1)
        axes.set_xlim(0, end_ns / size)
        axes.tick_params(labelleft=at % columns == 0, labelbottom=at + columns >= len(places))
        on = f", device {device['device']}" if several else ""
        label(axes, title=f"N = {threshold_text(rows[places[at]]['threshold_ns'])} s{on}",
              ylabel=f"live, {bytes_unit}" if at % columns == 0 else "", xlabel=f"time, {unit}" if at + columns >= len(places) else "")


# ---- bytes and blocks over time

PHASE_COLOURS = ["#cfe2f3", "#fde5c0", "#d5ecd4", "#e9d5e5", "#e3e3e3", "#f6d3c3"]


def printable(text, most):
    clean = "".join(letter if letter.isprintable() else "?" for letter in text) or "(no name)"
    return (clean if len(clean) <= most else clean[:most - 1] + "\u2026").replace("$", r"\$")


def draw_phases(strip, main, phases, end_ns, size):
    """Draws a strip of named phases; the outermost ones shade the picture below."""
    rows = data.phase_rows(phases)
    colours = {}
    for row, name, begin, end in rows:
        colour = PHASE_COLOURS[colours.setdefault(name, len(colours)) % len(PHASE_COLOURS)]
        strip.barh(row, (end - begin) / size, left=begin / size, height=0.9, color=colour, edgecolor="#888888", linewidth=0.4)
        room = int(140 * (end - begin) / end_ns)  # letters
        if room >= 3:
            strip.text((begin + end) / 2 / size, row, printable(name, room), ha="center", va="center", fontsize=7)
        if row == 0:
            main.axvspan(begin / size, end / size, color=colour, alpha=0.5, linewidth=0, zorder=0)
    strip.set_ylim(max(row for row, *_ in rows) + 0.6, -0.6)
    strip.set_yticks([])
    strip.grid(False)
    label(strip, ylabel="phases")


def over_phases(plt, subject, height):
    """Figure and axes of a picture over time, with a strip of phases above if the trace has some."""
    series = subject.series
    if not series.phases:
        figure, grid = axes_of(plt, 1, 1, 12, height)
        return figure, grid[0][0]
    row_count = 1 + max(row for row, *_ in data.phase_rows(series.phases))
    above = 0.25 * row_count + 0.15
    figure, (strip, axes) = plt.subplots(2, 1, sharex=True, layout="constrained", figsize=(12, height + above),
                                         gridspec_kw={"height_ratios": [above, height]})
    axes.grid(True, linewidth=0.3, color="#bbbbbb")
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)
    strip.tick_params(bottom=False)
    size, _ = time_scale(series.end_ns)
    draw_phases(strip, axes, series.phases, series.end_ns, size)
    return figure, axes


def figure_of_devices(plt, subject, count, height):
    """Figure and one axes for each device; phases are above a single one."""
    if count == 1:
        figure, axes = over_phases(plt, subject, 4.8)
        return figure, [axes]
    figure, grid = axes_of(plt, count, 1, 12, height * count)
    return figure, grid[:, 0]


def kinds(plt, subject):
    devices = [device for device in subject.series.devices if device["kinds"]["bytes"]]
    if not devices:
        return None
    figure, grid = figure_of_devices(plt, subject, len(devices), 3.6)
    for axes, device in zip(grid, devices):
        draw_kinds(axes, device, "" if len(devices) == 1 else f" of device {device['device']}", subject.series.end_ns)
    return figure


def draw_kinds(axes, device, of, end_ns):
    times, lines = data.kinds_of(device)
    size, unit = time_scale(end_ns)
    total = sum(lines.values())
    scale, bytes_unit = bytes_scale(int(total.max()))
    ends = data.numpy.concatenate(([0], times, [end_ns])) / size
    below = data.numpy.zeros(len(ends))
    for name, live in lines.items():
        above = below + data.numpy.concatenate(([0], live, live[-1:])) / scale
        axes.fill_between(ends, below, above, step="post", color=memory_kinds.COLOURS[name], linewidth=0,
                          label=f"{name}, at most {bytes_text(device['kinds']['peaks'][name])}")
        below = above
    axes.step(ends, below, where="post", color=BLACK, linewidth=0.6)
    axes.set_xlim(0, end_ns / size)
    axes.set_ylim(0, below.max() * 1.08 or 1)
    label(axes, title=f"Live bytes{of} by kind of memory; most at once {bytes_text(int(total.max()))}", xlabel=f"time, {unit}",
          ylabel=f"live, {bytes_unit}")
    handles, words = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], words[::-1], loc="upper left", bbox_to_anchor=(1.01, 1), fontsize=8)


def parts_of_devices(trace):
    """The part of the report about reserved memory for each device, by its name; one part if the process used one device."""
    if "over_time" in trace["reserved"]:
        return {"the device": trace["reserved"]}
    return {f"device {row['device']}": trace[f"reserved_device_{row['device']}"] for row in trace["by_device"]}


def reserved(plt, subject):
    """A picture for each device. Each row of the report has the greatest values from its time to the next row."""
    parts = {name: part["over_time"] for name, part in parts_of_devices(subject.trace).items()}
    parts = {name: rows for name, rows in parts.items() if max((row["reserved_bytes"] for row in rows), default=0)}
    if not parts:
        return None
    figure, grid = figure_of_devices(plt, subject, len(parts), 3.2)
    for axes, (name, rows) in zip(grid, parts.items()):
        draw_reserved(axes, name, rows, subject.series.end_ns, -0.12 if len(parts) == 1 else -0.2)
    return figure


def draw_reserved(axes, name, rows, end_ns, below):
    most = max(row["reserved_bytes"] for row in rows)
    size, unit = time_scale(end_ns)
    scale, bytes_unit = bytes_scale(most)
    times = data.numpy.array([row["begin_ns"] for row in rows] + [end_ns]) / size
    lines = {part: data.numpy.array([row[f"{part}_bytes"] for row in [*rows, rows[-1]]]) / scale for part in ("live", "kept", "reserved")}
    axes.fill_between(times, 0, lines["live"], step="post", color=SKY, linewidth=0,
                      label=f"live: requested by the program, at most {bytes_text(max(row['live_bytes'] for row in rows))}")
    axes.step(times, lines["kept"], where="post", color=GREEN, linewidth=1.2,
              label=f"kept: freed blocks for reuse, at most {bytes_text(max(row['kept_bytes'] for row in rows))}")
    axes.step(times, lines["reserved"], where="post", color=BLACK, linewidth=1.2,
              label=f"reserved: taken from {name}, at most {bytes_text(most)}")
    axes.set_xlim(0, end_ns / size)
    axes.set_ylim(0, most / scale * 1.08)
    label(axes, title=f"Memory taken from {name}; most at once {bytes_text(most)}", xlabel=f"time, {unit}", ylabel=bytes_unit)
    legend(axes, loc="upper center", bbox_to_anchor=(0.5, below), ncol=3)


def bands(plt, subject):
    blocks, end_ns = subject.series.bands, subject.series.end_ns
    if not blocks:
        return None
    lows = data.bands(blocks)
    figure, axes = over_phases(plt, subject, 5.5)
    size, unit = time_scale(end_ns)
    heights = data.numpy.array([block["bytes"] for block in blocks], dtype=data.numpy.int64)
    scale, bytes_unit = bytes_scale(int((lows + heights).max()))
    begun = data.numpy.array([block["created_ns"] / size for block in blocks])
    ended = data.numpy.array([(end_ns if block["ended_ns"] is None else block["ended_ns"]) / size for block in blocks])
    sites = data.numpy.array([block["site"] or "unknown site" for block in blocks], dtype=object)
    weight = {site: int(heights[sites == site].sum()) for site in set(sites)}
    shown = sorted(weight, key=lambda site: (-weight[site], site))[:7]
    palette = [BLUE, ORANGE, GREEN, SKY, VERMILLION, PURPLE, "#F0E442"]
    for site, colour in [*zip(shown, palette), (None, "#bbbbbb")]:
        chosen = sites == site if site is not None else data.numpy.array([each not in shown for each in sites])
        if not chosen.any():
            continue
        corners = [[(left, low), (right, low), (right, low + height), (left, low + height)] for left, right, low, height in
                   zip(begun[chosen], ended[chosen], lows[chosen] / scale, heights[chosen] / scale)]
        axes.add_collection(PolyCollection(corners, facecolor=colour, edgecolor="white", linewidth=0.3,
                                           label="other call sites" if site is None else site))
    axes.set_xlim(0, end_ns / size)
    axes.set_ylim(0, (lows + heights).max() / scale * 1.02)
    count = subject.series.parts[0]["sized"]
    rest = "" if len(blocks) == count else f"; those with the most bytes x time of {count:,}"
    label(axes, title=f"{len(blocks):,} blocks, each at its address from allocation to end{rest}", xlabel=f"time, {unit}",
          ylabel=f"addresses without gaps, {bytes_unit}")
    legend(axes, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncol=2)
    return figure


PICTURES = [
    Picture("objects", "Allocation and free of every object", "Each object's allocation (up) and free (down) over its number, at the centre of the mark. Marks "
            "far above their allocation are long-lived objects.", objects),
    Picture("sizes", "Sizes over time", "Each allocation (up) and free (down) by time and size.", sizes),
    Picture("lifetimes", "Lifetimes", "How long objects live, below one second and above; both counts on a logarithmic scale.",
            lifetimes),
    Picture("thresholds", "Peaks by threshold", "The peaks if objects that live at most N are allocated asynchronously and all "
            "others as managed memory.", thresholds),
    Picture("over-time", "Asynchronous and managed bytes over time", "The same split at each moment, for the thresholds that change "
            "it.", over_time),
    Picture("kinds", "Bytes over time by kind", "Live bytes of each kind of memory, on each device. Each point in time shows the least and the greatest "
            "value of its interval.", kinds),
    Picture("reserved", "Live, kept and reserved bytes over time", "Bytes that the program requested, bytes of freed blocks that gpumem "
            "keeps for reuse, and all bytes taken from the devices. Each line shows the greatest value of its interval.", reserved),
    Picture("bands", "Blocks", "The blocks with the largest product of bytes and lifetime as rectangles: time from left to right, "
            "addresses from bottom to top.", bands),
]
