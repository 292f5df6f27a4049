"""Writes the goldens of embeddings: tiny models as sentence-transformers saves them, and what it makes of texts.

    tools/venv tools/golden/embeddings.py [--out tests/data/embeddings] [--path FOLDER]

Needs sentence-transformers and what it imports beside the environment's packages; --path names a folder that has them
(pip install --no-deps --target FOLDER sentence-transformers scikit-learn scipy joblib threadpoolctl narwhals).
Per model, in OUT/NAME: its files, golden.json (cases: texts, name of the prompt) and embeddings.npy, f32 [texts of all
cases, width].
"""

import argparse
import json
import pathlib
import shutil
import sys
import tempfile

import numpy as np
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoConfig, AutoModel, BertConfig, BertModel, PreTrainedTokenizerFast, Qwen3Config, Qwen3Model

import encoders
from family_variants import Variant
from make import write_npy

TEXTS = [
    "a fox jumps over the lazy dog",
    "  the dog sleeps\t",
    "embeddings of long texts are cut to what the model takes, and the end of them is not seen by it at all",
    "",
    "Fox!",
]


def vocabulary():
    """Pieces for English letters: special tokens, then letters, alone and inside a word, then some words."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    words = ["the", "fox", "dog", "text", "##s", "##ing", "over", "of"]
    pieces = special + letters + [f"##{c}" for c in letters] + [w for w in words if w not in letters]
    return {piece: i for i, piece in enumerate(dict.fromkeys(pieces + [",", ".", ":", "!"]))}


def tokenizer(front, back):
    """A WordPiece tokenizer in lower case with [CLS] and [SEP] around a text, or one of them."""
    vocab = vocabulary()
    out = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    out.normalizer = normalizers.BertNormalizer(lowercase=True)
    out.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    names = [name for name in (front, back) if name]
    single = f"{front} $A {back}".strip()
    pair = f"{front} $A {back} $B:1 {back + ':1' if back else ''}".strip()
    out.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=[(n, vocab[n]) for n in names])
    return PreTrainedTokenizerFast(tokenizer_object=out, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]",
                                   sep_token="[SEP]", mask_token="[MASK]", eos_token="[SEP]", model_max_length=40)


def filled(model, seed):
    """The model with numbers that spread its rows."""
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = rng.standard_normal(tuple(p.shape))
            scale = 0.5 if "embed" in name else 1.4 / np.sqrt(p.shape[-1])
            values = 1 + 0.2 * noise if "norm" in name.lower() and name.endswith("weight") else noise * (scale if p.ndim > 1 else 0.3)
            p.copy_(torch.from_numpy(values))
    return model


def bert():
    """A body of two layers."""
    return filled(BertModel(BertConfig(vocab_size=len(vocabulary()), hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
                                       intermediate_size=28, max_position_embeddings=40), add_pooling_layer=False), 3)


def qwen():
    """A decoder's body."""
    return filled(Qwen3Model(Qwen3Config(vocab_size=len(vocabulary()), hidden_size=24, num_hidden_layers=2, num_attention_heads=4,
                                         num_key_value_heads=2, head_dim=8, intermediate_size=28, max_position_embeddings=64,
                                         tie_word_embeddings=True)), 5)


GEMMA = {
    "model_type": "gemma3_text", "vocab_size": len(vocabulary()), "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 8, "intermediate_size": 20, "max_position_embeddings": 64, "query_pre_attn_scalar": 8,
    "sliding_window": 12, "sliding_window_pattern": 6, "use_bidirectional_attention": True, "hidden_activation": "gelu_pytorch_tanh",
    "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
}


def gemma():
    """A body whose attention sees both sides, in numbers that bf16 holds, as its GGUF file has them."""
    config = AutoConfig.for_model(**GEMMA)
    return filled(AutoModel.from_config(config), 9).to(torch.bfloat16).float()


def write(folder, body, words, modules, prompts, default, most, cases):
    """Saves the model by sentence-transformers and what it makes of the cases."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Transformer

    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as source:
        body.save_pretrained(source)
        words.save_pretrained(source)
        transformer = Transformer(source)
        transformer.max_seq_length = most
        model = SentenceTransformer(modules=[transformer, *modules], prompts=prompts, default_prompt_name=default, device="cpu")
        model.save_pretrained(str(folder), create_model_card=False)
    loaded = SentenceTransformer(str(folder), device="cpu")
    rows = [loaded.encode(case["texts"], prompt_name=case["prompt"], convert_to_numpy=True) for case in cases]
    write_npy(folder / "embeddings.npy", np.concatenate(rows))
    (folder / "golden.json").write_text(json.dumps({"cases": cases}, indent=1) + "\n")
    for extra in ("README.md", ".gitattributes"):
        (folder / extra).unlink(missing_ok=True)
    print(f"{folder.name}: {sum(f.stat().st_size for f in folder.rglob('*') if f.is_file()) / 1024:.1f} KiB, {sum(map(len, rows))} texts")


def main():
    """Parses the command line and writes all models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--out", type=pathlib.Path, default=root / "tests/data/embeddings")
    parser.add_argument("--path", help="folder with sentence-transformers")
    args = parser.parse_args()
    if args.path:
        sys.path.append(args.path)
    from sentence_transformers.models import Dense, Normalize, Pooling

    torch.manual_seed(7)
    cases = [{"texts": TEXTS, "prompt": None}, {"texts": TEXTS[:2], "prompt": "query"}]
    prompts = {"query": "query: ", "passage": "the text: "}
    write(args.out / "bert-mean", bert(), tokenizer("[CLS]", "[SEP]"), [Pooling(24, pooling_mode="mean"), Normalize()], prompts,
          None, 16, cases)
    write(args.out / "bert-cls-dense", bert(), tokenizer("[CLS]", "[SEP]"),
          [Pooling(24, pooling_mode="cls"), Dense(24, 32, bias=False, activation_function=torch.nn.Identity()), Dense(32, 10)],
          prompts, "passage", 30, cases)
    body, dense = gemma(), [Dense(16, 24, bias=False, activation_function=torch.nn.Identity()),
                            Dense(24, 12, bias=False, activation_function=torch.nn.Identity())]
    write(args.out / "gemma-dense", body, tokenizer("[CLS]", "[SEP]"), [Pooling(16, pooling_mode="mean"), *dense, Normalize()],
          prompts, None, 32, cases)
    variant = Variant("gemma-dense", "", "Gemma3TextModel", GEMMA, gain_offset=1.0, gguf="gemma-embedding")
    encoders.write_gguf(args.out / "gemma-dense/model.gguf", variant, body, GEMMA,
                        [layer.linear.weight.detach().numpy() for layer in dense])
    write(args.out / "qwen3-last", qwen(), tokenizer("", "[SEP]"), [Pooling(24, pooling_mode="lasttoken"), Normalize()], prompts, None,
          20, cases)


if __name__ == "__main__":
    main()
