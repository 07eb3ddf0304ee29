#!/usr/bin/env python3
"""Assembles the template of the page that gpumem html writes, as C source: the text before the data and the text after it.

usage: embed.py [page.html page.css dygraph.min.js dygraph.min.css dygraphs-license.txt script.js...] >page.c

Without files the template is empty, and gpumem html reports that dygraphs is missing. The page allows only these scripts to run, by
their hashes.
"""

import base64
import hashlib
import pathlib
import re
import sys


def script(text):
    """Characters that a script contains exactly as the browser hashes it, without a reference to files that do not exist."""
    return re.sub(r"(?m)^//[#@] sourceMappingURL=.*$", "", text)


def allowed(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def assemble(page, css, library, library_css, license_text, *scripts):
    own = '(function () {\n"use strict";\n' + "".join(scripts) + "}());\n"
    parts = {"STYLE": library_css + css, "LIBRARY": script(library), "SCRIPT": own, "LICENSE": license_text}
    parts["ALLOWED"] = " ".join(allowed(parts[name]) for name in ("LIBRARY", "SCRIPT"))
    for name in ("LIBRARY", "SCRIPT"):
        assert "</script" not in parts[name].lower(), name
    page = re.sub(r"@([A-Z]+)@", lambda match: parts.get(match[1], match[0]), page)
    before, after = page.split("@DATA@")
    return before, after


def array(name, text):
    content = text.encode()
    lines = [", ".join(map(str, content[at:at + 32])) for at in range(0, len(content), 32)]
    signed = ",\n".join(lines)
    return f"const unsigned char {name}[] = {{{signed}{', ' if content else ''}0}};\nconst size_t {name}_bytes = {len(content)};\n"


def main():
    files = [pathlib.Path(name).read_text(encoding="utf-8") for name in sys.argv[1:]]
    before, after = assemble(*files) if files else ("", "")
    sys.stdout.write('#include "tools/cli/html_page.h"\n' + array("gm_html_before", before) + array("gm_html_after", after))


if __name__ == "__main__":
    main()
