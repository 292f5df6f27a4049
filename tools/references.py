"""Compares a plan with transformers' float64 references (tools/golden/reference_runs.py): shared by check_smollm2.py,
check_gemma3.py and compare_plans.py. Standard library only.

greedy: the ids must be the reference's up to the first step whose margin is under 0.01.
teacher: over windows of ids of the GPL-3, the argmax agrees at 95 % of the positions and wherever the reference's
margin is over 1.0, and the perplexity is within 1 % of the reference's.
The plan must come from the file that the references name. Exit status 1 when a line is missed.
"""

import argparse
import array
import json
import math
import pathlib
import subprocess
import sys
import tempfile

DATA = pathlib.Path(__file__).resolve().parents[1] / "tests/data"
CLOSE = 0.01  # a margin below which either id is right
SURE = 1.0  # a margin above which the argmax must agree
AGREE = 0.95
PERPLEXITY = 0.01


def run(command):
    """Runs llmc-run; its stdout."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def joined(ids):
    """Ids as llmc-run takes them."""
    return ",".join(map(str, ids))


def greedy(args, threads):
    """Whether all prompts continue as the reference does."""
    ok = True
    for item in json.loads((args.data / f"greedy{args.suffix}.json").read_text())["runs"]:
        want, margins = item["greedy"], item["margins"]
        steps = next((i for i, m in enumerate(margins) if m < CLOSE), len(want))
        out = run(
            [
                args.run,
                args.plan,
                "--tokens",
                joined(item["prompt"]),
                "-n",
                str(len(want)),
                "--temp",
                "0",
                "--print-tokens",
                "--ignore-eos",
                *threads,
            ]
        )
        got = [int(i) for i in out.strip().split(",")]
        same = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
        good = same >= steps
        ok &= good
        where = (
            ""
            if good or same >= len(got)
            else f": step {same} gives {got[same]}, not {want[same]}, margin {margins[same]}"
        )
        print(f"{'ok  ' if good else 'FAIL'} {same} of {steps} steps to compare{where}  {item['text']!r}")
    return ok


def read_rows(path):
    """The rows of an f32 NPY file, each an array('f')."""
    with open(path, "rb") as file:
        if file.read(8) != b"\x93NUMPY\x01\x00":
            sys.exit(f"{path}: not NPY 1.0")
        header = file.read(int.from_bytes(file.read(2), "little")).decode()
        shape = [int(n) for n in header.split("'shape': (")[1].split(")")[0].split(",") if n.strip()]
        if "'<f4'" not in header or "False" not in header or len(shape) != 2:
            sys.exit(f"{path}: not a matrix of little-endian f32 in C order: {header}")
        for _ in range(shape[0]):
            row = array.array("f")
            row.fromfile(file, shape[1])
            yield row


def teacher(args, threads):
    """Whether argmax and perplexity hold over the windows."""
    reference = json.loads((args.data / f"gpl3{args.suffix}.json").read_text())
    agree = positions = scored = 0
    total, sure, largest = 0.0, [], 0.0
    for window in reference["windows"]:
        ids = window["ids"]
        with tempfile.NamedTemporaryFile(suffix=".npy") as logits, tempfile.NamedTemporaryFile("w") as tokens:
            tokens.write(joined(ids))
            tokens.flush()
            run(
                [
                    args.run,
                    args.plan,
                    "--tokens",
                    f"@{tokens.name}",
                    "--logits",
                    logits.name,
                    "--all-positions",
                    *threads,
                ]
            )
            for i, row in enumerate(read_rows(logits.name)):
                high = max(row)
                positions += 1
                if row.index(high) == window["argmax"][i]:
                    agree += 1
                else:
                    largest = max(largest, window["margins"][i])
                    if window["margins"][i] > SURE:
                        sure.append((i, window["margins"][i]))
                if i + 1 < len(ids):
                    scored += 1
                    total += math.log(sum(map(math.exp, [x - high for x in row]))) + high - row[ids[i + 1]]
    if positions != sum(len(w["ids"]) for w in reference["windows"]):
        sys.exit(f"llmc-run wrote {positions} rows of logits")
    perplexity = math.exp(total / scored)
    change = perplexity / reference["perplexity"] - 1
    print(
        f"argmax agrees at {100 * agree / positions:.2f} % of {positions} positions; "
        f"largest margin where it differs {largest:.3f}"
    )
    print(f"perplexity {perplexity:.4f}, reference {reference['perplexity']:.4f} ({100 * change:+.3f} %)")
    for i, margin in sure:
        print(f"FAIL position {i} differs although the margin is {margin}")
    return agree >= AGREE * positions and not sure and abs(change) <= PERPLEXITY


def check(model, doc):
    """Parses the command line of a script for the references in tests/data/MODEL."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["greedy", "teacher"])
    parser.add_argument("plan")
    parser.add_argument("--run", default="build/release/llmc-run", help="the llmc-run to use")
    parser.add_argument("--suffix", default="", help="of the reference's name, such as .q8_0")
    parser.add_argument("-t", "--threads", help="passed on to llmc-run")
    args = parser.parse_args()
    args.data = DATA / model
    threads = ["-t", args.threads] if args.threads else []
    sys.exit(0 if {"greedy": greedy, "teacher": teacher}[args.what](args, threads) else 1)
