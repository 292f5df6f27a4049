"""Trains the model in tests/data/tiny-qwen3: Qwen3-style, 0.85 M parameters, with its own byte-level BPE tokenizer.

    tools/venv tools/train_tiny.py [--out tests/data/tiny-qwen3] [--steps 1500] [--threads 2]

It learns from text that this script makes: sums of two numbers below 20 ("7+12=19"), without the 40 unordered pairs
that are held out, and short stories from a grammar. The held-out pairs are a function of this file alone
(`held_out`), so tools/check_tiny.py asks the same ones. Weights are averaged over the last steps, stored in BF16 and
evaluated as stored. About 7 minutes on one core.
"""

import argparse
import copy
import json
import pathlib
import random
import time

SEED = 7
LIMIT = 20  # the numbers are 0 .. LIMIT - 1
HELD_OUT = 40
END = "<|endoftext|>"
VOCAB = 512
ROW, ROWS = 64, 32  # tokens in a training row, rows in a step
SUM_SHARE = 0.6  # of the rows
# Qwen2's pre-tokenizer: contractions, letters, single digits, punctuation, line ends, blanks.
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": None,
    "eos_token_id": 0,
    "head_dim": 32,
    "hidden_act": "silu",
    "hidden_size": 128,
    "initializer_range": 0.02,
    "intermediate_size": 384,
    "max_position_embeddings": 256,
    "max_window_layers": 4,
    "model_type": "qwen3",
    "num_attention_heads": 4,
    "num_hidden_layers": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "sliding_window": None,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.51.3",
    "use_cache": True,
    "use_sliding_window": False,
    "vocab_size": VOCAB,
}


def held_out():
    """The unordered pairs (a, b), a <= b, that training never shows in either order."""
    pairs = [(a, b) for a in range(LIMIT) for b in range(a, LIMIT)]
    return sorted(random.Random(SEED).sample(pairs, HELD_OUT))


def questions():
    """(seen, held): lists of (a, b) in both orders."""
    held = set(held_out())
    both = [(a, b) for a in range(LIMIT) for b in range(LIMIT)]
    return [p for p in both if tuple(sorted(p)) not in held], [p for p in both if tuple(sorted(p)) in held]


def story(rng):
    """One short story."""
    name, friend = rng.sample(["Mia", "Tom", "Zoë", "Ben", "Lily", "André", "Sam", "Anna"], 2)
    animal = rng.choice(["fox", "cat", "mouse", "rabbit", "bear", "duck", "frog"])
    other = rng.choice(["dog", "bird", "hedgehog", "turtle", "squirrel"])
    kind = rng.choice(["little", "small", "clever", "brave", "happy", "sleepy"])
    place = rng.choice(["near the river", "in the forest", "on a green hill", "by the sea", "under an old tree"])
    colour = rng.choice(["red", "blue", "yellow", "green", "golden"])
    thing = rng.choice(["ball", "kite", "boat", "hat", "bell", "box"])
    weather = rng.choice(["sunny", "rainy", "windy", "cold", "warm"])
    lines = [
        f"Once upon a time there was a {kind} {animal} called {name}.",
        f"{name} lived {place}.",
        f"One {weather} day {name} found a {colour} {thing}.",
    ]
    lines.append(
        rng.choice(
            [
                f'"What a nice {thing}!" said {name}.',
                f'"Whose {thing} is this?" asked {name}.',
                f'"I don\'t know what this is," said {name}.',
            ]
        )
    )
    lines.append(
        rng.choice(
            [
                f"Then a {other} called {friend} came by.",
                f"{name} showed the {thing} to {friend}, the {other}.",
                f"{name} met {friend}, a {other} who lived {place} too.",
            ]
        )
    )
    lines.append(
        rng.choice(
            [
                f'"It\'s mine," said {friend}, "but you can play with it."',
                f'"Let\'s play together!" said {friend}.',
                f"{friend} was sad, so {name} gave {friend} the {thing}.",
            ]
        )
    )
    lines.append(
        rng.choice(
            [
                "They played until the sun went down.",
                "They laughed and were friends from that day on.",
                f"They took the {thing} home and had a cup of tea.",
            ]
        )
    )
    lines.append("The end.")
    return " ".join(lines)


def make_tokenizer(texts):
    """Byte-level BPE learned from the texts, with Qwen2's pre-tokenizer."""
    from tokenizers import (
        AddedToken,
        Regex,
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        processors,
        trainers,
    )

    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=VOCAB,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
            special_tokens=[AddedToken(END, special=True, normalized=False)],
        ),
    )
    assert tokenizer.get_vocab_size() == VOCAB and tokenizer.token_to_id(END) == CONFIG["eos_token_id"]
    return tokenizer


