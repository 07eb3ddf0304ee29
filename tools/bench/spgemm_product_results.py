"""Results of a run of spgemm_product.py by product and contender; its tables and verdicts.

Bytes. A matrix of n rows and m entries takes 4 (n + 1) + (4 + size of a value) m bytes. What must move: all of A once, the rows of B to which A
refers once (nothing more if B is A), and C once. The bound is that divided by the bandwidth of the card's data sheet.

Memory. All of a product: A, B (once, if B is A) and the peak of what the call allocates, C included, by an allocation counter. The base is A,
B, C and 24 bytes for each row of A.
"""

from figure_text import block, items, span, titled
from spgemm_results import geometric, table

OURS = ["ours cold", "ours warm", "ours same"]
PEERS = ["cusparse:alg1", "cusparse:alg2", "cusparse:alg3"]
FIRST, LATER = ["ours cold", "ours warm", "cusparse:alg1"], ["ours same", "cusparse:alg2", "cusparse:alg3"]
ALL = [*OURS, *PEERS]
MIB = 1 << 20

# The aims, in ms on an H200 in double precision: (product, contender) -> at most.
AIMS = {("atmosmodl", "ours cold"): 0.9, ("atmosmodl", "ours warm"): 0.5, ("twin-pwtk", "ours cold"): 2.5, ("nlpkkt80", "ours cold"): 6,
        ("cage14", "ours cold"): 7, ("rmat-18", "ours cold"): 20, ("elastic-78", "ours cold"): 14, ("dense-rows", "ours cold"): 20}
AIM_PUBLIC, AIM_PUBLIC_LEAST, AIM_CUSPARSE = 2.5, 1.2, 6
AIM_MEMORY, AIM_MEMORY_MORE = 1.05, 16 * MIB


class Products:
    def __init__(self, document):
        self.about, self.figures = document, document["figures"]
        self.rivals = list(document.get("rivals") or {})

    def products(self):
        return list(dict.fromkeys(key.split("|")[0] for key in self.figures))

    def contenders(self):
        return [*OURS, *PEERS, *self.rivals]

    def get(self, product, contender):
        figure = self.figures.get(f"{product}|{contender}")
        return figure if figure and "ms_median" in figure else None

    def word(self, product, contender):
        """Why there is no time: "memory", "time", "failed" or "wrong"; "-" when it did not run."""
        return self.figures.get(f"{product}|{contender}", {}).get("kind", "-")

    def ms(self, product, contender, which="ms_median"):
        """Time of a call with what freeing its temporaries takes."""
        figure = self.get(product, contender)
        return figure[which] + figure.get("trim_ms", 0) if figure else None

    def csr_bytes(self, rows, entries):
        value = 4 if self.about["precision"] == "float" else 8
        return 4 * (rows + 1) + (4 + value) * entries

    def nnz(self, product):
        return next((figure["nnz_c"] for contender in self.contenders() if (figure := self.get(product, contender))), None)

    def operand_bytes(self, product):
        """Of A and B; None when their sizes are not known."""
        about = self.about["products"].get(product) or {}
        if "rows" not in about:
            return None
        return self.csr_bytes(about["rows"], about["stored"]) + (self.csr_bytes(about["b_rows"], about["b_stored"]) if about["b"] else 0)

    def result_bytes(self, product):
        about, nnz = self.about["products"].get(product) or {}, self.nnz(product)
        return self.csr_bytes(about["rows"], nnz) if "rows" in about and nnz is not None else None

    def memory(self, product, contender):
        """(all bytes at the peak, base); None where either is not known."""
        figure, operands, result = self.get(product, contender), self.operand_bytes(product), self.result_bytes(product)
        if not figure or not figure.get("peak_bytes") or operands is None or result is None:
            return None
        return operands + figure["peak_bytes"], operands + result + 24 * self.about["products"][product]["rows"]

    def must_move(self, product):
        about, result = self.about["products"].get(product) or {}, self.result_bytes(product)
        if result is None:
            return None
        touched = self.csr_bytes(about["touched_rows"], about["touched"]) if about["b"] else 0
        return self.csr_bytes(about["rows"], about["stored"]) + touched + result

    def bound_ms(self, product):
        moved, bandwidth = self.must_move(product), self.about.get("bandwidth")
        return moved / bandwidth / 1e9 if moved and bandwidth else None

    def share(self, product, contender):
        """Of the bound, in %: 100 would be all of the card's bandwidth for nothing but what must move."""
        bound, ms = self.bound_ms(product), self.ms(product, contender)
        return 100 * bound / ms if bound and ms else None

    def public(self, product):
        """The fastest of the others: (contender, ms)."""
        times = [(ms, name) for name in [*PEERS, *self.rivals] if (ms := self.ms(product, name))]
        return min(times)[::-1] if times else None

    def ratios(self, numerator, ours="ours cold"):
        """numerator(product) over our time, by product."""
        return {product: value / ms for product in self.products() if (ms := self.ms(product, ours)) and (value := numerator(product))}

    def against_public(self):
        return self.ratios(lambda product: (self.public(product) or (None, None))[1])


