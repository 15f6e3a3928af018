"""How each kill test ends: what went wrong, and its one result line."""
import shutil
import sys


def finish(problems, work):
    """Prints the problems and `N passed, N failed`; keeps the folder `work` of a run that failed. Ends the process."""
    for p in problems[:30]:
        print("  " + p)
    if len(problems) > 30:
        print(f"  … {len(problems) - 30} more")
    if not problems:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{0 if problems else 1} passed, {1 if problems else 0} failed")
    sys.exit(1 if problems else 0)
