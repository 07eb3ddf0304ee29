#!/usr/bin/env python3
"""Checks that no sentence of the documents, the manuals and the comments of public headers is too long.

usage: check_sentences.py FILE...

A sentence ends with . ? or !, with its paragraph, or with its list item. Its words are what blanks separate; code in backquotes is
one word. Code, tables, headings and what a script writes between markers are no prose. A sentence of more than LIMIT words fails.
"""
import re
import sys

LIMIT = 30
BREAK = re.compile(r'\n\s*\n|\n\s*(?=(?:[-*]|\d+\.)\s)')
ABBREVIATIONS = r'(?<!\be\.g)(?<!\bi\.e)(?<!\bcf)(?<!\bvs)(?<!\bal)(?<!\bincl)'
END = re.compile(ABBREVIATIONS + r'(?<!\.\.)[.?!][)\]"\'*_]*\s+')
FONT = re.compile(r'\.[BIR]([BIR]?)\s+(.*)')


def markdown(text):
    """Paragraphs and list items."""
    text = re.sub(r'<!-- ([a-z]+)( [\w-]+)? -->.*?<!-- /\1 -->', '\n\n', text, flags=re.DOTALL)
    text = re.sub(r'^```.*?^```', '', text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r'^(?: {4}.*|\|.*|#.*)$', '', text, flags=re.MULTILINE)
    text = re.sub(r'`[^`]+`', 'CODE', text)
    text = re.sub(r'\]\([^)\s]*\)', ']', text)
    return BREAK.split(text)


def roff(text):
    """The text between requests that begin something new; requests for a font are part of it."""
    text = re.sub(r'^\.(nf|EX)$.*?^\.(fi|EE)$', '.PP', text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r'^\.SH SYNOPSIS$.*?(?=^\.SH)', '', text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r'\\f[BIRP]|\\&', '', text).replace('\\-', '-').replace('\\ ', ' ')
    paragraphs, tag = [''], False
    for line in text.splitlines():
        font = FONT.match(line)
        if line.startswith('.') and not font or not line:
            paragraphs.append('')
            tag = line.startswith('.TP')
            continue
        if font:
            line = ''.join(quoted or word for quoted, word in re.findall(r'"([^"]*)"|(\S+)', font[2])) if font[1] else font[2]
        paragraphs[-1] += line + '\n'
        if tag:
            paragraphs.append('')
            tag = False
    return paragraphs


def header(text):
    """The paragraphs of comments."""
    paragraphs = []
    for comment in re.findall(r'/\*.*?\*/|(?:^ *//[^\n]*\n)+', text, flags=re.DOTALL | re.MULTILINE):
        comment = re.sub(r'^ *(?:/?\*|//) ?|\*/$', '', comment, flags=re.MULTILINE)
        comment = re.sub(r'^ {2,}.*$', '', comment, flags=re.MULTILINE)
        paragraphs += BREAK.split(comment)
    return paragraphs


def sentences(path, text):
    split = roff if path.endswith('.in') else markdown if path.endswith('.md') else header
    for paragraph in split(text):
        for sentence in END.split(paragraph + ' '):
            words = [word for word in sentence.split() if re.search(r'\w', word)]
            yield len(words), ' '.join(sentence.split())


def main():
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    troubles = []
    for path in sys.argv[1:]:
        with open(path, encoding='utf-8') as file:
            counted = list(sentences(path, file.read()))
        if not any(words for words, _ in counted):
            troubles.append(f'{path}: no sentence was found')
        troubles += [f'{path}: {words} words, at most {LIMIT} are allowed: {sentence}' for words, sentence in counted if words > LIMIT]
    print('\n'.join(troubles))
    return 1 if troubles else 0


if __name__ == '__main__':
    sys.exit(main())
