#!/usr/bin/env python3
"""Compares two plans of SmolLM2-135M that should compute the same: two backends, say.

    tools/compare_plans.py greedy  PLAN OTHER [--run LLMC_RUN] [-t THREADS]
    tools/compare_plans.py teacher PLAN OTHER [--run LLMC_RUN] [-t THREADS]

greedy: over the prompts of tests/data/smollm2/greedy.json, OTHER continues with PLAN's ids up to the first step at
which PLAN's margin (first logit less second) is under 0.01. For plans of f32 activations.
teacher: over the 4 windows of 512 ids of tests/data/smollm2/gpl3.json, the argmax is the same at 98 % of the positions
and the perplexity within 0.2 %. For plans whose activations are rounded: another order of sums flips codes.
Exit status 1 when a line is missed. Standard library only.
"""

import argparse
import json
import math
import sys
import tempfile

from references import CLOSE, DATA, joined, read_rows, run

AGREE = 0.98
PERPLEXITY = 0.002


def logits(args, plan, ids):
    """The rows of logits at every position of `ids`."""
    with tempfile.NamedTemporaryFile(suffix=".npy") as out, tempfile.NamedTemporaryFile("w") as tokens:
        tokens.write(joined(ids))
        tokens.flush()
        run([args.run, plan, "--tokens", f"@{tokens.name}", "--logits", out.name, "--all-positions", *args.flags])
        yield from read_rows(out.name)


def continued(args, plan, prompt, count):
    """The greedy ids behind a prompt."""
    out = run(
        [args.run, plan, "--tokens", joined(prompt), "-n", str(count), "--temp", "0", "--print-tokens"]
        + ["--ignore-eos", *args.flags]
    )
    return [int(i) for i in out.strip().split(",")]


def greedy(args):
    """Whether OTHER goes the way of PLAN."""
    ok, steps, compared = True, 0, 0
    for item in json.loads((DATA / "smollm2/greedy.json").read_text())["runs"]:
        prompt, count = item["prompt"], len(item["greedy"])
        ours, theirs = (continued(args, plan, prompt, count) for plan in (args.plan, args.other))
        same = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), count)
        steps += count
        compared += same
        if same == count:
            print(f"ok   all {count} steps  {item['text']!r}")
            continue
        rows = list(logits(args, args.plan, prompt + ours[:same]))[len(prompt) - 1 :]
        margins = []
        for row in rows:
            first, second = sorted(row, reverse=True)[:2]
            margins.append(first - second)
        good = min(margins) < CLOSE
        ok &= good
        where = f"step {same} gives {theirs[same]}, not {ours[same]}; least margin until there {min(margins):.4f}"
        print(f"{'ok  ' if good else 'FAIL'} {where}  {item['text']!r}")
    print(f"{compared} of {steps} steps are the same")
    return ok


def teacher(args):
    """Whether argmax and perplexity agree over the windows."""
    agree = positions = scored = 0
    totals = [0.0, 0.0]
    for window in json.loads((DATA / "smollm2/gpl3.json").read_text())["windows"]:
        ids = window["ids"]
        for i, rows in enumerate(zip(logits(args, args.plan, ids), logits(args, args.other, ids))):
            highs = [max(row) for row in rows]
            positions += 1
            agree += rows[0].index(highs[0]) == rows[1].index(highs[1])
            if i + 1 < len(ids):
                scored += 1
                for p, (row, high) in enumerate(zip(rows, highs)):
                    totals[p] += math.log(sum(map(math.exp, [x - high for x in row]))) + high - row[ids[i + 1]]
    ours, theirs = (math.exp(total / scored) for total in totals)
    print(f"argmax agrees at {100 * agree / positions:.2f} % of {positions} positions")
    print(f"perplexity {ours:.4f} and {theirs:.4f} ({100 * (theirs / ours - 1):+.3f} %)")
    return agree >= AGREE * positions and abs(theirs / ours - 1) <= PERPLEXITY


def main():
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["greedy", "teacher"])
    parser.add_argument("plan")
    parser.add_argument("other")
    parser.add_argument("--run", default="build/release/llmc-run", help="the llmc-run to use")
    parser.add_argument("-t", "--threads", help="passed on to llmc-run")
    args = parser.parse_args()
    args.flags = ["-t", args.threads] if args.threads else []
    sys.exit(0 if {"greedy": greedy, "teacher": teacher}[args.what](args) else 1)


if __name__ == "__main__":
    main()