def number(value, form="{:.3g}"):
    return "-" if value is None else form.format(value)


def time_cell(products, product, contender):
    ms = products.ms(product, contender)
    return products.word(product, contender) if ms is None else number(ms)


def times(products):
    names, rows = products.contenders(), []
    for product in products.products():
        best = products.public(product)
        ours = products.ms(product, "ours cold")
        rows.append([product, *[time_cell(products, product, name) for name in names], number(best[1] / ours, "{:.2f}") if best and ours else "-",
                     best[0] if best else "-"])
    means = [geometric(list(products.ratios(lambda product: products.ms(product, name)).values())) for name in names]
    rows.append(["geometric mean, over ours cold", *[number(mean, "{:.2f}") for mean in means],
                 number(geometric(list(products.against_public().values())), "{:.2f}"), ""])
    return table(["ms", *names, "best other / ours", "the best other"], rows)


def spreads(products):
    rows = []
    for product in products.products():
        for name in products.contenders():
            figure = products.get(product, name)
            if figure:
                rows.append([f"{product}, {name}", *[number(figure[which], "{:.3f}") for which in ("ms_min", "ms_median", "ms_max")],
                             number(figure.get("trim_ms"), "{:.3f}"), number(figure.get("peak_bytes", 0) / MIB, "{:.0f}") if figure.get("peak_bytes") else "-"])
    return table(["call alone, ms", "least", "median", "most", "freeing after it", "peak MiB"], rows)


def memories(products):
    rows, names = [], [name for name in products.contenders() if any(products.memory(product, name) for product in products.products())]
    if not names:
        return ""
    for product in products.products():
        cells = [products.memory(product, name) for name in names]
        base = next((cell[1] for cell in cells if cell), None)
        rows.append([product, number(base and base / MIB, "{:.0f}"), *[number(cell and cell[0] / cell[1], "{:.2f}") for cell in cells]])
    return table(["all memory at the peak / (A + B + C + 24 bytes a row)", "base, MiB", *names], rows)


def bounds(products):
    rows, names = [], products.contenders()
    for product in products.products():
        rows.append([product, number((products.must_move(product) or 0) / MIB or None, "{:.0f}"), number(products.bound_ms(product)),
                     *[number(products.share(product, name), "{:.1f}") for name in names]])
    return table(["% of the bound", "must move, MiB", "bound, ms", *names], rows)


def sizes(products):
    rows = []
    for product in products.products():
        about, nnz = products.about["products"].get(product) or {}, products.nnz(product)
        if "rows" in about:
            rows.append([product, about["a"], about["b"] or "A", about["rows"], about["stored"], about["products"], nnz if nnz is not None else "-",
                         number(about["products"] / nnz if nnz else None, "{:.2f}")])
    return table(["", "A", "B", "rows", "nnz(A)", "intermediate products", "nnz(C)", "compression"], rows)


def verdict(met):
    return "met" if met else "MISSED"


