"""Figures of a run of alloc.py: by contender and row, round by round; and the same from its JSON."""

import statistics

from contenders import ORDER


class Results:
    def __init__(self):
        self.figures = {}  # (contender, row) -> {"medians": {round: ns}, "min", "max", "repetitions", and live, reserved, busy}

    def add(self, contender, turn, line):
        """A Measured line of round `turn`. Memory figures: the largest of all rounds."""
        figure = self.figures.setdefault((contender, line.name), {"medians": {}, "min": line.min, "max": line.max})
        figure["medians"][turn] = line.median
        figure["min"], figure["max"] = min(figure["min"], line.min), max(figure["max"], line.max)
        figure["repetitions"] = line.repetitions
        for key, value in line.more.items():
            figure[key] = min(value, figure.get(key, value)) if key == "busy" else max(value, figure.get(key, 0))

    def has(self, contender, row):
        return (contender, row) in self.figures

    def median(self, contender, row):
        """Median of the rounds' medians, None where it was not measured."""
        figure = self.figures.get((contender, row))
        return statistics.median(figure["medians"].values()) if figure else None

    def more(self, contender, row, key):
        return self.figures.get((contender, row), {}).get(key)

    def ratio(self, contender, row, to, to_row=None):
        """Median of the ratios within each round, None where no round has both."""
        over = self.figures.get((contender, row), {}).get("medians", {})
        under = self.figures.get((to, to_row or row), {}).get("medians", {})
        ratios = [over[turn] / under[turn] for turn in over if under.get(turn)]
        return statistics.median(ratios) if ratios else None

    def added(self, contender, row, to):
        """Median of the differences within each round."""
        over = self.figures.get((contender, row), {}).get("medians", {})
        under = self.figures.get((to, row), {}).get("medians", {})
        differences = [over[turn] - under[turn] for turn in over if turn in under]
        return statistics.median(differences) if differences else None

    def rows(self):
        """In the order they were first seen."""
        return list(dict.fromkeys(row for _, row in self.figures))

    def contenders(self, row=None):
        there = {name for name, its_row in self.figures if row is None or its_row == row}
        return [name for name in ORDER if name in there] + sorted(there - set(ORDER))

    def to_json(self):
        return [{"contender": contender, "row": row, "median": self.median(contender, row),
                 **{key: value for key, value in figure.items() if key != "medians"},
                 "rounds": [[turn, value] for turn, value in sorted(figure["medians"].items())]}
                for (contender, row), figure in self.figures.items()]

    @classmethod
    def from_json(cls, entries):
        made = cls()
        for entry in entries:
            figure = {key: value for key, value in entry.items() if key not in ("contender", "row", "median", "rounds")}
            figure["medians"] = {turn: value for turn, value in entry["rounds"]}
            made.figures[entry["contender"], entry["row"]] = figure
        return made
