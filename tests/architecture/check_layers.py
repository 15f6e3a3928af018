#!/usr/bin/env python3
"""Fails if a source file includes a header of a layer that its own layer must not know (DESIGN, section 1)."""
import pathlib
import re
import sys

# Each layer may include itself and what is above it in this list, less what the last column forbids.
ORDER = ["base", "runtime", "wire", "metadata", "ledger", "managed_ledger", "schema", "security", "broker",
         "server", "client", "functions", "connectors", "proxy", "cli"]
FORBIDDEN = {
    "wire": set(),
    "metadata": {"wire"},
    "ledger": {"wire"},
    "managed_ledger": {"wire"},
    "client": {"broker", "server", "managed_ledger", "ledger", "metadata"},
    "functions": {"broker"},
    "connectors": {"broker"},
    "proxy": {"broker"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([a-z_]+)/')


def violations(root: pathlib.Path) -> list[str]:
    found = []
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in {".h", ".cc", ".inc"}:
            continue
        layer = path.relative_to(root / "src").parts[0]
        if layer not in ORDER:
            found.append(f"{path.relative_to(root)}: folder {layer}/ is no layer of the design")
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            used = match.group(1)
            if used not in ORDER:
                found.append(f"{path.relative_to(root)}:{number}: {used}/ is no layer of the design")
            elif ORDER.index(used) > ORDER.index(layer) or used in FORBIDDEN.get(layer, set()):
                found.append(f"{path.relative_to(root)}:{number}: {layer}/ must not include {used}/")
    return found


def main() -> int:
    found = violations(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "."))
    for line in found:
        print(line)
    print(f"architecture: {len(found)} wrong arrows")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
