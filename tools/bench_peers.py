"""Compares llmc-run with llama.cpp (PyPI's llama-cpp-python) on the same GGUF file and prints a Markdown table.

    tools/venv --peer tools/bench_peers.py --plan smollm2.plan --gguf SmolLM2-135M-Instruct.Q4_1.gguf [--run LLMC_RUN]
    tools/venv --peer tools/bench_peers.py --shape 1b --type q4_0 [--fork ik_llama.cpp/build/bin/llama-bench]

The second form makes the file (tools/shape_gguf.py: a model's shape, random blocks) and the plan, in $LLMC_CACHE or
~/.cache/llmc. Both programs do the same: a prefill of P random ids, then N tokens decoded one by one behind it, and N
tokens behind a single id (an empty context), R times each; a figure is the median of R in one process. Rounds
alternate (llmc, peer, llmc, peer, ...), since a machine's memory bandwidth drifts within seconds; the table has the
medians over rounds, their range, and the median of the ratios taken round by round. The peer gets its best setting:
before the first round, flash attention on and off and several n_ubatch are tried, for each figure apart. Both are
started alike and each round loads the model anew. `tools/venv --peer` builds llama.cpp for this CPU, `--peer-avx2` for
AVX2, FMA, F16C and BMI2, which is what code for x86-64-v3 (--target) uses. --fork names the llama-bench of a fork,
which runs in turn with the two, with weights repacked at load (-rtr 1).
"""

import argparse
import itertools
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

import shape_gguf

UBATCHES = [128, 256, 512]
PREFILL, DECODE = "prefill_tokens_per_second", "decode_tokens_per_second"


def figures(args):
    """What is measured: (name, ids of the prompt, new tokens, key of the rate)."""
    return [
        (f"prefill of {args.prompt}", args.prompt, args.new, PREFILL),
        (f"decode of {args.new}, empty context", 1, args.new, DECODE),
        (f"decode of {args.new} behind {args.prompt}", args.prompt, args.new, DECODE),
    ]


def peer_worker(gguf, spec):
    """Runs in a process of its own: loads the model once and makes each run of `spec`; prints their rates as JSON."""
    import ctypes

    import llama_cpp as lib

    silent = lib.llama_log_callback(lambda level, text, data: None)
    lib.llama_log_set(silent, None)
    lib.llama_backend_init()
    model = lib.llama_model_load_from_file(gguf.encode(), lib.llama_model_default_params())
    if not model:
        sys.exit(f"llama.cpp could not load {gguf}")
    vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
    rng = random.Random(1)
    results = []
    for run in spec["runs"]:
        p, n = run["prompt"], run["new"]
        prompt = (lib.llama_token * p)(*(rng.randrange(vocab) for _ in range(p)))
        ids = [(lib.llama_token * 1)(rng.randrange(vocab)) for _ in range(n)]
        params = lib.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = p + n, p, min(p, run["ubatch"])
        params.n_threads = params.n_threads_batch = spec["threads"]
        params.flash_attn_type = (
            lib.LLAMA_FLASH_ATTN_TYPE_ENABLED if run["flash"] else lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
        )
        params.no_perf = True
        context = lib.llama_init_from_model(model, params)
        if not context:
            sys.exit(f"llama.cpp refused {run}")

        def decode(batch, count, context=context):
            if lib.llama_decode(
                context, lib.llama_batch_get_one(ctypes.cast(batch, ctypes.POINTER(lib.llama_token)), count)
            ):
                sys.exit("llama_decode failed")
            lib.llama_synchronize(context)

        decode(prompt, p)  # warm-up
        prefill, step = [], []
        for _ in range(spec["repeats"]):
            lib.llama_memory_clear(lib.llama_get_memory(context), False)
            start = time.perf_counter()
            decode(prompt, p)
            middle = time.perf_counter()
            for batch in ids:
                decode(batch, 1)
            end = time.perf_counter()
            prefill.append(p / (middle - start))
            step.append(n / (end - middle))
        lib.llama_free(context)
        results.append({PREFILL: statistics.median(prefill), DECODE: statistics.median(step)})
    print(
        json.dumps({"version": lib.__version__, "system": lib.llama_print_system_info().decode(), "results": results})
    )


def run_peer(args, runs, repeats):
    """The rates of each run, measured in a new process."""
    spec = {"threads": args.threads, "repeats": repeats, "runs": runs}
    done = subprocess.run(
        [sys.executable, __file__, "--peer-worker", json.dumps(spec), "--gguf", args.gguf],
        text=True,
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout)


def run_llmc(args, prompt, new):
    """llmc-run's own figures."""
    done = subprocess.run(
        [
            args.run,
            args.plan,
            "--bench",
            "-p",
            str(prompt),
            "-n",
            str(new),
            "-r",
            str(args.repeats),
            "-t",
            str(args.threads),
            "--json",
        ],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return json.loads(done.stdout)


def run_fork(args, prompt, new):
    """The fork's rates, by its own llama-bench: decode is from an empty context alone."""
    command = [args.fork, "-m", args.gguf, "-p", str(prompt), "-n", str(new), "-t", str(args.threads), "-rtr", "1"]
    done = subprocess.run(
        [*command, "-r", str(args.repeats), "-o", "json"], text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
    )
    rates = {run["n_prompt"] > 0: run["avg_ts"] for run in json.loads(done.stdout)}
    return {PREFILL: rates[True], DECODE: rates[False]}


def make_shape(args):
    """The GGUF file and the plan of a shape, made once."""
    folder = pathlib.Path(os.environ.get("LLMC_CACHE", pathlib.Path.home() / ".cache" / "llmc")) / "shapes"
    folder.mkdir(parents=True, exist_ok=True)
    gguf = folder / f"{args.shape}-{args.type}.gguf"
    if not gguf.exists():
        shape_gguf.write_shape(args.shape, args.type, gguf)
    context = args.prompt + args.new
    plan = folder / f"{args.shape}-{args.type}.plan"
    flags = ["--no-tokenizer", "--no-selftest", "--context", str(max(context, 512))]
    flags += ["--target-cpu", args.target] if args.target else []
    subprocess.run([args.llmc, "compile", gguf, "-o", plan, *flags], check=True, stderr=subprocess.DEVNULL)
    return str(gguf), str(plan)


def spread(values):
    """Median and range, for a table cell."""
    digits = 0 if min(values) >= 100 else 1
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f})"


