#!/usr/bin/env python3
"""Fails where a closure that owns something is made inside a co_await expression.

GCC 12 copies such a temporary into the coroutine's frame bit by bit and destroys it twice (GCC bug 99576). A closure
there may capture by reference or `this`; else give it a name before the co_await and std::move it in.
"""
import pathlib
import re
import sys

CLOSURE = re.compile(r"\[([^\[\]]*)\]\s*(?:\(|mutable|\{)")
HARMLESS = re.compile(r"^(?:&\s*\w*|this)$")


def end_of_statement(text: str, at: int) -> int:
    depth = 0
    while at < len(text):
        c = text[at]
        if c == '"':
            at += 1
            while at < len(text) and text[at] != '"':
                at += 2 if text[at] == "\\" else 1
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth < 0:
                return at
        elif c == ";" and depth == 0:
            return at
        at += 1
    return at


def violations(root: pathlib.Path) -> list[str]:
    found = []
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in {".h", ".cc"}:
            continue
        text = re.sub(r"//[^\n]*", lambda m: " " * len(m[0]), path.read_text(encoding="utf-8"))
        for awaited in re.finditer(r"\bco_await\b", text):
            statement = text[awaited.end():end_of_statement(text, awaited.end())]
            # Only what belongs to this expression itself, not the bodies of closures in it.
            for closure in CLOSURE.finditer(statement.split("{", 1)[0] + "{"):
                captures = [c.strip() for c in closure[1].split(",") if c.strip()]
                if not all(HARMLESS.match(c) for c in captures) and not statement[:closure.start()].rstrip().endswith(("]", ")")):
                    line = text.count("\n", 0, awaited.start()) + 1
                    found.append(f"{path.relative_to(root)}:{line}: name the closure [{closure[1]}] before the co_await")
    return found


def main() -> int:
    found = violations(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    for line in found:
        print(line)
    print(f"coroutines: {len(found)} closures inside co_await")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
