#!/usr/bin/env python3
"""Draws pictures of traces and writes one report. gpumem plot checks the arguments and runs this program, which reads traces by running
gpumem report and gpumem export."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

SYSTEM_PYTHON = "/usr/bin/python3"


class Trouble(Exception):
    """gpumem has already printed the error."""


class Progress:
    """A line on a terminal with the percentage of steps that are done, if the work takes longer than two seconds."""

    def __init__(self):
        self.begin, self.shown, self.done, self.steps = time.monotonic(), False, 0, 1

    def __call__(self, text):
        """The next step begins."""
        if sys.stderr.isatty() and time.monotonic() - self.begin > 2:
            # The cursor returns to the start of the line, so that a message overwrites it.
            sys.stderr.write(f"\r\033[Kgpumem: plot: {text}, {min(100 * self.done // self.steps, 99)} %\r")
            sys.stderr.flush()
            self.shown = True
        self.done += 1

    def end(self):
        if self.shown:
            sys.stderr.write("\r\033[K")


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tool", required=True)
    parser.add_argument("--output", required=True, type=pathlib.Path)
    parser.add_argument("--top", type=int, required=True)
    parser.add_argument("--zoom", type=int, required=True)
    parser.add_argument("traces", nargs="+")
    return parser.parse_args()


def gpumem(tool, *words):
    """Starts gpumem; error messages go to the user."""
    return subprocess.Popen([tool, *words], stdout=subprocess.PIPE)


def start_series(options, trace):
    """Reads the numbers of a trace's pictures, and its report."""
    return gpumem(options.tool, "plot", "--json", f"--zoom={options.zoom}", "--", trace)


def series_of(program):
    text = program.communicate()[0]
    if program.returncode:
        raise Trouble
    return json.loads(text)


def draw_all(options, progress):
    """True if all traces were readable."""
    progress("reading")
    alone = len(options.traces) == 1 and os.path.isfile(options.traces[0])
    program = start_series(options, options.traces[0]) if alone else \
        gpumem(options.tool, "report", "--json", "--peak", "--phases", "--reserved", "--", *options.traces)

    import data
    import page
    import pictures
    import style

    plt, only = style.pyplot(), None
    if alone:
        only = series_of(program)
        document = only["report"]
    else:
        text = program.communicate()[0]
        document = json.loads(text) if text else {"traces": []}
    traces = document["traces"]
    if not traces:
        raise Trouble
    options.output.mkdir(parents=True, exist_ok=True)
    drawn = []
    progress.steps = 1 + len(traces) * (1 + len(pictures.PICTURES))
    for place, trace in enumerate(traces, 1):
        which, begin = "", ""
        if len(traces) > 1:
            which = f"trace {place} of {len(traces)}, "
            begin = f"{place:0{len(str(len(traces)))}d}-{trace['process']['pid']}-"
        progress(f"{which}reading")
        subject = pictures.Subject(data.Series(only or series_of(start_series(options, trace["file"]))), trace)
        made = []
        for picture in pictures.PICTURES:
            progress(f"{which}{picture.name}")
            figure = picture.make(plt, subject)
            if figure:
                made.append((picture, style.save(plt, figure, options.output / f"{begin}{picture.name}")))
        drawn.append((trace, made))
    page.write(options.output / "report.html", document, drawn, options.top)
    return program.returncode == 0


def needs_other_python(error):
    """matplotlib is missing in this Python, and the system's Python is not tried yet."""
    return (isinstance(error, ImportError) and os.path.realpath(sys.executable) != os.path.realpath(SYSTEM_PYTHON) and
            os.access(SYSTEM_PYTHON, os.X_OK))


def say(path):
    """Prints the name of what was written. None, or an error message."""
    if sys.stdout is None:
        return "gpumem: plot: standard output: closed"
    try:
        os.write(1, os.fsencode(path) + b"\n")
    except OSError as error:
        return f"gpumem: plot: standard output: {error.strerror}"
    return None


def main():
    options, progress = arguments(), Progress()
    try:
        import matplotlib
        import numpy
        assert matplotlib and numpy
    except ImportError as error:
        if needs_other_python(error):
            os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, *sys.argv])
        sys.exit(f"gpumem: plot: {error.name} is missing; install python3-matplotlib, or matplotlib from PyPI")
    try:
        complete = draw_all(options, progress)
        return say(options.output / "report.html") or (0 if complete else 1)
    except Trouble:
        return 1
    except OSError as error:
        return f"gpumem: plot: {error.filename or options.output}: {error.strerror}"
    except KeyboardInterrupt:
        return 130
    finally:
        progress.end()


if __name__ == "__main__":
    sys.exit(main())
