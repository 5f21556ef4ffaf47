"""Runs tables of calls here and under the reference, and prints what differs. For developers; the tests need no jax.

    python -m tests.beside numpy lax --reference PYTHON     tables by name, PYTHON is one that has jax
    python -m tests.beside -c "xnp.arange(3) / 2" --reference PYTHON
    python -m tests.beside random --x64 --config numpy_dtype_promotion=strict --reference PYTHON
    python -m tests.beside numpy                            without a reference: what the calls give here
    python -m tests.beside sparse --part 2/8 --reference PYTHON    the second eighth of a table's calls
    python -m tests.beside lax --mutate 2 --seed 7 --warnings --reference PYTHON    its functions with odd arguments
    python -m tests.beside --generate 20000 --seed 1 --part 3/40 --reference PYTHON    random calls of all functions, with a report
    python -m tests.beside --older PYTHON --reference PYTHON    what changed between two versions of the reference: names,
                                                                parameters, members, and the results of all tables

A table is a text file in `calls/`: a call a line, a Python expression in `xf`, `xnp`, `lax`, `nn`, `random`, `np`, `P` and
what the lines before have assigned; `#` begins a comment, and a line with `<<a;b>>` is one for each choice. `#!` after a call
says why it is better as it is here: such a call is counted by itself. Compared are values, dtypes, weak types, shardings, the structure of
results, classes of exceptions (ours may be a subclass), classes of warnings when `--warnings` is given, and how many programs were compiled
when `--compilations` is.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import math
import pathlib
import re
import subprocess
import sys

from tests.beside.generated import SETUP, TRANSFORMATIONS, generated
from tests.beside.inventory import changes, inventory_of
from tests.beside.mutations import OBJECTS, mutated

HERE = pathlib.Path(__file__).parent
WORKER = HERE / "worker.py"
# `<<a;b>>` or `<<name>>`: the end is the last of several `>`, as a choice may be that operator.
CHOICES = r"<<((?:(?!<<|>>(?!>)).)*;(?:(?!<<|>>(?!>)).)*|\w+)>>"
SETS_NAMES = re.compile(r"exec\(|import |[\w, *]+ = ")  # lines that a new process must repeat after one that died
CLASSES = {  # of differences, by what their descriptions contain
    r" died: ": "a process died", r"TimeoutError": "takes too long", r"^NotImplementedError expected": "computed here, not implemented there",
    r"^TypeError expected .*unexpected keyword": "a parameter that is only here", r"^\w+ expected \(": "computed here, refused there", r"^\w+ in place of ": "class of error",
    r"^\w+: .*, expected ": "refused here, computed there", r"^structure ": "structure", r"^leaf \d+: (?=kind|dtype|shape|weak|sharding)": "type",
    r"^leaf \d+ \(.*nan.*, expected (?!.*nan)": "value: NaN here, number there", r"^leaf \d+ \((?!.*nan.*, expected).*nan": "value: number here, NaN there",
    r"^leaf \d+ \(": "value", r"^warns ": "warnings", r"": "other"}
FAILURES_INSIDE = ("MLIRError", "AssertionError")  # of the reference: it fails where it did not mean to, which is no behaviour


def run(python: str, which: str, calls: list[str], options) -> list[dict]:
    request = {"calls": calls, "x64": options.x64, "config": dict(text.split("=", 1) for text in options.config),
               "which": which, "seconds": options.seconds}
    done = subprocess.run([python, str(WORKER)], input=json.dumps(request), capture_output=True, text=True,
                          cwd=HERE.parent.parent)
    answers = [json.loads(line.removeprefix("@ ")) for line in done.stdout.splitlines() if line.startswith("@ ")]
    if calls and not answers and done.returncode > 0:
        raise SystemExit(done.stderr)
    if len(answers) < len(calls):
        answers.append({"died": done.stderr[-300:]})
        rest = calls[len(answers):]
        names = [call for call in calls[:len(answers)] if SETS_NAMES.match(call)] if rest else []
        answers += run(python, which, names + rest, options)[len(names):]
    return answers


def read(name: str) -> list[tuple[str, bool]]:
    """The calls of a table, and whether they differ on purpose."""
    path = HERE / "calls" / f"{name}.txt"
    lines = [(line.partition(" #")[0].rstrip(), " #! " in line) for line in path.read_text().splitlines()]
    return [(call, differs) for line, differs in lines if line and not line.startswith("#") for call in expanded(line)]


def part_of(table: list[tuple[str, bool]], which: int, count: int) -> list[tuple[str, bool]]:
    """A stretch of a table (counted from 1), with what the lines before it assign."""
    start, stop = ((len(table) * k) // count for k in (which - 1, which))
    return [line for line in table[:start] if SETS_NAMES.match(line[0])] + table[start:stop]


def expanded(line: str) -> list[str]:
    """A line with `<<a;b>>` in places, for each combination of choices."""
    choices = [part.split(";") if i % 2 else [part] for i, part in enumerate(re.split(CHOICES, line))]
    return ["".join(count) for count in itertools.product(*choices)]


def difference(ours: dict, theirs: dict, options) -> str | None:
    found = difference_of_results(ours, theirs, options.compilations)
    if found is None and options.warnings and ours["warnings"] != theirs["warnings"]:
        return f"warns {ours['warnings']}, expected {theirs['warnings']}"
    return found


def difference_of_results(ours: dict, theirs: dict, compilations: bool) -> str | None:
    for side, answer in (("here", ours), ("there", theirs)):
        if "died" in answer:
            return f"the process {side} died: {answer['died']}"
    if "error" in theirs:
        if theirs["error"][0] == "SyntaxError" and "(<call>" in theirs["text"]:
            return "is no Python"
        if theirs["error"][0] in FAILURES_INSIDE or "verifier errors" in theirs["text"]:
            return None
        if "error" not in ours:
            return f"{theirs['error'][0]} expected ({theirs['text'][:160]}), got {shown(ours)}"
        if theirs["error"][0] not in ours["error"]:
            return f"{ours['error'][0]} in place of {theirs['error'][0]}: {ours['text'][:160]} | {theirs['text'][:160]}"
        return None
    if "error" in ours:
        return f"{ours['error'][0]}: {ours['text'][:200]}, expected {shown(theirs)}"
    if ours["tree"] != theirs["tree"]:
        return f"structure {ours['tree']}, expected {theirs['tree']}"
    for i, (a, b) in enumerate(zip(ours["leaves"], theirs["leaves"])):
        for field in ("kind", "dtype", "shape", "weak", "sharding"):
            if a.get(field) != b.get(field):
                return f"leaf {i}: {field} {a.get(field)}, expected {b.get(field)}"
        if not same_values(a, b):
            return f"leaf {i} ({a.get('dtype')}): {str(a['value'])[:120]}, expected {str(b['value'])[:120]}"
    if compilations and ours["compilations"] > theirs["compilations"]:
        return f"{ours['compilations']} compilations, {theirs['compilations']} there"
    return None


def report(found: list[tuple[str, str]]) -> list[str]:
    """Return a line for each class of differences, with the number of calls and their functions."""
    classes: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
    for call, text in found:
        name = next(name for pattern, name in CLASSES.items() if re.search(pattern, text, re.DOTALL))
        classes[name][re.sub(rf"^({'|'.join(filter(None, TRANSFORMATIONS))})\(", "", call).partition("(")[0].partition(",")[0]] += 1
    return [f"{name}: {functions.total()} calls of {', '.join(f'{f} ({n})' for f, n in functions.most_common())}"
            for name, functions in sorted(classes.items(), key=lambda row: -row[1].total())]


def shown(answer: dict) -> str:
    return ", ".join(f"{leaf.get('dtype')}{leaf.get('shape')} {str(leaf['value'])[:60]}" for leaf in answer["leaves"]) or "()"


def same_values(a: dict, b: dict) -> bool:
    x, y = a["value"], b["value"]
    if a["kind"] != "array" or isinstance(x, str) or isinstance(y, str):
        return x == y
    x, y = (complex_numbers(v) if a["dtype"].startswith("complex") else flat(v) for v in (x, y))
    tolerance = 1e-2 if "bfloat16" in a["dtype"] or "float8" in a["dtype"] else 2e-3 if a["dtype"] == "float16" else (
        1e-10 if a["dtype"] in ("float64", "complex128") else 2e-5)
    return len(x) == len(y) and all(close(p, q, tolerance) for p, q in zip(x, y))


def flat(value) -> list:
    return [v for item in value for v in flat(item)] if isinstance(value, list) else [value]


def complex_numbers(value) -> list:
    """Finite ones are compared as one number: what rounding leaves in a small part beside a large one says nothing."""
    count = zip(*map(flat, value))
    return [part for re, im in count for part in ([complex(re, im)] if math.isfinite(re) and math.isfinite(im) else [re, im])]


def close(p, q, tolerance: float) -> bool:
    if p == q or (isinstance(p, float) and isinstance(q, float) and p != p and q != q):
        return True
    if isinstance(p, complex) and isinstance(q, complex):
        return abs(p - q) <= tolerance * max(abs(p), abs(q)) + tolerance * 1e-2
    if isinstance(p, float) and isinstance(q, float):
        return abs(p - q) <= tolerance * max(abs(p), abs(q)) + tolerance * 1e-2
    return False


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.beside", description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", help=f"of {', '.join(sorted(p.stem for p in (HERE / 'calls').glob('*.txt')))}")
    parser.add_argument("-c", "--call", action="append", default=[], help="a call, in place of or beside tables")
    parser.add_argument("--reference", help="a Python that has jax; without one, what the calls give here")
    parser.add_argument("--older", help="a Python that has an older jax, which is compared with the reference in place of xlafront")
    parser.add_argument("--x64", action="store_true")
    parser.add_argument("--config", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--compilations", action="store_true", help="compare also how many programs were compiled")
    parser.add_argument("--warnings", action="store_true", help="compare also the classes of warnings")
    parser.add_argument("--mutate", type=int, default=0, metavar="N", help="of each function one call, N odd values for each argument")
    parser.add_argument("--generate", type=int, default=0, metavar="N", help="N random calls of all functions, and a report by class")
    parser.add_argument("--only", nargs="+", metavar="MODULE", help="generate calls of these modules, as the tables name them: xnp.linalg jsp.stats.norm")
    parser.add_argument("--seed", type=int, default=0, help="of the odd values and of the random calls")
    parser.add_argument("--seconds", type=int, default=60, help="that a call may take")
    parser.add_argument("--part", default="1/1", metavar="I/N", help="only the I-th of N stretches of each table")
    options = parser.parse_args()
    if options.older:
        if not options.reference:
            parser.error("--older needs --reference, the newer one")
        print("\n".join(changes(inventory_of(options.older), inventory_of(options.reference))))
        options.tables = options.tables or sorted(p.stem for p in (HERE / "calls").glob("*.txt") if p.stem != "known_differences")
    stretch = [int(number) for number in options.part.split("/")]
    tables = [part_of(read(name), *stretch) for name in options.tables]
    if options.mutate:
        tables = [[*[(call, False) for call in OBJECTS], *[line for line in table if SETS_NAMES.match(line[0])],
                   *[(call, False) for call in mutated([call for call, _ in table], options.mutate, options.seed)]] for table in tables]
    if options.generate:
        calls = [(call, False) for call in generated(options.generate, options.seed, options.only, options.x64)]
        tables.append([(f"exec({SETUP!r})", False), *part_of(calls, *stretch)])
    tables += [[(call, False) for call in options.call]] if options.call else []
    marked = [line for table in tables for line in table]
    calls = [call for call, _ in marked]

    def answers(python: str, which: str) -> list[dict]:
        """A process for each table: the settings and the mesh that one leaves behind are not those of the next."""
        return [answer for table in tables for answer in run(python, which, [call for call, _ in table], options)]

    ours = answers(options.older, "jax") if options.older else answers(sys.executable, "xlafront")
    if options.reference is None:
        for call, answer in zip(calls, ours):
            print(call, "->", answer.get("died") or (answer["error"][0] + ": " + answer["text"] if "error" in answer else shown(answer)))
        return 0
    theirs = answers(options.reference, "jax")
    different = [(call, text, on_purpose) for (call, on_purpose), a, b in zip(marked, ours, theirs)
                 if (text := difference(a, b, options)) is not None]
    found = [(call, text) for call, text, on_purpose in different if not on_purpose]
    for call, text in found:
        print(f"{call}\n    {text.replace(chr(10), chr(32))}")
    if failed := next((a["text"] for a in ours + theirs if "error" in a and "NameError" in a["error"]), None):
        print(f"a call uses a name that is not defined: {failed}")
    if options.generate:
        print("\n".join(report(found)))
    purposes = f", {len(different) - len(found)} differ on purpose" if len(different) > len(found) else ""
    print(f"{len(calls) - len(different)} of {len(calls)} calls are equal{purposes}")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
