#!/usr/bin/env python3
"""What --speculate ngram gains: tokens/s with and without, alternating, as medians.

usage: tools/bench_speculate.py PLAN [--shape PLAN2]... [-t THREADS] [-r ROUNDS] [-n TOKENS] [--build build/release]

PLAN is a model that can write (tools/models smollm2); it is given three tasks, through its tokenizer and without a chat
template: (a) a passage, then its beginning again; (b) a source file, the note that an identifier has another name now,
and the beginning of that file; (c) the beginning of a story. Both runs must print the same bytes.

PLAN2 has the size that is asked about and random weights. Its text is recorded: (a) the passage, (b) the file as it is
after the edit, (c) the story that PLAN wrote, in PLAN's ids; speculate_bench (`ninja speculate_bench`) takes them in
place of what its sampler picks, with the product's lookup, policy and calls. Also prints what a call costs by its rows.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("plan")
parser.add_argument("--shape", action="append", default=[], help="a plan with random weights; may be repeated")
parser.add_argument("-t", type=int, default=2, help="threads")
parser.add_argument("-r", type=int, default=5, help="rounds")
parser.add_argument("-n", type=int, default=300, help="tokens of a text")
parser.add_argument("--build", default="build/release", type=pathlib.Path)
args = parser.parse_args()
ROOT = pathlib.Path(__file__).resolve().parent.parent
RUN, LLMC, BENCH = args.build / "llmc-run", args.build / "llmc", args.build / "speculate_bench"


def out(*words, **options):
    """What a program prints."""
    return subprocess.run([str(w) for w in words], check=True, capture_output=True, text=True, **options).stdout


def ids(text):
    """A text's ids in PLAN's tokenizer, comma-separated."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(text)
        file.flush()
        lines = out(LLMC, "tokenize", args.plan, "-f", file.name, "--no-special")
    return [int(word) for word in lines.split(",")]


def section(path, first, characters):
    """A piece of a file of this repository, from a line that begins with `first`, whole lines."""
    text = (ROOT / path).read_text(encoding="utf-8")
    begin = text.index(first)
    return text[begin : text.index("\n", begin + characters) + 1]


PASSAGE = section("tests/data/golden/README.md", "Tiny random-weight", 1000)
SOURCE = section("runtime/draft_policy.cpp", "double DraftPolicy::Cost", 1000)
EDITED = SOURCE.replace("below", "lower").replace("above", "upper").replace("one", "plain")
STORY = "Once upon a time, in a village at the edge of a great forest, there lived a girl who"
TASKS = {
    "a copy a passage": (f"{PASSAGE}\n\nOnce more, word for word:\n\n", PASSAGE),
    "b edit a file": (f"{SOURCE}\n\nThe same with below renamed to lower, above to upper and one to plain:\n\n", EDITED),
    "c a story": (STORY, None),
}


def line(name, plain, guessed, runs):
    """A row of the table."""
    proposed, accepted, calls = (statistics.median(r[k] for r in runs) for k in ("proposed_tokens", "accepted_tokens", "verify_calls"))
    ratio = statistics.median(g / p for g, p in zip(guessed, plain, strict=True))
    rows = f"{(proposed + calls) / calls:.1f}" if calls else "-"
    print(
        f"{name:18} {statistics.median(plain):8.1f} {statistics.median(guessed):8.1f} {ratio:6.2f}  "
        f"{accepted:.0f} of {proposed:.0f} in {calls:.0f} calls of {rows} rows",
        flush=True,
    )


HEAD = f"{'':18} {'plain':>8} {'ngram':>8} {'ratio':>6}  accepted"


def written():
    """PLAN's own texts. Returns the story's ids."""
    print(HEAD)
    story = []
    for name, (prompt, text) in TASKS.items():
        start = prompt + (" ".join(text.split(" ")[:6]) if text else "")
        count = min(args.n, len(ids(text))) if text else args.n
        plain, guessed, runs = [], [], []
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(start)
            file.flush()
            words = [RUN, args.plan, "-f", file.name, "-n", count, *(["--temp", 0] if text else ["--temp", 0.8, "--seed", 1]), "-t", args.t, "--json", "--ignore-eos"]
            for _ in range(args.r):
                one, more = (json.loads(out(*words, "--speculate", how)) for how in ("off", "ngram"))
                if one["tokens"] != more["tokens"]:
                    sys.exit(f"{name}: the texts differ")
                plain.append(one["decode_tokens_per_second"])
                guessed.append(more["decode_tokens_per_second"])
                runs.append(more)
        if text is None:
            story = one["tokens"]
        line(name, plain, guessed, runs)
    print(f"{one['cpu']}, {one['threads']} threads, {args.plan}")
    return story


def recorded(plan, story):
    """A plan with random weights and recorded texts."""
    print(f"\n{HEAD}")
    for name, (prompt, text) in TASKS.items():
        with tempfile.TemporaryDirectory() as folder:
            files = pathlib.Path(folder, "prompt"), pathlib.Path(folder, "text")
            for file, numbers in zip(files, (ids(prompt), ids(text)[: args.n] if text else story), strict=True):
                file.write_text(",".join(map(str, numbers)), encoding="utf-8")
            runs = [json.loads(row) for row in out(BENCH, plan, args.t, args.r, "trace", *files).splitlines()]
        line(name, [r["plain"] for r in runs], [r["lookup"] for r in runs], runs)
    print(f"{runs[0]['cpu']}, {runs[0]['threads']} threads, {plan}")


def rows(plan):
    """A call's time by its rows."""
    curve = json.loads(out(BENCH, plan, args.t, 4 * args.r, "rows"))
    costs = " ".join(f"{k[5:]}: {v:.2f}" for k, v in curve.items() if k.startswith("rows_"))
    print(f"rows of a call, in times of a decode ({curve['decode_ms']:.2f} ms): {costs}")


tale = written()
rows(args.plan)
for shape in args.shape:
    recorded(shape, tale)
    rows(shape)
