#!/usr/bin/env python3
"""Figures of llmc-run for the READMEs, as medians: size, time until ready, memory, and decoding beside a busy process.

usage: tools/bench_runtime.py PLAN [--run build/release/llmc-run] [--llmc build/release/llmc] [-r REPEATS] [-n TOKENS]

The memory budget is weights + caches that the tokens fill + arenas + tokenizer tables + 8 MiB. The disturbed figure
alternates three runs: one thread alone, two threads alone, two threads while a spinning process is pinned to the last
core. Wants an otherwise idle machine with at least two cores.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("plan")
parser.add_argument("--run", default="build/release/llmc-run")
parser.add_argument("--llmc", default="build/release/llmc")
parser.add_argument("-r", type=int, default=5, help="repeats")
parser.add_argument("-n", type=int, default=256, help="new tokens of each run")
args = parser.parse_args()
PROMPT = 16


def bench(threads):
    command = [args.run, args.plan, "--bench", "-p", PROMPT, "-n", args.n, "-r", 1, "-t", threads, "--json"]
    return json.loads(subprocess.check_output([str(word) for word in command], stderr=subprocess.DEVNULL, text=True))


def median(runs, key):
    return statistics.median(run[key] for run in runs)


with tempfile.TemporaryDirectory() as folder:
    subprocess.run(["strip", "-o", f"{folder}/llmc-run", args.run], check=True)
    print(f"size, stripped          {os.path.getsize(f'{folder}/llmc-run') / 1024:.0f} KiB")

text = subprocess.run([args.llmc, "inspect", args.plan], check=True, capture_output=True, text=True).stdout
memory = re.search(r"^memory +(\d+) bytes of arena, (\d+) per thread, (\d+) of cache", text, re.M)
arena, private, cache = map(int, memory.groups())
context = int(re.search(r"^context +(\d+)", text, re.M).group(1))
tables = sum(map(int, re.findall(r"^section +tokenizer +(\d+) bytes", text, re.M)))

cores = sorted(os.sched_getaffinity(0))
if len(cores) < 2:
    sys.exit("one core alone: nothing to disturb")
spinner = [sys.executable, "-c", f"import os\nos.sched_setaffinity(0, {{{cores[-1]}}})\nwhile True: pass"]
one, two, disturbed = [], [], []
for _ in range(args.r):
    one.append(bench(1))
    two.append(bench(2))
    process = subprocess.Popen(spinner)
    try:
        disturbed.append(bench(2))
    finally:
        process.kill()
        process.wait()

budget = two[0]["weights_bytes"] + cache * (PROMPT + args.n) // context + arena + 2 * private + tables + (8 << 20)
print(f"ready after             {median(two, 'load_ms'):.1f} ms")
print(f"resident, 2 threads     {median(two, 'peak_rss_bytes') / 2**20:.1f} MiB of {budget / 2**20:.1f} MiB")
rate = "decode_tokens_per_second"
print(f"decode, 1 thread        {median(one, rate):.1f} tokens/s")
print(f"decode, 2 threads       {median(two, rate):.1f} tokens/s")
busy, read = median(disturbed, rate), median(two, rate) * two[0]["weights_bytes"] / 1e9
print(f"  and a core is busy    {busy:.1f} tokens/s, {busy / median(one, rate):.2f} of 1 thread alone")
print(f"weights stream          {median(two, 'stream_bytes_per_second') / 1e9:.1f} GB/s, decode reads {read:.1f} GB/s")
