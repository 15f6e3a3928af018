"""From the text of a scenario to statements: words, quotes, headers, payload lists. Knows nothing of brokers.

The grammar is told in README.md. A payload is written as one word; `m0*5000` is 'm0' filled up to 5000 bytes that do
not compress, `m0~5000` with bytes that do. `render` turns received bytes back into the same word, so that a payload
that was damaged, cut or mixed with another does not match.
"""
import hashlib
import random
import re
from dataclasses import dataclass, field


class ScenarioSyntax(Exception):
    """The text is not a scenario; carries file:line."""


@dataclass
class Statement:
    line: int
    text: str
    words: list
    only: str = ""          # 'oracle' or 'geminga' when the line starts with @oracle or @geminga


@dataclass
class Scenario:
    path: str
    headers: dict = field(default_factory=dict)
    statements: list = field(default_factory=list)

    @property
    def timeout(self):
        return float(self.headers.get("timeout", 60))

    @property
    def config(self):
        pairs = (p.split("=", 1) for p in self.headers.get("config", "").split())
        return {k: v for k, v in pairs}

    def uses(self, *verbs):
        return any(s.words[0] in verbs for s in self.statements)


HEADERS = ("title", "case", "tags", "differs", "timeout", "config")


def split_words(text):
    """Words separated by blanks; '...' and "..." hold blanks; # at the start of a word begins a comment."""
    words, at = [], 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        if text[at] == "#":
            break
        word = ""
        while at < len(text) and not text[at].isspace():
            if text[at] in "'\"":
                end = text.find(text[at], at + 1)
                if end < 0:
                    raise ValueError(f"no closing {text[at]}")
                word += text[at + 1:end]
                at = end + 1
            else:
                word += text[at]
                at += 1
        words.append(word)
    return words


def parse(path):
    scenario = Scenario(str(path))
    repeats = []            # (first statement, count, line) of open 'repeat' blocks
    with open(path, encoding="utf-8") as f:
        for number, raw in enumerate(f, 1):
            text = raw.strip()
            header = re.match(r"([a-z]+):\s*(.*)$", text)
            if header and not scenario.statements:
                if header[1] not in HEADERS:
                    raise ScenarioSyntax(f"{path}:{number}: unknown header '{header[1]}'; known: {', '.join(HEADERS)}")
                scenario.headers[header[1]] = header[2]
                continue
            try:
                words = split_words(text)
            except ValueError as e:
                raise ScenarioSyntax(f"{path}:{number}: {e}") from None
            if not words:
                continue
            only = ""
            if words[0] in ("@oracle", "@geminga"):
                only, words = words[0][1:], words[1:]
            if words[0] == "repeat":
                repeats.append((len(scenario.statements), int(words[1]), number))
            elif words == ["end"]:
                if not repeats:
                    raise ScenarioSyntax(f"{path}:{number}: 'end' without 'repeat'")
                first, count, _ = repeats.pop()
                scenario.statements += scenario.statements[first:] * (count - 1)
            else:
                scenario.statements.append(Statement(number, text, words, only))
    if repeats:
        raise ScenarioSyntax(f"{path}:{repeats[-1][2]}: 'repeat' without 'end'")
    if not scenario.statements:
        raise ScenarioSyntax(f"{path}: no statements")
    if any(s.only for s in scenario.statements) and "differs" not in scenario.headers:
        raise ScenarioSyntax(f"{path}: a scenario with @oracle or @geminga lines says why in a 'differs:' header")
    return scenario


def expand(words):
    """m0..m3 -> m0 m1 m2 m3; the text before the number must be the same on both sides, a *size stays on each."""
    out = []
    for word in words:
        m = re.fullmatch(r"(.*?)(\d+)\.\.(.*?)(\d+)([*~]\d+)?", word)
        if m and m[1] == m[3]:
            out += [f"{m[1]}{n}{m[5] or ''}" for n in range(int(m[2]), int(m[4]) + 1)]
        else:
            out.append(word)
    return out


def options(words):
    """Splits `... with a=b c=d` into the words before and the dict after."""
    if "with" not in words:
        return words, {}
    at = words.index("with")
    pairs = {}
    for word in words[at + 1:]:
        if "=" not in word:
            raise ValueError(f"'{word}' after 'with' is not name=value")
        key, value = word.split("=", 1)
        pairs[key] = value
    return words[:at], pairs


def encode(word):
    m = re.fullmatch(r"(.*)([*~])(\d+)", word, re.S)
    if not m:
        return word.encode()
    head, size = m[1].encode() + b"\n", int(m[3])
    if size < len(head):
        raise ValueError(f"'{word}': the size is smaller than the name")
    if m[2] == "~":
        return head + b"." * (size - len(head))
    return head + random.Random(m[1]).randbytes(size - len(head))


def render(data):
    head, newline, rest = data.partition(b"\n")
    if newline and len(head) < 200:
        try:
            name = head.decode()
        except UnicodeDecodeError:
            return data.hex() if len(data) <= 200 else summary(data)    # encrypted, say
        for mark in "*~":
            word = f"{name}{mark}{len(data)}"
            if encode(word) == data:
                return word
    if len(data) <= 200:
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data.hex()
    return summary(data)


def summary(data):
    return f"<{len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()[:12]}, start {data[:16]!r}>"


def shorten(words, most=60):
    """A list of payloads as it was written: m0 m1 m2 -> m0..m2."""
    out, at = [], 0
    while at < len(words):
        end = at
        m = re.fullmatch(r"(.*?)(\d+)", words[at])
        while m and end + 1 < len(words) and words[end + 1] == f"{m[1]}{int(m[2]) + end + 1 - at}":
            end += 1
        out.append(words[at] if end == at else f"{words[at]} {words[end]}" if end == at + 1 else f"{words[at]}..{words[end]}")
        at = end + 1
    text = " ".join(out[:most]) or "nothing"
    return text if len(out) <= most else f"{text} ... ({len(words)} in all)"
