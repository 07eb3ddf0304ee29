"""Operations on one definition of a source file, by which the table of tools/mutate breaks the code.

A row names a file, the definition in it (a function, a variable with an initialiser, a macro, a row of a
table such as "GM_ROW(X, name", or "" for the whole file), and one operation. An operation finds its place by a few tokens, so that it holds while lines around it
change. Where it finds no place, or several, it fails and says so.

    returns(value)              the function begins with: return value
    gives(value[, at])          the return statement with the tokens `at` (or the only one) gives `value`
    drops(at)                   the statement with `at` is left out
    always(at), never(at)       the operand of && || ! ?: with `at` is true or false
    enters(at), skips(at)       the whole condition of an if, while or for with `at` is true or false
    sets(target, value)         the assignment or initialiser of `target` gets `value`
    answers(call, value)        the call of the function `call` is left out and answers `value`
    passes(call, number, value) argument `number`, from 0, of the call is `value`
    leaves_out()                there is no such definition
    swaps(old, new[, at])       at most five tokens are others, in the statement with `at` if it is given
"""
import re

TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|(?P<token>"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|[A-Za-z_]\w*|\.?\d[\w.]*|'
                   r"<<=|>>=|\.\.\.|->|\+\+|--|<<|>>|[-<>=!+*/%&|^]=|&&|\|\||::|[^\w\s])", re.DOTALL)
PYTHON = re.compile(TOKEN.pattern.replace(r"//[^\n]*|/\*.*?\*/", r"#[^\n]*"), re.DOTALL)
PAIRS = {"(": ")", "[": "]", "{": "}"}
HEADS = {"if", "while", "for", "switch", "elif"}
HINTS = {"GM_LIKELY", "GM_UNLIKELY"}
MOST_TOKENS = 5


