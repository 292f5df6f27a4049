"""Writes the goldens of tokenizer.model: small SentencePiece models, and what transformers' AutoTokenizer makes of texts with them.

    tools/venv tools/golden/sentencepiece_models.py [--out tests/data/sentencepiece]

In OUT:
  NAME.model      models trained here on the text of tools/golden/tokenizer.py; variants of one are its proto with other settings
  variants.json   name -> model, class that transformers took, and the other files of the folder
  NAME.ids        u32 a text: FNV-1a over the ids, each as 4 bytes; first for all texts, then with special tokens as text, then pairs of a text and the next one;
                  then u32 a text: FNV-1a over the bytes that decoding its ids gives (special tokens kept). The texts are every 12th of tests/data/tokenizer/texts.bin.
  cases.json      short texts with their ids in every variant, to read
"""

import argparse
import io
import json
import os
import pathlib
import struct
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import sentencepiece  # noqa: E402
import transformers  # noqa: E402
from sentencepiece import sentencepiece_model_pb2 as pb  # noqa: E402

import tokenizer as golden  # noqa: E402  (tools/golden/tokenizer.py)

STEP = 12
CLASS = {"tokenizer_class": "LlamaTokenizer"}
LLAMA, MISTRAL = {"model_type": "llama"}, {"model_type": "mistral"}
PLAIN = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
CASES = ["", " ", "hello world", " hello  world ", "▁x", "a\n\nb", "<s>hello</s> world", "x<unk> y", "<|user|>hi", "你好，世界", "🤗", "1234567", "foo_bar", "e\u0301",
         "don't  know", "<pad>a", "in the<mid>garden"]


def train(**options):
    """A model's proto."""
    out = io.BytesIO()
    settings = dict(model_type="bpe", vocab_size=560, byte_fallback=True, normalization_rule_name="identity", add_dummy_prefix=True,
                    remove_extra_whitespaces=False, character_coverage=0.98, split_digits=True, allow_whitespace_only_pieces=True,
                    num_threads=1, minloglevel=2)
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(golden.corpus()), model_writer=out, **{**settings, **options})
    proto = pb.ModelProto()
    proto.ParseFromString(out.getvalue())
    # What the trainer was given besides; the date of nothing, but paths and options that nobody reads.
    for field in ("input", "model_prefix", "self_test_sample_size"):
        proto.trainer_spec.ClearField(field)
    return proto


def train_with_rules(**options):
    """With a normalisation of its own, so that the charsmap is small: full-width letters, ligatures, a composed accent, a removed character."""
    rules = {"\uff21": "A", "\ufb01": "fi", "e\u0301": "é", "\u200b": " ", "½": "1/2", "\u00ad": ""}
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as file:
        for source, target in rules.items():
            file.write("\t".join(" ".join(f"{ord(c):X}" for c in text) for text in (source, target)) + "\n")
        file.flush()
        proto = train(normalization_rule_tsv=file.name, **options)
    proto.normalizer_spec.ClearField("normalization_rule_tsv")
    return proto


def changed(proto, trainer=(), normalizer=()):
    """The same pieces under other settings."""
    copy = pb.ModelProto()
    copy.CopyFrom(proto)
    for spec, settings in ((copy.trainer_spec, trainer), (copy.normalizer_spec, normalizer)):
        for key, value in dict(settings).items():
            setattr(spec, key, value)
    return copy


def models():
    """Name -> proto."""
    llama = train()
    return {
        "llama": llama,
        "no-prefix": changed(llama, normalizer={"add_dummy_prefix": False}),
        "strips": changed(llama, normalizer={"remove_extra_whitespaces": True}),
        "whole": train(user_defined_symbols=["<|user|>", "<mid>", "<mid>dle", "know"], pad_id=3, pad_piece="<pad>"),
        "unk": train(byte_fallback=False, vocab_size=300),
        "unigram": train_with_rules(model_type="unigram", vocab_size=400, remove_extra_whitespaces=True),
    }


