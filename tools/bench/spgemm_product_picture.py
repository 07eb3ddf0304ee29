"""Pictures of a run of spgemm_product.py, one for each question: how long, how much memory, how far from the bound. Only this file needs matplotlib."""

from picture import COLOURS, plain_numbers, pyplot, save

MARKS = {"ours cold": ("o", COLOURS[5]), "ours warm": ("o", COLOURS[2]), "ours same": (".", COLOURS[2]), "cusparse:alg1": ("X", COLOURS[6]),
         "cusparse:alg2": ("x", COLOURS[1]), "cusparse:alg3": ("+", COLOURS[7])}
RIVALS = list(zip("^v<>dph*", [COLOURS[3], COLOURS[0], COLOURS[4], COLOURS[7], COLOURS[1], COLOURS[6], COLOURS[3], COLOURS[0]]))


def mark(products, name):
    return MARKS.get(name) or RIVALS[products.rivals.index(name) % len(RIVALS)]


def dots(plt, about, products, value, axis, title, line=None):
    """A row for each product, a mark for each contender, a logarithmic axis; `line`: a vertical line and its name."""
    names = products.products()
    figure, axes = plt.subplots(figsize=(9, 1.6 + 0.3 * len(names)), layout="constrained")
    for name in products.contenders():
        points = [(found, place) for place, product in enumerate(names) if (found := value(product, name)) is not None]
        if points:
            shape, colour = mark(products, name)
            axes.plot(*zip(*points), shape, color=colour, label=name, markersize=7, markeredgewidth=1.5 if shape in "x+" else 0.4,
                      **({} if shape in "x+" else {"markeredgecolor": "black"}))
    if line:
        axes.axvline(line[0], color="black", linewidth=0.8, linestyle="--", label=line[1])
    axes.set(xscale="log", xlabel=axis, ylim=(len(names) - 0.5, -0.5))
    plain_numbers(axes.xaxis)
    axes.set_yticks(range(len(names)), names)
    axes.grid(linewidth=0.3)
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    axes.set_title(f"{title}\n{about['gpu']}, driver {about['driver']}, commit {about['commit'][:12]}, {about['precision']}; medians", fontsize=9)
    return figure


def draw(about, products, out):
    """Writes OUT-time, OUT-memory and OUT-bound as .svg and .png; returns their paths. Raises Missing without matplotlib."""
    plt, stem = pyplot(), out.with_suffix("")

    def memory(product, name):
        found = products.memory(product, name)
        return found and found[0] / found[1]

    pictures = {"time": (products.ms, "time of a call (ms)", "How long does a product take? Temporaries freed, except by warm and same", None),
                "memory": (memory, "all memory at the peak / (A + B + C + 24 bytes a row)", "How much memory does a product need?", (1.05, "aim")),
                "bound": (products.share, "share of the bound (%)", "How near is a product to the time that its operands and C take to move?", None)}
    paths = []
    for name, (value, axis, title, line) in pictures.items():
        if any(value(product, contender) is not None for product in products.products() for contender in products.contenders()):
            paths += save(plt, dots(plt, about, products, value, axis, title, line), f"{stem}-{name}")
    return paths