def cpu():
    """The CPU's name and count."""
    info = pathlib.Path("/proc/cpuinfo").read_text()
    name = next(line.split(":")[1].strip() for line in info.splitlines() if line.startswith("model name"))
    features = [f for f in ("avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_tile") if f" {f} " in info]
    return f"{name}, {info.count('processor	:')} cores ({' '.join(features) or 'AVX2'})"


def main():
    """Parses the command line, tunes the peer, alternates, prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", help="llmc's plan of the same model")
    parser.add_argument("--gguf")
    parser.add_argument("--shape", choices=["1b", "3b", "7b"], help="make both of random blocks")
    parser.add_argument("--type", default="q4_0", help="of the shape's matrices")
    parser.add_argument("--target", help="llmc's --target-cpu for the shape's plan")
    parser.add_argument("--fork", help="llama-bench of a fork of llama.cpp")
    parser.add_argument("--llmc", default="build/release/llmc", help="the llmc to use")
    parser.add_argument("--run", default="build/release/llmc-run", help="the llmc-run to use")
    parser.add_argument("-p", "--prompt", type=int, default=512)
    parser.add_argument("-n", "--new", type=int, default=128)
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("-r", "--repeats", type=int, default=3, help="repetitions inside a process")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peer-worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer_worker:
        peer_worker(args.gguf, json.loads(args.peer_worker))
        return
    if args.shape:
        args.gguf, args.plan = make_shape(args)
    if not args.plan or not args.gguf:
        parser.error("either --shape, or --plan and --gguf")

    wanted = figures(args)
    settings = [{"flash": f, "ubatch": u} for f, u in itertools.product([False, True], UBATCHES)]
    chosen = []
    for name, prompt, new, key in wanted:
        tried = run_peer(args, [{"prompt": prompt, "new": new, **s} for s in settings], 1)
        best = max(range(len(settings)), key=lambda i, key=key, tried=tried: tried["results"][i][key])
        chosen.append({"prompt": prompt, "new": new, **settings[best]})
        print(f"peer, {name}: best with {settings[best]}", file=sys.stderr)

    ours, theirs, forks, last = [[] for _ in wanted], [[] for _ in wanted], [], {}
    for i in range(args.rounds):
        mine = {(p, n): run_llmc(args, p, n) for p, n in dict.fromkeys((f[1], f[2]) for f in wanted)}
        peer = run_peer(args, chosen, args.repeats)["results"]
        for j, (_, prompt, new, key) in enumerate(wanted):
            ours[j].append(mine[prompt, new][key])
            theirs[j].append(peer[j][key])
        last = mine[wanted[1][1:3]]
        if args.fork:
            forks.append(run_fork(args, args.prompt, args.new))
        print(
            f"round {i + 1}: "
            + ", ".join(f"{f[0]} {o[-1]:.0f} / {t[-1]:.0f}" for f, o, t in zip(wanted, ours, theirs)),
            file=sys.stderr,
        )

    version = subprocess.run(
        [args.run, "--version"], text=True, stdout=subprocess.PIPE, check=True
    ).stdout.splitlines()[0]
    print(
        f"{cpu()}; {args.threads} threads; {pathlib.Path(args.gguf).name}; {args.rounds} alternating rounds, "
        f"median (range)"
    )
    print(f"llmc: {version}; peer: llama-cpp-python {tried['version']}, {tried['system'].strip(' |')}\n")
    print("| tokens/s | llmc | llama.cpp | ratio | peer's setting |\n|---|---|---|---|---|")
    for (name, *_), setting, a, b in zip(wanted, chosen, ours, theirs):
        ratio = statistics.median(x / y for x, y in zip(a, b))
        print(
            f"| {name} | {spread(a)} | {spread(b)} | {ratio:.2f}x | "
            f"flash attention {'on' if setting['flash'] else 'off'}, n_ubatch {setting['ubatch']} |"
        )
    if args.fork:
        print("\n| tokens/s | llmc | fork | ratio |\n|---|---|---|---|")
        for (name, _, _, key), a in list(zip(wanted, ours))[:2]:
            b = [rates[key] for rates in forks]
            print(f"| {name} | {spread(a)} | {spread(b)} | {statistics.median(x / y for x, y in zip(a, b)):.2f}x |")
    moved = last[DECODE] * last["weights_bytes"]
    limit = last["stream_bytes_per_second"]
    print(
        f"\nIn the last round the same threads streamed the plan's weights at {limit * 1e-9:.1f} GB/s; decode from an "
        f"empty context moved {moved * 1e-9:.1f} GB/s ({100 * moved / limit:.0f} %)."
    )


if __name__ == "__main__":
    main()
