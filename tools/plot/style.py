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


def save(plt, figure, stem):
    """Writes STEM.svg and STEM.png, closes the figure, returns their paths."""
    paths = [pathlib.Path(f"{stem}{suffix}") for suffix in (".svg", ".png")]
    for path in paths:
        figure.savefig(path, dpi=130, metadata={"Date": None} if path.suffix == ".svg" else None)
        figure.set_layout_engine("none")  # laid out once
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
