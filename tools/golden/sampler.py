"""Writes what Hugging Face's logits processors make of random logits: tests/data/sampler/hugging_face.txt.

    tools/venv tools/golden/sampler.py [--out tests/data/sampler]

A case is a few lines: `case`, the settings by the names of generation_config, `prompt` and `new` ids, `logits` (bits of f32 in hex),
and either `scores` (the same, after the processor; ff800000 for what is excluded) or `kept` (ids that the warpers leave).
Ties, ends of ranges and settings that do nothing are among them.
"""

import argparse
import pathlib
import random
import struct

import torch
from transformers import generation as g

VOCAB = 24


def bits(values):
    """Hex of f32s."""
    return " ".join(struct.pack(">f", v).hex() for v in values)


def logits_of(rng, kind):
    """One row: plain, with ties, or nearly flat."""
    if kind == 0:
        row = [rng.gauss(0, 3) for _ in range(VOCAB)]
    elif kind == 1:
        row = [float(rng.randrange(-4, 5)) for _ in range(VOCAB)]
    else:
        row = [1 + rng.random() * 1e-3 for _ in range(VOCAB)]
    return torch.tensor([row], dtype=torch.float32)


def rule_cases(rng):
    """(settings as text, processor, prompt, new ids) of the processors that change logits."""
    for _ in range(6):
        prompt, new = [rng.randrange(VOCAB) for _ in range(rng.randrange(1, 8))], [rng.randrange(VOCAB) for _ in range(rng.randrange(0, 8))]
        penalty = rng.choice([0.5, 1.1, 1.3, 2.0, 5.0])
        yield f"repetition_penalty {penalty}", g.RepetitionPenaltyLogitsProcessor(penalty), prompt, new
        ids = rng.choices(range(5), k=rng.randrange(3, 14))
        n = rng.randrange(1, 4)
        yield f"no_repeat_ngram_size {n}", g.NoRepeatNGramLogitsProcessor(n), ids[:2], ids[2:]
        words = [[rng.randrange(4) for _ in range(rng.randrange(1, 4))] for _ in range(5)]
        words += [[7], ids[-1:] + [9], ids[-2:] + [10]]
        yield "bad_words_ids " + ";".join(",".join(map(str, w)) for w in words) + "\nstop_ids 7", g.NoBadWordsLogitsProcessor(words, [7]), ids[:2], ids[2:]
        least = rng.randrange(0, 6)
        yield f"min_new_tokens {least}\nstop_ids 3,7", g.MinNewTokensLengthLogitsProcessor(len(prompt), least, torch.tensor([3, 7])), prompt, new
        most = len(new) + rng.choice([1, 1, 2])
        yield f"forced_eos_token_id 5,6\nlimit {most}", g.ForcedEOSTokenLogitsProcessor(len(prompt) + most, torch.tensor([5, 6])), prompt, new
        yield "suppress_tokens 0,11,23", g.SuppressTokensLogitsProcessor([0, 11, 23]), prompt, new
        yield "begin_suppress_tokens 2,4", g.SuppressTokensAtBeginLogitsProcessor([2, 4], len(prompt)), prompt, new if rng.random() < 0.5 else []
        bias = {(rng.randrange(VOCAB),): round(rng.uniform(-8, 8), 2) for _ in range(3)}
        yield "bias " + ",".join(f"{k[0]}={v}" for k, v in bias.items()), g.SequenceBiasLogitsProcessor(bias), prompt, new


def warper_cases(rng):
    """(settings as text, warpers in generate()'s order)."""
    for temperature in (0.3, 1.0, 1.7):
        for k in (1, 3, 24, 50):
            yield f"temperature {temperature}\ntop_k {k}", [g.TemperatureLogitsWarper(temperature), g.TopKLogitsWarper(k)]
        for p in (0.05, 0.5, 0.9, 0.999):
            yield f"temperature {temperature}\ntop_p {p}", [g.TemperatureLogitsWarper(temperature), g.TopPLogitsWarper(p)]
            yield f"temperature {temperature}\ntypical_p {p}", [g.TemperatureLogitsWarper(temperature), g.TypicalLogitsWarper(p)]
        for p in (0.01, 0.1, 0.6, 1.0):
            yield f"temperature {temperature}\nmin_p {p}", [g.TemperatureLogitsWarper(temperature), g.MinPLogitsWarper(p)]
        yield (f"temperature {temperature}\ntop_k 9\ntop_p 0.8\nmin_p 0.05\ntypical_p 0.7",
               [g.TemperatureLogitsWarper(temperature), g.TopKLogitsWarper(9), g.TopPLogitsWarper(0.8), g.MinPLogitsWarper(0.05), g.TypicalLogitsWarper(0.7)])


def main():
    """Writes the file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("tests/data/sampler"))
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(7)
    lines = []
    for settings, processor, prompt, new in rule_cases(rng):
        logits = logits_of(rng, rng.randrange(2))
        scores = processor(torch.tensor([prompt + new]), logits.clone())[0].tolist()
        lines.append(f"case\n{settings}\nprompt {','.join(map(str, prompt))}\nnew {','.join(map(str, new)) or 'none'}\nlogits {bits(logits[0].tolist())}\nscores {bits(scores)}\n")
    for settings, warpers in warper_cases(rng):
        # Ties at the edge of top_p and typical are left to torch's unstable sort: those have distinct logits.
        logits = logits_of(rng, 0 if "top_p" in settings or "typical_p" in settings else rng.randrange(3))
        scores = logits.clone()
        for warper in warpers:
            scores = warper(torch.tensor([[1]]), scores)
        kept = [i for i, s in enumerate(scores[0].tolist()) if s != float("-inf")]
        lines.append(f"case\n{settings}\nlogits {bits(logits[0].tolist())}\nkept {','.join(map(str, kept))}\n")
    (out / "hugging_face.txt").write_text("".join(lines))


main()