class Definition:
    """The tokens of a definition; `first` is the one behind its head."""

    def __init__(self, text, name, file):
        self.text, self.name, self.file, self.python = text, name, file, file.endswith(".py")
        found = list((PYTHON if self.python else TOKEN).finditer(text))
        self.tokens = [match for match in found if match["token"]]
        self.words = [match["token"] for match in self.tokens]
        self.first, self.end = self.span(name) if name else (0, len(self.words))

    def fail(self, why):
        raise ValueError(f"{self.file}, {self.name or 'the whole file'}: {why}")

    def close(self, i):
        """The token behind the bracket that closes the one at `i`."""
        depth = 0
        for j in range(i, len(self.words)):
            depth += (self.words[j] in PAIRS) - (self.words[j] in PAIRS.values())
            if not depth:
                return j + 1
        self.fail("brackets do not match")

    def span(self, name):
        wanted = [match["token"] for match in TOKEN.finditer(name)]
        spans = [span for i in self.places(wanted, 0, len(self.words)) if (span := self.span_at(i, i + len(wanted)))]
        return spans[0] if len(spans) == 1 else self.fail(f"it has {len(spans)} definitions of this name, not one")

    def span_at(self, i, j):
        words, text = self.words, self.text
        if self.python:
            if i == 0 or words[i - 1] not in ("def", "class"):
                return None
            start = self.tokens[i - 1].start()
            indent = start - text.rfind("\n", 0, start) - 1
            over = re.compile(r"\n {0,%d}[^\s)]" % indent).search(text, start)
            end = over.start() if over else len(text)
            return self.close(j) + 1, next((k for k in range(j, len(words)) if self.tokens[k].start() > end), len(words))
        if words[j - 1] != "(" and i > 1 and words[i - 2:i] == ["#", "define"]:
            end = re.compile(r"[^\\]\n").search(text, self.tokens[j - 1].end() - 1).end()
            return j, next((k for k in range(j, len(words)) if self.tokens[k].start() >= end), len(words))
        if "(" in words[i:j]:  # a row, or a function that a macro heads
            end = self.close(next(k for k in range(i, j) if words[k] == "("))
            while words[end:end + 1] in (["const"], ["noexcept"]):
                end += 1
            return (end + 1, self.close(end)) if words[end:end + 1] == ["{"] else (i, end)
        if words[i - 1] in ("struct", "union", "enum") and words[j] == "{":
            return j + 1, self.close(j)
        if words[j] == "(":
            j = self.close(j)
            while words[j:j + 1] and words[j] in ("const", "noexcept", "override", "__attribute__", "("):
                j = self.close(j) if words[j] == "(" else j + 1
            while words[j:j + 1] and (words[j] == ":" or words[j - 1:j] == [","]):  # members of a constructor
                j = self.close(j + 2)
            return (j + 1, self.close(j)) if words[j:j + 1] == ["{"] else None
        while words[j] == "[":
            j = self.close(j)
        if words[j] != "=" or words[i - 1] in (".", "->") or words[i - 1] in ";{}":
            return None
        end = j
        while words[end] != ";":
            end = self.close(end) if words[end] in PAIRS else end + 1
        return j + 1, end + 1

    def places(self, wanted, first, end):
        return [i for i in range(first, end - len(wanted) + 1) if self.words[i:i + len(wanted)] == wanted]

    def find(self, at, first=None, end=None):
        """Where the tokens `at` begin and end."""
        wanted = [match["token"] for match in TOKEN.finditer(at)]
        first, end = (self.first, self.end) if first is None else (first, end)
        found = self.places(wanted, first, end)
        return (found[0], found[0] + len(wanted)) if len(found) == 1 else self.fail(f"it has {len(found)} times '{at}', not once")

    def pieces(self):
        """("head" of an if, while or for, or "statement", its first token, the token behind it)"""
        i = begin = self.first
        while i < self.end:
            word = self.words[i]
            if begin == i and word in HEADS:
                end = self.close(i + 1) if not self.python else next(k for k in range(i, self.end) if self.words[k] == ":")
                head = (i + 2, end - 1) if not self.python else (i + 1, end)
                if word == "for" and ";" in self.words[i:end]:
                    first = self.words.index(";", i, end) + 1
                    head = first, self.words.index(";", first, end)
                yield "head", *head
                i = begin = end
            elif begin == i and word in ("else", "do", "{", "}", ";", ":"):
                i = begin = i + 1
            elif word == ";" or self.ends_line(i):
                yield "statement", begin, i + (word != ";" or 1)
                i = begin = i + 1
            elif word in PAIRS:
                i = self.close(i)
                if self.ends_line(i - 1):
                    yield "statement", begin, i
                    begin = i
            elif word == "}":
                i = begin = i + 1
            else:
                i += 1

    def ends_line(self, i):
        return self.python and (i + 1 >= len(self.words) or "\n" in self.text[self.tokens[i].end():self.tokens[i + 1].start()])

    def piece(self, kind, at):
        """The head or statement with `at`, which may stand in it more than once."""
        wanted = [match["token"] for match in TOKEN.finditer(at)]
        found = [(begin, end) for what, begin, end in self.pieces() if kind in (what, "any") and self.places(wanted, begin, end)]
        return found[0] if len(found) == 1 else self.fail(f"it has {len(found)} of kind {kind} with '{at}', not one")

    def operand(self, at):
        """The operand of a condition around the tokens `at`."""
        begin = self.find(at)[0]
        end = begin + 1
        while True:
            while self.words[begin - 1] not in ("&&", "||", "?", ":", ";", ",", "{", "}", "(", "[", "return", "=", "and", "or"):
                begin = self.opening(begin - 1) if self.words[begin - 1] in PAIRS.values() else begin - 1
            while self.words[end] not in ("&&", "||", "?", ":", ";", ",", ")", "]", "}", "and", "or"):
                end = self.close(end) if self.words[end] in PAIRS else end + 1
            is_argument = self.words[begin - 1] in "([," and self.words[end] in ")],"
            if not is_argument or self.words[begin - 2] in HEADS | HINTS | {"return", "=", "!", "&&", "||", "(", "?", ":"}:
                return begin, end
            while self.words[begin - 1] not in PAIRS:  # an argument: the whole call, then
                begin = self.opening(begin - 1) if self.words[begin - 1] in PAIRS.values() else begin - 1
            end = self.close(begin - 1)
            begin -= 1

    def without(self, at, word, python_word, value):
        """The operand with `at` is `value`: it is left out of a chain of `word`."""
        begin, end = self.operand(at)
        if self.words[end] in (word, python_word):
            return self.replaced(begin, end + 1, "")
        if self.words[begin - 1] in (word, python_word):
            return self.replaced(begin - 1, end, "")
        return self.replaced(begin, end, value.capitalize() if self.python else value)

    def opening(self, i):
        depth = 0
        while True:
            depth += (self.words[i] in PAIRS.values()) - (self.words[i] in PAIRS)
            if not depth:
                return i
            i -= 1

    def value(self, i):
        """Behind the expression that begins at `i`."""
        while self.words[i] not in (",", ";", ")", "]", "}"):
            i = self.close(i) if self.words[i] in PAIRS else i + 1
        return i

    def call(self, name):
        i, j = self.find(name + "(")
        return i, j - 1

    def replaced(self, i, j, new):
        begin = self.tokens[i].start()
        end = self.tokens[j - 1].end() if j > i else begin
        return self.text[:begin] + new + self.text[end:]


