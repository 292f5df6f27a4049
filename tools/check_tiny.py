#!/usr/bin/env python3
"""Asks a plan of tests/data/tiny-qwen3 every sum and counts the right answers, of seen and of held-out pairs.

    tools/check_tiny.py --run build/release/llmc-run PLAN [--seen 0.98] [--held-out 0.75]

Exit status 1 when a share is below its line. Standard library only.
"""

import argparse
import subprocess
import sys

from train_tiny import questions


def answer(run, plan, question):
    """What llmc-run prints for a question, greedily."""
    done = subprocess.run(
        [run, plan, "-p", question, "-n", "4", "--temp", "0", "-t", "1"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"llmc-run failed with status {done.returncode} on {question!r}: {done.stderr.strip()}")
    return done.stdout.strip()


def main():
    """Parses the command line, asks, judges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan")
    parser.add_argument("--run", default="build/release/llmc-run", help="the llmc-run to use")
    parser.add_argument("--seen", type=float, default=0.98, help="least share of seen pairs")
    parser.add_argument("--held-out", type=float, default=0.75, help="least share of held-out pairs")
    args = parser.parse_args()
    bad = False
    for name, pairs, line in zip(("seen", "held out"), questions(), (args.seen, args.held_out)):
        wrong = [
            (q, got)
            for q, want in ((f"{a}+{b}=", str(a + b)) for a, b in pairs)
            if (got := answer(args.run, args.plan, q)) != want
        ]
        share = 1 - len(wrong) / len(pairs)
        print(
            f"{name}: {len(pairs) - len(wrong)} of {len(pairs)} right ({100 * share:.1f} %)"
            + "".join(f"\n  {q}{got}" for q, got in wrong[:5])
        )
        bad |= share < line
    sys.exit(bad)


if __name__ == "__main__":
    main()
