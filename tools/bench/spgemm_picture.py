"""Draws the results of spgemm.py as figures 5.1 to 5.3 of the thesis. Only this file needs matplotlib."""

from picture import COLOURS, pyplot, save


def scatter(axes, methods, matrix, kernel):
    rounds = [(figure["ms_median"], figure["efficiency"], size) for size, figure in methods.rounds(matrix, kernel)]
    if rounds:
        axes.plot([ms for ms, *_ in rounds], [percent for _, percent, _ in rounds], "p", color=COLOURS[5], label="rounds")
        for ms, percent, size in rounds:
            axes.annotate(str(size), (ms, percent), fontsize=5, xytext=(2, 2), textcoords="offset points")
    for method, marker, colour in (("upper-bound", "s", COLOURS[6]), ("precise", "^", COLOURS[3]), ("rounds auto vmm", "*", COLOURS[1]),
                                ("cusparse:alg1", "x", COLOURS[0])):
        figure = methods.get(matrix, method, "hash" if method.startswith("cusparse") else kernel)
        if figure and not (kernel == "thesis" and method.startswith("cusparse")):
            axes.plot(figure["ms_median"], figure["efficiency"], marker, color=colour, label=method)
    axes.set(title=matrix, ylim=(0, 105))
    axes.title.set_fontsize(8)
    axes.set_xlim(left=0)
    axes.tick_params(labelsize=6)
    axes.grid(linewidth=0.3)


def vectors(axes, methods, matrix, kernel):
    """Time to grow, by mapping and by copying, over size_per_row."""
    for vector, marker, colour in (("vmm", "o", COLOURS[5]), ("copy", "s", COLOURS[6])):
        points = [(size, figure["grow_ms"]) for size, figure in methods.rounds(matrix, kernel, vector) if figure.get("grow_ms")]
        if points:
            axes.plot(*zip(*points), marker=marker, markersize=3, linewidth=1, color=colour, label=vector)
    axes.set(xlabel="size_per_row", yscale="log")
    axes.set_title(f"{matrix}: growing, ms", fontsize=8)
    axes.tick_params(labelsize=6)
    axes.grid(linewidth=0.3)
    axes.legend(fontsize=6)


def warps(axes, found, matrix, kernel):
    """Figure 5.2: active warps of each call, in the order of calls."""
    for (name, calls), marker, colour in zip([one for one in found.items() if one[0].startswith(f"{matrix}|{kernel}|")], "os", COLOURS[5:]):
        axes.plot(range(1, len(calls) + 1), [call["warps"] for call in calls], marker=marker, markersize=3, linewidth=1, color=colour,
                  label=f"size_per_row {name.split('|')[2]}")
    axes.set(xlabel="call")
    axes.set_ylim(bottom=0)
    axes.set_title(f"{matrix}, kernel {kernel}: active warps an SM", fontsize=8)
    axes.tick_params(labelsize=6)
    axes.grid(linewidth=0.3)
    axes.legend(fontsize=6)


def draw(about, methods, out):
    """Writes the picture as `out` with the suffixes .svg and .png and returns both paths. Raises Missing without matplotlib."""
    plt = pyplot()
    panels = [(scatter, matrix, kernel) for kernel in methods.kernels() for matrix in methods.matrices() if methods.get(matrix, "precise", kernel)]
    panels += [(vectors, matrix, "hash") for matrix in methods.matrices() if methods.rounds(matrix, "hash", "copy")]
    counted = about.get("warps") or {}
    panels += [(warps, *pair) for pair in dict.fromkeys(tuple(name.split("|")[:2]) for name, calls in counted.items() if calls)]
    columns = 4
    figure, grid = plt.subplots((len(panels) + columns - 1) // columns, columns, figsize=(14, 2.8 * ((len(panels) + columns - 1) // columns)),
                                layout="constrained", squeeze=False)
    for axes, (paint, what, kernel) in zip(grid.flat, panels):
        paint(axes, counted if paint is warps else methods, what, kernel)
        if paint is scatter and kernel == "thesis":
            axes.set_title(f"{what}, kernel of the thesis", fontsize=8)
    for axes in grid.flat[len(panels):]:
        axes.axis("off")
    grid.flat[0].legend(fontsize=6)
    figure.suptitle(f"Memory efficiency (%) against time (ms): {about['gpu']}, driver {about['driver']}, commit {about['commit']}", fontsize=10)
    return save(plt, figure, out.with_suffix(""))
