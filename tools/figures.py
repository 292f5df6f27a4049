#!/usr/bin/env python3
"""Prints the README's own figures for a model as Markdown: compile time by stage and memory, loader, and what each fusion brings.

    tools/figures.py MODEL.gguf [--build build/release] [--rounds 5] [--threads 2]

Needs no packages. Medians of alternating rounds on this machine; say which CPU it was (the first line does).
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile



def run(command):
    """Standard output and error, and the peak resident memory in MiB."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen([str(c) for c in command], stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        text, errors = out.read().decode(), err.read().decode()
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}\n{errors}")
    return text, errors, usage.ru_maxrss / 1024


def bench(loader, plan, threads, prompt=512, count=64):
    text, _, _ = run([loader, plan, "--bench", "-p", prompt, "-n", count, "-r", 1, "-t", threads, "--json"])
    return json.loads(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    compiler, loader = (pathlib.Path(options.build) / name for name in ("llmc", "llmc-run"))
    with tempfile.TemporaryDirectory(dir=options.build) as folder:
        folder = pathlib.Path(folder)
        plan = folder / "all.plan"

        stages, walls, peaks = {}, [], []
        for _ in range(options.rounds):
            _, errors, peak = run([compiler, "compile", options.model, "-o", plan, "--time-passes"])
            total = 0.0
            passes = 0.0
            for name, value in re.findall(r"^([\w-]+) +([\d.]+) ms", errors, re.M):
                if name in ("import", "code", "inputs", "weights", "self-test", "file"):
                    stages.setdefault(name, []).append(float(value))
                else:
                    passes += float(value)
                total += float(value)
            stages.setdefault("passes", []).append(passes)
            walls.append(total)
            peaks.append(peak)
        first = bench(loader, plan, options.threads)
        print(f"{first['cpu']}, {options.threads} threads, medians of {options.rounds}\n")
        print("| stage of `llmc compile` | ms |\n|---|---|")
        for name in ("import", "passes", "code", "inputs", "weights", "self-test", "file"):
            print(f"| {name} | {statistics.median(stages[name]):.0f} |")
        print(f"| all | {statistics.median(walls):.0f} |\n\npeak memory of the compiler: {statistics.median(peaks):.0f} MiB (resident, mapped files included)\n")

        stripped = folder / "llmc-run"
        run(["strip", "-o", stripped, loader])
        runs = [bench(loader, plan, options.threads, 16, 16) for _ in range(options.rounds)]
        weights = plan.stat().st_size / 2**20
        print("| loader | |\n|---|---|")
        print(f"| `llmc-run`, stripped | {stripped.stat().st_size / 1024:.0f} KiB |")
        print(f"| ready (file in the page cache) | {statistics.median(r['load_ms'] for r in runs):.1f} ms |")
        print(f"| peak resident after 32 tokens | {statistics.median(r['peak_rss_bytes'] for r in runs) / 2**20:.1f} MiB; the plan file has {weights:.1f} MiB |\n")

        plans = {"(all passes)": plan}
        listed = json.loads(run([compiler, "opt", "--list-passes", "--json"])[0])["passes"]
        optional = [row["pass"] for row in listed if row["need"] == "optional"]
        for name in optional:
            plans[f"without {name}"] = folder / f"{name}.plan"
            run([compiler, "compile", options.model, "-o", plans[f"without {name}"], "--no-selftest", "--disable-pass", name])
        plans["without any of them"] = folder / "none.plan"
        run([compiler, "compile", options.model, "-o", plans["without any of them"], "--no-selftest", *(f for n in optional for f in ("--disable-pass", n))])
        print("| passes | decode | prefill of 512 |\n|---|---|---|")
        keys = ("decode_tokens_per_second", "prefill_tokens_per_second")
        for name, path in plans.items():
            pairs = []  # with all passes and without one, in turns and in alternating order
            for i in range(2 * options.rounds):
                both = [bench(loader, q, options.threads) for q in ((plan, path) if i % 2 else (path, plan))]
                pairs.append(both if i % 2 else both[::-1])
            cells = []
            for key in keys:
                cells.append(f"{statistics.median(y[key] for _, y in pairs):.0f} tok/s, x {statistics.median(y[key] / x[key] for x, y in pairs):.2f}")
            print(f"| {name} | {cells[0]} | {cells[1]} |")


if __name__ == "__main__":
    main()
