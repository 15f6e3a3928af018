"""The table of verbs and what all of them use. The verbs stand in send.py, receive.py, check.py and control.py."""
import inspect
import re
import time

import pulsar

import world as w

VERBS = {}


def verb(function):
    VERBS[function.__name__.strip("_").replace("_", "-")] = function
    return function


def execute(world, words):
    function = VERBS.get(words[0])
    if function is None:
        raise ValueError(f"unknown statement '{words[0]}'; known: {' '.join(sorted(VERBS))}")
    world_words = [re.sub(r"\$(\w+)", lambda m: str(world.variables.get(m[1], m[0])), x) for x in words[1:]]
    try:
        return function(world, *world_words)
    except TypeError as e:
        try:
            inspect.signature(function).bind(world, *world_words)
        except TypeError:
            raise ValueError(f"'{words[0]}' does not take these words: {e}") from None
        raise


def eventually(check, seconds=w.WAIT):
    """Calls check() until it raises no Mismatch and no error of the client; the last of them when the time is over."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return check()
        except (w.Mismatch, pulsar.PulsarException):
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)


class Settings:
    """Reads `word`, `word VALUE` settings one after another; whoever asks for an unknown one gets an error."""

    def __init__(self, words):
        self.words = list(words)

    def __bool__(self):
        return bool(self.words)

    def next(self):
        if not self.words:
            raise ValueError("a value is missing at the end")
        return self.words.pop(0)

    def number(self):
        return int(self.next())

    def choice(self, table):
        word = self.next()
        if word not in table:
            raise ValueError(f"'{word}' is none of {', '.join(table)}")
        return table[word]
