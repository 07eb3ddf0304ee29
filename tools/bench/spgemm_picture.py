"""Pictures of a run of spgemm.py, one for each question. Only this file needs matplotlib.

-sizes: does growing beat counting first, and with which size_per_row? -efficiency: what does memory efficiency cost (figure 5.1 of the thesis)?
-thesis-...: both with the kernel of the thesis. -peers: how much faster than cuSPARSE? -vectors: does mapping grow faster than copying (figure
5.3)? -warps: active warps of each call (figure 5.2)."""

from picture import COLOURS, place_labels, plain_numbers, pyplot, save
from spgemm_results import SIZES, claimed

LINES = (("precise", "-", COLOURS[3]), ("upper-bound", "--", COLOURS[6]))
COLUMNS = 4


def small(axes, title):
    axes.set_title(title, fontsize=8)
    axes.tick_params(labelsize=6)
    axes.grid(linewidth=0.3)


def sizes_axis(axes, found):
    """The thesis' sizes in every panel; 48 and 96 have marks without a number."""
    axes.set_xscale("log", base=2)
    axes.set_xlim(0.85 * min([SIZES[0], *found]), 1.2 * max([SIZES[-1], *found]))
    axes.set_xticks([size for size in SIZES if size & (size - 1) == 0])
    axes.set_xticks([size for size in SIZES if size & (size - 1)], minor=True)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")


def sizes(axes, methods, matrix, kernel):
    """Time over size_per_row; filled marks have 70 to 99 % efficiency."""
    rounds = [(size, figure["ms_median"], claimed(figure["efficiency"])) for size, figure in methods.rounds(matrix, kernel)]
    axes.plot([size for size, *_ in rounds], [ms for _, ms, _ in rounds], color=COLOURS[5], linewidth=1, label="rounds")
    for filled, label in ((True, "rounds, 70 to 99 % efficient"), (False, "rounds, others")):
        chosen = [(size, ms) for size, ms, fits in rounds if fits == filled]
        axes.plot([size for size, _ in chosen], [ms for _, ms in chosen], "o", color=COLOURS[5], markersize=5, fillstyle="full" if filled else "none", label=label)
    auto = methods.get(matrix, "rounds auto vmm", kernel)
    if auto:
        axes.plot(auto["size_per_row"], auto["ms_median"], "*", color=COLOURS[1], markersize=9, label="rounds, sampled size")
    for method, dash, colour in LINES:
        figure = methods.get(matrix, method, kernel)
        if figure:
            axes.axhline(figure["ms_median"], linestyle=dash, color=colour, linewidth=1.2, label=method)
    axes.set(yscale="log")
    sizes_axis(axes, [size for size, *_ in rounds])
    plain_numbers(axes.yaxis)
    axes.margins(y=0.15)
    small(axes, matrix)


def efficiency(axes, methods, matrix, kernel):
    rounds = [(figure["ms_median"], figure["efficiency"], str(size)) for size, figure in methods.rounds(matrix, kernel)]
    axes.plot([ms for ms, *_ in rounds], [percent for _, percent, _ in rounds], "o", markersize=4, color=COLOURS[5], label="rounds; the number is size_per_row")
    shown = list(rounds)
    for method, marker, colour in (("upper-bound", "s", COLOURS[6]), ("precise", "^", COLOURS[3]), ("rounds auto vmm", "*", COLOURS[1])):
        figure = methods.get(matrix, method, kernel)
        if figure:
            axes.plot(figure["ms_median"], figure["efficiency"], marker, markersize=5, color=colour, label=method.replace(" vmm", "").replace("rounds auto", "rounds, sampled size"))
            shown.append((figure["ms_median"], figure["efficiency"], ""))
    axes.set(xscale="log", ylim=(0, 110))
    axes.margins(x=0.15)
    plain_numbers(axes.xaxis)
    small(axes, matrix)
    return shown


def vectors(axes, methods, matrix, kernel):
    for vector, marker, colour, label in (("vmm", "o", COLOURS[5], "by mapping"), ("copy", "s", COLOURS[6], "by copying")):
        points = [(size, figure["grow_ms"]) for size, figure in methods.rounds(matrix, kernel, vector) if figure.get("grow_ms")]
        if points:
            axes.plot(*zip(*points), marker=marker, markersize=3, linewidth=1, color=colour, label=label)
    axes.set(yscale="log")
    sizes_axis(axes, [])
    plain_numbers(axes.yaxis)
    small(axes, matrix)


def warps(axes, found, matrix, kernel):
    """Active warps of each call, in the order of calls."""
    kinds = zip([one for one in found.items() if one[0].startswith(f"{matrix}|{kernel}|")], "os", COLOURS[5:], (7, 3), (2.5, 1))
    for (name, calls), marker, colour, size, width in kinds:  # one shows behind the other
        axes.plot(range(1, len(calls) + 1), [call["warps"] for call in calls], marker=marker, markersize=size, linewidth=width, color=colour,
                  label=f"size_per_row {name.split('|')[2]}")
    axes.set_ylim(bottom=0)
    small(axes, f"{matrix}, kernel {kernel}")


def about_text(about):
    return f"{about['gpu']}, driver {about['driver']}, commit {about['commit'][:12]}"


