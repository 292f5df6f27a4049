#!/usr/bin/env python3
"""Compares the backends on models, as Markdown: prefill and decode of llvm, onednn and auto, side by side.

    tools/bench_backends.py MODEL.gguf [MODEL.gguf:bf16 ...] [--build build/release] [--rounds 5] [--threads 1,2]

MODEL:bf16 compiles with --activations bf16. Plans are for this machine (--target-cpu native). They are measured alternately, medians of the rounds, tokens per second.
Checks the table of costs behind `--backend auto` (backends/onednn/costs.cpp): exit status 1 when auto is more than 10 %
slower than the better of the two. Needs no packages, and a machine that nobody else uses.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

BACKENDS = ["llvm", "onednn", "auto"]
PHASES = {"prefill": "prefill_tokens_per_second", "decode": "decode_tokens_per_second"}
SLOWER = 0.9  # of the better backend: what auto must reach


def run(command):
    """Standard output and error."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stderr.strip()}")
    return done.stdout, done.stderr


def choices(remarks):
    """What auto chose, by phase: {"prefill": "onednn", ...}."""
    found = {}
    for line in remarks.splitlines():
        if "select-backend: @" in line:
            phase, choice = line.split("select-backend: @")[1].split(": ", 1)
            found[phase] = choice.split(" ", 1)[0]
    return found


def measure(options, plans, threads):
    """{backend: {phase: median rate}}."""
    rates = {backend: {phase: [] for phase in PHASES} for backend in plans}
    for _ in range(options.rounds):
        for backend, plan in plans.items():
            out, _ = run(
                [options.run, plan, "--bench", "-p", options.prompt, "-n", options.count, "-r", 1, "-t", threads]
                + ["--json"]
            )
            result = json.loads(out)
            for phase, key in PHASES.items():
                rates[backend][phase].append(result[key])
    return {b: {phase: statistics.median(values) for phase, values in r.items()} for b, r in rates.items()}


def main():
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL")
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--count", type=int, default=32)
    options = parser.parse_args()
    compiler, options.run = (pathlib.Path(options.build) / name for name in ("llmc", "llmc-run"))
    print("| model | threads | phase | " + " | ".join(BACKENDS) + " | auto chose | auto / better |")
    print("|---|---|---|" + "---|" * (len(BACKENDS) + 2))
    good = True
    cpu = ""
    for name in options.models:
        model, _, activations = name.partition(":")
        flags = ["--activations", activations] if activations else []
        with tempfile.TemporaryDirectory(dir=options.build) as folder:
            plans = {backend: pathlib.Path(folder) / f"{backend}.plan" for backend in BACKENDS}
            for backend, plan in plans.items():
                _, errors = run([compiler, "compile", model, "-o", plan, "--backend", backend, "--remarks", "--target-cpu", "native", *flags])
                chosen = choices(errors)
            for threads in options.threads.split(","):
                rates = measure(options, plans, threads)
                for phase in PHASES:
                    row = [rates[backend][phase] for backend in BACKENDS]
                    share = row[2] / max(row[0], row[1])
                    good &= share >= SLOWER
                    label = pathlib.Path(model).stem + (f", activations {activations}" if activations else "")
                    print(
                        f"| {label} | {threads} | {phase} | "
                        + " | ".join(f"{rate:.0f}" for rate in row)
                        + f" | {chosen[phase]} | {share:.2f} |",
                        flush=True,
                    )
            if not cpu:
                out, _ = run([options.run, plans["llvm"], "--bench", "-p", 8, "-n", 8, "-r", 1, "--json"])
                cpu = json.loads(out)["cpu"]
    print(f"\n{cpu}; prompt {options.prompt}, {options.count} new tokens, medians of {options.rounds} rounds.")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
