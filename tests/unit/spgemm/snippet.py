#!/usr/bin/env python3
"""Copies the first C program of a document into a file.

usage: snippet.py DOCUMENT OUT.c
"""

import pathlib
import re
import sys

pathlib.Path(sys.argv[2]).write_text(re.search(r"```c\n(.*?)```", pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"), re.DOTALL).group(1))