def operation(function):
    def named(*arguments):
        def operate(text, name, file):
            result = function(Definition(text, name, file), *arguments)
            return result if result != text else Definition(text, name, file).fail("nothing changes")

        operate.text = f"{function.__name__}({', '.join(map(repr, arguments))})"
        return operate

    return named


@operation
def returns(d, value):
    return d.replaced(d.first, d.first, f"return {value}; " if not d.python else f"return {value}\n")


@operation
def gives(d, value, at="return"):
    begin, end = d.piece("statement", at)
    if d.words[begin] != "return":
        d.fail(f"the statement with '{at}' is no return statement")
    return d.replaced(begin + 1, end - (not d.python), value)


@operation
def drops(d, at):
    begin, end = d.piece("statement", at)
    return d.replaced(begin, end, ";" if not d.python else "pass")


@operation
def always(d, at):
    return d.without(at, "&&", "and", "true")


@operation
def never(d, at):
    return d.without(at, "||", "or", "false")


@operation
def enters(d, at):
    return d.replaced(*d.piece("head", at), "true")


@operation
def skips(d, at):
    return d.replaced(*d.piece("head", at), "false")


@operation
def sets(d, target, value):
    wanted = [match["token"] for match in TOKEN.finditer(target)]
    found = [i + len(wanted) for i in d.places(wanted, d.first, d.end)
             if d.words[i + len(wanted)] in ("=", "+=", "-=", "*=", "|=", "&=")]
    if len(found) != 1:
        d.fail(f"it sets '{target}' {len(found)} times, not once")
    return d.replaced(found[0] + 1, d.value(found[0] + 1), value)


@operation
def answers(d, call, value):
    i, j = d.call(call)
    return d.replaced(i, d.close(j), value)


@operation
def passes(d, call, number, value):
    i = d.call(call)[1] + 1
    for _ in range(number):
        i = d.value(i) + 1
        if d.words[i - 1] != ",":
            d.fail(f"'{call}' has no argument {number}")
    return d.replaced(i, d.value(i), value)


@operation
def leaves_out(d):
    return d.replaced(d.first, d.end, "")


@operation
def swaps(d, old, new, at=None):
    i, j = d.find(old, *(d.piece("any", at) if at else ()))
    return d.replaced(i, j, new) if j - i <= MOST_TOKENS else d.fail(f"'{old}' has more than {MOST_TOKENS} tokens")