def variants():
    """Name -> (model, config.json, tokenizer_config.json or none, other files)."""
    bos = {"__type": "AddedToken", "content": "<s>", "lstrip": False, "normalized": True, "rstrip": False, "single_word": False}
    decoder = {"added_tokens_decoder": {"0": {**PLAIN, "content": "<unk>"}, "1": {**PLAIN, "content": "<s>", "rstrip": True},
                                        "560": {**PLAIN, "content": "<mid>", "special": False, "lstrip": True}, "561": {**PLAIN, "content": "<pad>"}}}
    return {
        "class": ("llama", LLAMA, CLASS, {}),
        "class-fast": ("llama", LLAMA, {"tokenizer_class": "LlamaTokenizerFast", "legacy": False, "add_bos_token": True}, {}),
        "class-legacy": ("llama", LLAMA, {**CLASS, "legacy": True, "add_bos_token": True, "bos_token": bos, "eos_token": {**bos, "content": "</s>"}}, {}),
        "class-no-bos": ("llama", LLAMA, {**CLASS, "legacy": True, "add_bos_token": False}, {}),
        "class-eos": ("llama", LLAMA, {**CLASS, "add_bos_token": True, "add_eos_token": True}, {}),
        "class-no-space": ("llama", LLAMA, {**CLASS, "add_prefix_space": False}, {}),
        "class-space": ("llama", LLAMA, {**CLASS, "add_prefix_space": True, "legacy": None}, {}),
        "class-null-bos": ("llama", LLAMA, {**CLASS, "add_bos_token": True, "bos_token": None, "pad_token": "<pad>"}, {}),
        "class-decoder": ("llama", LLAMA, {**CLASS, **decoder, "pad_token": "<pad>", "additional_special_tokens": ["<|user|>"]}, {}),
        "class-older": ("llama", LLAMA, {**CLASS, "add_bos_token": True},
                        {"special_tokens_map": {"bos_token": {**PLAIN, "content": "<s>"}, "pad_token": "<pad>"}, "added_tokens": {"<pad>": 560, "<mid>": 561}}),
        "class-whole": ("whole", LLAMA, CLASS, {}),
        "class-strips": ("strips", LLAMA, CLASS, {}),
        "in-config": ("llama", {**LLAMA, **CLASS}, None, {}),
        "alone": ("llama", LLAMA, None, {}),
        "no-config": ("llama", None, None, {}),
        "mistral": ("llama", MISTRAL, {**CLASS, "add_bos_token": True}, {}),
        "mistral-new": ("llama", MISTRAL, {**CLASS, "legacy": False}, {}),
        "mistral-decoder": ("llama", MISTRAL, {**CLASS, **decoder, "pad_token": "<pad>"}, {}),
        "qwen3": ("llama", {"model_type": "qwen3"}, CLASS, {}),
        "renamed": ("llama", LLAMA, {"added_tokens_decoder": {"300": {**PLAIN, "content": "<mid>"}, "301": {**PLAIN, "content": "<|user|>", "special": False}}}, {}),
        "no-prefix": ("no-prefix", LLAMA, None, {}),
        "strips": ("strips", LLAMA, {"add_bos_token": True, "add_eos_token": True}, {}),
        "whole": ("whole", LLAMA, {}, {}),
        "unk": ("unk", LLAMA, {}, {}),
        "unigram": ("unigram", LLAMA, {}, {}),
        "unigram-eos": ("unigram", MISTRAL, {"add_eos_token": True}, {}),
    }


def load(folder, model, config, tokenizer_config, others):
    """AutoTokenizer of a folder with these files."""
    (folder / "tokenizer.model").write_bytes(model)
    for name, value in {"config": config, "tokenizer_config": tokenizer_config, **others}.items():
        if value is not None:
            (folder / f"{name}.json").write_text(json.dumps(value))
    return transformers.AutoTokenizer.from_pretrained(folder)


def main():
    """Writes everything."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parents[2] / "tests/data/sentencepiece")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    transformers.logging.set_verbosity_error()
    lines = golden.texts()[::STEP]
    protos = {name: proto.SerializeToString(deterministic=True) for name, proto in models().items()}
    for name, data in protos.items():
        (args.out / f"{name}.model").write_bytes(data)
    listed, cases = {}, {}
    for name, (model, *files) in variants().items():
        with tempfile.TemporaryDirectory() as folder:
            loaded = load(pathlib.Path(folder), protos[model], *files)
        core = loaded.backend_tokenizer
        hashes, decoded = golden.golden(core, lines)
        pairs = []
        for first, second in zip(lines, lines[1:] + lines[:1]):
            ids = core.encode(first, second).ids
            pairs.append(golden.fnv(struct.pack(f"<{len(ids)}I", *ids)))
        (args.out / f"{name}.ids").write_bytes(hashes + struct.pack(f"<{len(pairs)}I", *pairs) + decoded)
        cases[name] = [core.encode(text).ids for text in CASES]
        config, tokenizer_config, others = files
        listed[name] = {"model": model, "class": type(loaded).__name__, "bos": loaded.bos_token_id, "eos": loaded.eos_token_id,
                        "files": {k: json.dumps(v) for k, v in {"config": config, "tokenizer_config": tokenizer_config, **others}.items() if v is not None}}
    (args.out / "variants.json").write_text("{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in listed.items()) + "\n}\n")
    rows = ",\n".join(f" {json.dumps(n)}: {json.dumps(ids, separators=(',', ':'))}" for n, ids in sorted(cases.items()))
    (args.out / "cases.json").write_text(f'{{"texts": {json.dumps(CASES)},\n"ids": {{\n{rows}\n}}}}\n')


if __name__ == "__main__":
    main()