def aims(products):
    """(text, met) of each aim that can be judged."""
    for (product, name), most in AIMS.items():
        ms = products.ms(product, name)
        if ms is not None:
            yield f"{product}, {name}: {number(ms)} ms (<= {most})", ms <= most
    against = products.against_public()
    if against:
        mean, least = geometric(list(against.values())), min(against, key=against.get)
        yield f"best other / ours cold, geometric mean of {len(against)}: {mean:.2f} (>= {AIM_PUBLIC})", mean >= AIM_PUBLIC
        yield f"best other / ours cold, least: {against[least]:.2f}, {least} (>= {AIM_PUBLIC_LEAST})", against[least] >= AIM_PUBLIC_LEAST
    cusparse = products.ratios(lambda product: products.ms(product, "cusparse:alg1"))
    if cusparse:
        mean = geometric(list(cusparse.values()))
        yield f"cuSPARSE alg1 / ours cold, geometric mean of {len(cusparse)}: {mean:.2f} (>= {AIM_CUSPARSE})", mean >= AIM_CUSPARSE
    found = {product: memory for product in products.products() if (memory := products.memory(product, "ours cold"))}
    beyond = [product for product, (peak, base) in found.items() if peak > AIM_MEMORY * base + AIM_MEMORY_MORE]
    if found:
        yield (f"peak memory, ours cold, within {AIM_MEMORY} x (A + B + C + 24 bytes a row) + {AIM_MEMORY_MORE // MIB} MiB: "
               f"{len(found) - len(beyond)} of {len(found)}" + (f"; beyond: {', '.join(beyond)}" if beyond else "")), not beyond


def text(about, products):
    lines = [f"Sparse products: {about['gpu']}, driver {about['driver']}, commit {about['commit']}, {about['precision']}; medians; runs: {about['runs']}",
             "operands on the device; until C is complete, temporaries freed (not by warm and same), device idle"]
    parts = ["\n".join(lines), times(products), memories(products), bounds(products), sizes(products), spreads(products)]
    found = [f"{verdict(met)}: {what}" for what, met in aims(products)]
    if found:
        parts.append("\n".join(["Aims (for an H200, double precision)", *found]))
    failed = [f"{key.replace('|', ', ')}: {figure['error'][:300]}" for key, figure in products.figures.items() if "error" in figure]
    if failed:
        parts.append("\n".join(["Without a time", *failed]))
    if about.get("left_out"):
        parts.append(f"Left out, no time ({len(about['left_out'])}): {', '.join(about['left_out'])}")
    return "\n\n".join(part for part in parts if part)


# ---- blocks of documents

def product_peers(products):
    """The programs of users take the place of cuSPARSE's slower algorithms."""
    first, *rest = PEERS
    return [first, *(products.rivals or rest)]


def product_times(products, product):
    """Least and most of a cold call, and the medians of the others."""
    cold = products.get(product, "ours cold")
    first = f"{products.ms(product, 'ours cold'):.3g} ({span([products.ms(product, 'ours cold', end) for end in ('ms_min', 'ms_max')], '{:.3g}')})" if cold \
        else products.word(product, "ours cold")
    return [first, *[time_cell(products, product, name) for name in ("ours warm", "ours same", *product_peers(products))]]


@block("*-spgemm-product*.json")
def spgemm_product(run):
    products, rows = Products(run.about), []
    for product in products.products():
        best, ours, memory = products.public(product), products.ms(product, "ours cold"), products.memory(product, "ours cold")
        rows.append([product, *product_times(products, product), f"{best[1] / ours:.2f} {best[0].replace('cusparse:', '')}" if best and ours else "-",
                     number(memory and memory[0] / memory[1], "{:.2f}"), number(products.share(product, "ours cold"), "{:.0f}")])
    return titled(f"{run.made}, {run['precision']} precision, medians in ms, runs: {run['runs']} ({run.file}); `cold` with least and most; `best`: "
                  "the fastest of the others over ours cold; memory and % of the bound of the cold call:",
                  ["", "cold", "warm", "same", *[name.replace("cusparse:", "") for name in product_peers(products)], "best", "memory", "bound"], rows)


@block("*-spgemm-product*.json")
def spgemm_product_aims(run):
    return items(*(f"{'Met' if met else 'Missed'}: {what}." for what, met in aims(Products(run.about))))