def grid(plt, panels, title, about, x, y):
    """Axes for `panels` panels and the names of both axes: (figure, axes)."""
    rows = (panels + COLUMNS - 1) // COLUMNS
    figure, found = plt.subplots(rows, min(COLUMNS, panels), figsize=(3.4 * min(COLUMNS, panels) + 1, 2.5 * rows + 1.2), layout="constrained", squeeze=False)
    for axes in found.flat[panels:]:
        axes.axis("off")
    for axes in list(found.flat)[max(0, panels - COLUMNS):panels]:  # the last panel of each column
        axes.set_xlabel(x, fontsize=8)
    figure.suptitle(f"{title}\n{about_text(about)}", fontsize=10)
    figure.supylabel(y, fontsize=9)
    return figure, list(found.flat)[:panels]


def legend(figure, found):
    """One legend for all panels, below them."""
    named = {}
    for axes in found:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            named.setdefault(label, handle)
    height = 0.35 / figure.get_figheight()
    figure.get_layout_engine().set(rect=(0, height, 1, 1 - height))
    figure.legend(named.values(), named.keys(), loc="lower center", ncol=len(named), fontsize=8)


def draw_sizes(plt, about, methods, kernel):
    matrices = [matrix for matrix in methods.matrices() if methods.get(matrix, "precise", kernel) and methods.rounds(matrix, kernel)]
    if not matrices:
        return None
    figure, found = grid(plt, len(matrices), f"Does growing beat counting first, and with which size? Kernel {kernel}", about, "size_per_row", "time (ms)")
    for axes, matrix in zip(found, matrices):
        sizes(axes, methods, matrix, kernel)
    legend(figure, found)
    return figure


def draw_efficiency(plt, about, methods, kernel):
    matrices = [matrix for matrix in methods.matrices() if methods.get(matrix, "precise", kernel)]
    if not matrices:
        return None
    figure, found = grid(plt, len(matrices), f"What does memory efficiency cost? Kernel {kernel}", about, "time (ms)", "memory efficiency (%)")
    points = [efficiency(axes, methods, matrix, kernel) for axes, matrix in zip(found, matrices)]
    legend(figure, found)
    figure.canvas.draw()  # lays the panels out; labels are placed in them
    figure.set_layout_engine("none")
    for axes, shown in zip(found, points):
        place_labels(axes, shown)
    return figure


def draw_peers(plt, about, methods):
    """cuSPARSE over ours: bars that share no axis with times."""
    ours = {"rounds, sampled size": "rounds auto vmm", "precise": "precise"}
    peers = [alg for alg in ("cusparse:alg1", "cusparse:alg2", "cusparse:alg3") if any(methods.get(matrix, alg) for matrix in methods.matrices())]
    matrices = [matrix for matrix in methods.matrices() if any(methods.get(matrix, alg) for alg in peers) and methods.get(matrix, "precise")]
    if not matrices:
        return None
    figure, axes = plt.subplots(figsize=(9, 1.6 + 0.3 * len(matrices)), layout="constrained")
    for alg, marker in zip(peers, "XPd"):
        for (label, method), colour in zip(ours.items(), (COLOURS[5], COLOURS[3])):
            points = [(methods.get(matrix, alg)["ms_median"] / methods.get(matrix, method)["ms_median"], place) for place, matrix in enumerate(matrices)
                      if methods.get(matrix, alg) and methods.get(matrix, method)]
            if points:
                axes.plot(*zip(*points), marker, color=colour, markersize=6, label=f"{alg} / {label}")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set(xscale="log", xlabel="time of cuSPARSE / ours", ylim=(len(matrices) - 0.5, -0.5))
    plain_numbers(axes.xaxis)
    axes.set_yticks(range(len(matrices)), matrices)
    axes.grid(linewidth=0.3)
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    axes.set_title(f"How much faster than cuSPARSE?\n{about_text(about)}", fontsize=9)
    return figure


def draw_vectors(plt, about, methods):
    matrices = [matrix for matrix in methods.matrices() if any(figure.get("grow_ms") for _, figure in methods.rounds(matrix, "hash", "copy"))]
    if not matrices:
        return None
    figure, found = grid(plt, len(matrices), "Does mapping grow faster than copying?", about, "size_per_row", "time to grow (ms)")
    for axes, matrix in zip(found, matrices):
        vectors(axes, methods, matrix, "hash")
    legend(figure, found)
    return figure


def draw_warps(plt, about):
    counted = about.get("warps") or {}
    pairs = list(dict.fromkeys(tuple(name.split("|")[:2]) for name, calls in counted.items() if calls))
    if not pairs:
        return None
    figure, found = grid(plt, len(pairs), "How many warps are active in each call?", about, "call", "active warps of a multiprocessor")
    for axes, pair in zip(found, pairs):
        warps(axes, counted, *pair)
    legend(figure, found)
    return figure


def draw(about, methods, out):
    """Writes OUT-NAME as .svg and .png for each question that the run answers; returns their paths. Raises Missing without matplotlib."""
    plt, stem = pyplot(), out.with_suffix("")
    pictures = {}
    for kernel, prefix in (("hash", ""), ("thesis", "thesis-")):
        pictures[prefix + "sizes"] = draw_sizes(plt, about, methods, kernel)
        pictures[prefix + "efficiency"] = draw_efficiency(plt, about, methods, kernel)
    pictures.update({"peers": draw_peers(plt, about, methods), "vectors": draw_vectors(plt, about, methods), "warps": draw_warps(plt, about)})
    return [path for name, figure in pictures.items() if figure for path in save(plt, figure, f"{stem}-{name}")]
