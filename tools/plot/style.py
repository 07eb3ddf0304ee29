"""Shared by all pictures: colours, marks, units on axes, and saving. matplotlib is needed only for drawing."""

import pathlib

# The palette of Okabe and Ito, which colour-blind readers can distinguish; hatches and markers distinguish equal colours.
COLOURS = ["#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7"]
BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILLION, PURPLE = COLOURS
MARKERS = "osD^vPX*"


class Missing(Exception):
    """matplotlib is not installed."""


def pyplot():
    """matplotlib.pyplot, drawing to files. Raises Missing."""
    try:
        import matplotlib
    except ImportError:
        raise Missing from None
    matplotlib.use("Agg")
    # The same picture gives the same file.
    matplotlib.rcParams["svg.hashsalt"] = "gpumem"
    import matplotlib.pyplot
    return matplotlib.pyplot


def plain_numbers(axis):
    """Ticks 1, 2, 5 and so on of a logarithmic axis, also if it has few powers of ten."""
    from matplotlib import ticker

    axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(ticker.NullFormatter())


PLACES = [(1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)]


def place_labels(axes, points, size=6):
    """Labels points of laid-out axes: (x, y, text), the most important first. No label covers another, a point of the list, or the frame. A label
    farther away has a line to its point; one for which there is no place is left out. Returns the labels."""
    from matplotlib.text import Text  # the extent of the text alone, without its line

    renderer = axes.figure.canvas.get_renderer()
    frame, scale = axes.get_window_extent(renderer), axes.figure.dpi / 72
    at = [axes.transData.transform((x, y)) for x, y, _ in points]
    radius, placed, boxes = 3.5 * scale, [], []

    def free(box):
        return (frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
                and not any(box.overlaps(other) for other in boxes)
                and not any(box.x0 - radius < x < box.x1 + radius and box.y0 - radius < y < box.y1 + radius for x, y in at))

    for x, y, text in points:
        for distance in (5, 10, 16, 24):
            for right, up in PLACES:
                label = axes.annotate(text, (x, y), (right * distance, up * distance), textcoords="offset points", fontsize=size,
                                      ha=("right", "center", "left")[right + 1], va=("top", "center", "bottom")[up + 1],
                                      arrowprops={"arrowstyle": "-", "linewidth": 0.4, "color": "#777777"} if distance > 5 else None)
                label.update_positions(renderer)
                box = Text.get_window_extent(label, renderer)
                if free(box):
                    placed.append(label)
                    boxes.append(box)
                    break
                label.remove()
            else:
                continue
            break
    return placed


def save(plt, figure, stem):
    """Writes STEM.svg and STEM.png, closes the figure, returns their paths. Each is drawn once; figure.savefig draws twice."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    paths = [pathlib.Path(f"{stem}{suffix}") for suffix in (".svg", ".png")]
    figure.set_dpi(130)
    FigureCanvasAgg(figure).print_png(paths[1])
    figure.set_layout_engine("none")  # laid out once
    FigureCanvasSVG(figure).print_svg(paths[0], metadata={"Date": None})
    plt.close(figure)
    return paths


def bytes_text(value, digits=4):
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024 or unit == "TiB":
            return f"{value:.{digits}g} {unit}"
        value /= 1024


def time_text(seconds):
    for unit, size in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds / 1e-9:.4g} ns"


def bytes_scale(most):
    """Divisor and name of a readable unit for `most`."""
    power = 0
    while most >= 1024 and power < 4:
        most /= 1024
        power += 1
    return 1024 ** power, ("B", "KiB", "MiB", "GiB", "TiB")[power]


def time_scale(most_ns):
    for size, unit in ((10 ** 9, "s"), (10 ** 6, "ms"), (10 ** 3, "us")):
        if most_ns >= size:
            return size, unit
    return 1, "ns"