class Rows:
    """Training rows: documents of one sort, each closed by END, one after another, cut at the row's end."""

    def __init__(self, tokenizer, seed):
        self.rng = random.Random(seed)
        end = [CONFIG["eos_token_id"]]
        self.sums = [tokenizer.encode(f"{a}+{b}={a + b}").ids + end for a, b in questions()[0]]
        self.stories = [e.ids + end for e in tokenizer.encode_batch([story(self.rng) for _ in range(30000)])]

    def row(self):
        """One row of ROW + 1 ids."""
        documents = self.sums if self.rng.random() < SUM_SHARE else self.stories
        ids = []
        while len(ids) <= ROW:
            ids += self.rng.choice(documents)
        return ids[: ROW + 1]

    def batch(self):
        """ROWS rows."""
        return [self.row() for _ in range(ROWS)]


def accuracy(model, tokenizer, pairs):
    """The share of sums answered right by greedy decoding, END included."""
    import torch

    right = 0
    by_length = {}
    for a, b in pairs:
        ids = tokenizer.encode(f"{a}+{b}=").ids
        want = tokenizer.encode(str(a + b)).ids + [CONFIG["eos_token_id"]]
        by_length.setdefault((len(ids), len(want)), []).append((ids, want))
    with torch.no_grad():
        for group in by_length.values():
            # Greedy decoding answers right exactly when each right id is the argmax after the right ids before it.
            ids = torch.tensor([q + w[:-1] for q, w in group])
            want = torch.tensor([w for _, w in group])
            got = model(input_ids=ids).logits[:, -want.shape[1] :].argmax(-1)
            right += int((got == want).all(-1).sum())
    return right / len(pairs)


def train(tokenizer, args):
    """The trained model, its weights averaged."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(SEED)
    torch.set_num_threads(args.threads)
    keys = {k: v for k, v in CONFIG.items() if k not in ("architectures", "torch_dtype", "transformers_version")}
    model = Qwen3ForCausalLM(Qwen3Config(**keys)).float()
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters", flush=True)
    average = copy.deepcopy(model)
    decayed = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": args.decay}, {"params": rest, "weight_decay": 0.0}],
        lr=args.rate,
        betas=(0.9, 0.98),
        fused=True,
    )
    warm = 100

    def rate(step):
        if step < warm:
            return (step + 1) / warm
        return 0.02 + 0.98 * 0.5 * (
            1 + torch.cos(torch.tensor(3.14159265 * (step - warm) / (args.steps - warm))).item()
        )

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    rows = Rows(tokenizer, SEED)
    seen, held = questions()
    start = time.monotonic()
    for step in range(args.steps):
        batch = torch.tensor(rows.batch())
        logits = model(input_ids=batch[:, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCAB), batch[:, 1:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        keep = min(0.995, (step + 1) / (step + 10))
        with torch.no_grad():
            for mean, now in zip(average.parameters(), model.parameters()):
                mean.lerp_(now, 1 - keep)
        if step % 200 == 199 or step + 1 == args.steps:
            print(
                f"step {step + 1}: loss {loss.item():.3f}, seen {accuracy(average, tokenizer, seen):.3f}, held out "
                f"{accuracy(average, tokenizer, held):.3f}, {time.monotonic() - start:.0f} s",
                flush=True,
            )
    return average


def save(model, tokenizer, folder):
    """Writes the model folder; returns the model with its weights as stored."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    model = model.to(torch.bfloat16)
    tensors = {k: v.contiguous() for k, v in model.state_dict().items() if k != "lm_head.weight"}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
    (folder / "generation_config.json").write_text(
        json.dumps(
            {"eos_token_id": CONFIG["eos_token_id"], "do_sample": False, "transformers_version": "4.51.3"}, indent=2
        )
        + "\n"
    )
    tokenizer.save(str(folder / "tokenizer.json"), pretty=True)
    (folder / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "add_bos_token": False,
                "add_prefix_space": False,
                "bos_token": None,
                "clean_up_tokenization_spaces": False,
                "eos_token": END,
                "model_max_length": CONFIG["max_position_embeddings"],
                "pad_token": END,
                "tokenizer_class": "Qwen2Tokenizer",
                "unk_token": None,
            },
            indent=2,
        )
        + "\n"
    )
    return model.float()


def main():
    """Parses the command line, trains, saves, evaluates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[1]
    parser.add_argument("--out", type=pathlib.Path, default=root / "tests/data/tiny-qwen3")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rate", type=float, default=2e-3, help="highest learning rate")
    parser.add_argument("--decay", type=float, default=0.3, help="weight decay of the matrices")
    args = parser.parse_args()
    rng = random.Random(SEED + 1)
    texts = [story(rng) for _ in range(2000)] + [f"{a}+{b}={a + b}" for a, b in questions()[0]]
    tokenizer = make_tokenizer(texts)
    start = time.monotonic()
    model = save(train(tokenizer, args), tokenizer, args.out)
    seen, held = questions()
    print(
        f"stored: seen {accuracy(model, tokenizer, seen):.3f}, held out {accuracy(model, tokenizer, held):.3f} of "
        f"{len(held)} questions from {HELD_OUT} unordered pairs, {time.monotonic() - start:.0f} s"
    )


if __name__ == "__main__":
    main()
