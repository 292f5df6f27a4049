"""What failed when the product was tried: kinds of damaged, odd or unreadable input, each with what it must give."""
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import unittest

from harness import GGUF, GOLDEN, LLMC, LLMC_RUN, SOURCE, TINY, CliTest, npy, run


def gguf_tensors(data):
    """Name -> (offset in the file, type, dims innermost first) of a GGUF file."""
    at = 8
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def take(form):
        nonlocal at
        value = struct.unpack_from("<" + form, data, at)[0]
        at += struct.calcsize("<" + form)
        return value

    def text():
        nonlocal at
        n = take("Q")
        at += n
        return data[at - n:at].decode()

    def skip(kind):
        nonlocal at
        if kind == 8:
            text()
        elif kind == 9:
            inner, n = take("I"), take("Q")
            for _ in range(n):
                skip(inner)
        else:
            at += sizes[kind]

    tensors, keys = take("Q"), take("Q")
    for _ in range(keys):
        text()
        skip(take("I"))
    found = {}
    for _ in range(tensors):
        name = text()
        dims = [take("Q") for _ in range(take("I"))]
        kind, offset = take("I"), take("Q")
        found[name] = (offset, kind, dims)
    start = (at + 31) // 32 * 32
    return {name: (start + offset, kind, dims) for name, (offset, kind, dims) in found.items()}


def safetensors_entry(data, name):
    """(offset in the file, entry) of a tensor."""
    size = struct.unpack_from("<Q", data)[0]
    entry = json.loads(data[8:8 + size])[name]
    return 8 + size + entry["data_offsets"][0], entry


NATIVE = ("--target-cpu", "native")  # code for this CPU alone: a third of the time


class G01(CliTest):
    """Numbers that aren't finite are refused, or seen in the logits."""

    def damaged(self, source, at, word):
        data = bytearray(source.read_bytes())
        struct.pack_into("<H", data, at, word)
        path = self.folder / source.name
        path.write_bytes(data)
        return path

    def test_scales_and_minima_of_blocks(self):
        name, row, block = "blk.0.ffn_down.weight", 3, 1
        words = ((0x7e00, "NaN"), (0xfc00, "infinite"))
        for n, (kind, bytes_of_block, fields) in enumerate((("q4_0", 18, ["scale"]), ("q4_1", 20, ["scale", "minimum"]), ("q5_0", 22, ["scale"]),
                                             ("q5_1", 24, ["scale", "minimum"]), ("q8_0", 34, ["scale"]))):
            source = GGUF / f"llama-{kind}" / "model.gguf"
            offset, _, dims = gguf_tensors(source.read_bytes())[name]
            block_of_row = min(block, dims[0] // 32 - 1)
            for i, field in enumerate(fields):
                word, kind_of = words[(n + i) % 2]
                at = offset + (row * (dims[0] // 32) + block_of_row) * bytes_of_block + 2 * i
                path = self.damaged(source, at, word)
                self.fails(1, LLMC, "compile", path, *NATIVE, "-o", self.folder / "m.plan",
                           says=[name, f"row {row}, block {block_of_row} has the {field} {kind_of}", "--allow-nonfinite", "[BadValue]"])
                self.assertEqual(list(self.folder.glob("*.plan*")), [])

    def test_values_of_floats(self):
        for kind, word, text in (("f16", 0x7c00, "is infinite"), ("f16", 0x7e01, "is NaN"), ("bf16", 0x7f80, "is infinite")):
            source = GGUF / f"llama-{kind}" / "model.gguf"
            offset, _, dims = gguf_tensors(source.read_bytes())["blk.0.attn_q.weight"]
            path = self.damaged(source, offset + 2 * (5 * dims[0] + 7), word)
            self.fails(1, LLMC, "compile", path, *NATIVE, "-o", self.folder / "m.plan", says=["blk.0.attn_q.weight", f"row 5, element 7 {text}"])
            self.fails(1, LLMC, "run", path, "--tokens", "1,2,3", "-n", "2", "--print-tokens", says=["blk.0.attn_q.weight", "row 5, element 7"])

    def test_I01_allowed_they_are_seen_in_the_logits(self):
        source = GGUF / "llama-q4_1" / "model.gguf"
        plain, allowed = self.compile(source, "plain.plan"), self.compile(source, "allowed.plan", "--allow-nonfinite")
        self.assertEqual(plain.read_bytes(), allowed.read_bytes())
        offset, _, _ = gguf_tensors(source.read_bytes())["blk.0.ffn_down.weight"]
        path = self.damaged(source, offset, 0x7e00)
        for backend in ["llvm"] + (["onednn"] if os.environ.get("LLMC_ONEDNN_BUILT") else []):
            plan = self.compile(path, "nan.plan", "--allow-nonfinite", "--backend", backend)
            self.assertIn("\nself-test    none\n", self.ok(LLMC, "inspect", plan).stdout)
            says = ["position 2: the logit of id 0 is NaN"]
            self.fails(1, LLMC_RUN, plan, "--tokens", "1,2,3", "-n", "2", "--print-tokens", "--ignore-eos", says=says)
            out = self.folder / "out.npy"
            self.fails(1, LLMC_RUN, plan, "--tokens", "1,2,3", "--logits", out, says=says)
            self.fails(1, LLMC_RUN, plan, "--tokens", "1,2,3", "--logits", out, "--all-positions", says="position 0: the logit of id 0 is NaN")
            self.assertFalse(out.exists())

    def test_quantize_refuses_what_its_type_cannot_store(self):
        source = TINY / "model.safetensors"
        data = bytearray(source.read_bytes())
        name = "model.layers.1.mlp.down_proj.weight"
        offset, entry = safetensors_entry(data, name)
        struct.pack_into("<H", data, offset + 2 * (4 * entry["shape"][1] + 40), 0x7e00)  # bf16 4.2e37
        model = self.folder / "model"
        shutil.copytree(TINY, model)
        (model / "model.safetensors").write_bytes(data)
        for kind in ("q8_0", "q4_0"):
            self.fails(1, LLMC, "compile", model, *NATIVE, "--quantize", kind, "-o", self.folder / "m.plan",
                       says=["b1.w_down", "row 4, block 1", kind, "can't store it", "infinite"])
        struct.pack_into("<H", data, offset + 2 * (4 * entry["shape"][1] + 40), 0x7fc0)  # NaN
        (model / "model.safetensors").write_bytes(data)
        self.fails(1, LLMC, "compile", model, *NATIVE, "--quantize", "q8_0", "--allow-nonfinite", "-o", self.folder / "m.plan", says=["row 4, block 1", "can't store it", "NaN"])

    def key_bias(self, value):
        """qwen2-bias with one element of a bias of keys replaced."""
        model = self.folder / "model"
        shutil.copytree(GOLDEN / "qwen2-bias", model, dirs_exist_ok=True)
        data = bytearray((model / "model.safetensors").read_bytes())
        offset, _ = safetensors_entry(data, "model.layers.1.self_attn.k_proj.bias")
        struct.pack_into("<f", data, offset + 4 * 3, value)
        (model / "model.safetensors").write_bytes(data)
        return model

    def test_keys_beyond_the_f16_cache(self):
        model = self.key_bias(70000)
        says = ["self-test", "the logit of id", "is NaN", "65504", "--kv-type f32"]
        for backend in ["llvm"] + (["onednn"] if os.environ.get("LLMC_ONEDNN_BUILT") else []):
            self.fails(1, LLMC, "compile", model, *NATIVE, "--backend", backend, "-o", self.folder / "m.plan", says=says)
            plan = self.compile(model, "m.plan", "--no-selftest", "--backend", backend)
            self.fails(1, LLMC_RUN, plan, "--tokens", "1,2,3", "-n", "2", "--print-tokens", says=["position 2: the logit", "--kv-type f32"])
        self.ok(LLMC_RUN, self.compile(model, "m32.plan", "--kv-type", "f32"), "--selftest")

    def test_a_self_test_without_numbers_fails(self):
        model = self.folder / "model"
        shutil.copytree(GOLDEN / "qwen2-bias", model)
        data = bytearray((model / "model.safetensors").read_bytes())
        offset, entry = safetensors_entry(data, "model.norm.weight")
        struct.pack_into(f"<{entry['shape'][0]}f", data, offset, *[3e38] * entry["shape"][0])
        (model / "model.safetensors").write_bytes(data)
        result = self.fails(1, LLMC, "compile", model, *NATIVE, "-o", self.folder / "m.plan", says=["self-test", "the logit of id"])
        self.assertNotIn("--kv-type", result.stderr)
        self.assertFalse((self.folder / "m.plan").exists())


class Tiny(CliTest):
    """A copy of the model in the repository, to be changed."""

    def setUp(self):
        super().setUp()
        self.model = self.folder / "tiny"
        shutil.copytree(TINY, self.model)

    def generation(self, **keys):
        (self.model / "generation_config.json").write_text(json.dumps({"eos_token_id": 0, **keys}))


class H01(Tiny):
    """generation_config.json: obeyed, or a warning with file, key and value."""

    def test_keys_without_effect_are_named(self):
        for key, value in (("num_beams", 4), ("guidance_scale", 1.5), ("stop_strings", ["x"]), ("a_new_key", 1)):
            self.generation(**{key: value})
            plan = self.folder / "m.plan"
            result = self.ok(LLMC, "compile", self.model, *NATIVE, "-o", plan)
            self.assertRegex(result.stderr, rf"generation_config\.json:\d+:\d+: warning: {key} = .* has no effect")
            self.assertRegex(self.ok(LLMC, "inspect", plan).stdout, rf"\ngeneration   unused: {key} = ")
        self.generation(num_beams=1, guidance_scale=1.0, stop_strings=[], suppress_tokens=None, a_new_key=False, max_new_tokens=20, transformers_version="5")
        self.assertNotIn("warning", self.ok(LLMC, "compile", self.model, *NATIVE, "-o", self.folder / "m.plan").stderr)

    def test_keys_that_are_obeyed(self):
        hello = self.ok(LLMC, "tokenize", self.model, "-p", "hello").stdout.strip()
        again = f"{hello},11,17,{hello}"
        # Values of transformers' generate(), float64; the stop id 0 isn't printed here.
        for key, value, prompt, count, expected in (
                ("a_key", None, hello, 8, "11,17,29,18"), ("suppress_tokens", [11], hello, 3, "16,16,16"), ("bad_words_ids", [[11]], hello, 3, "16,16,16"),
                ("min_new_tokens", 8, hello, 8, "11,17,29,18,18,17,17,11"), ("begin_suppress_tokens", [11], hello, 8, "16,11,17,29,17"),
                ("forced_eos_token_id", 7, hello, 3, "11,17,7"), ("repetition_penalty", 5.0, again, 8, "11,19,29,22"),
                ("no_repeat_ngram_size", 1, again, 8, "16")):
            self.generation(**{key: value})
            plan = self.folder / "m.plan"
            self.assertNotIn("warning", self.ok(LLMC, "compile", self.model, *NATIVE, "-o", plan, "--activations", "f32", "--kv-type", "f32").stderr)
            self.assertEqual(self.ok(LLMC_RUN, plan, "--tokens", prompt, "-n", count, "--print-tokens").stdout, expected + "\n", key)
            if value is not None:
                self.assertIn(f"\ngeneration   {key} = ", self.ok(LLMC, "inspect", plan).stdout)

    def test_sampling_without_top_k_is_from_fifty(self):
        texts = {}
        for name, keys in (("absent", {}), ("fifty", {"top_k": 50}), ("off", {"top_k": 0})):
            self.generation(do_sample=True, temperature=3.0, **keys)
            plan = self.compile(self.model, f"{name}.plan")
            texts[name] = [self.ok(LLMC_RUN, plan, "-p", "hello", "-n", "12", "--seed", seed, "--print-tokens").stdout for seed in range(6)]
        self.assertEqual(texts["absent"], texts["fifty"])
        self.assertNotEqual(texts["absent"], texts["off"])

    def test_values_out_of_range_name_file_and_key(self):
        for key, value in (("top_p", 1.5), ("temperature", -1), ("min_p", 2), ("top_k", -1), ("repetition_penalty", 0), ("min_new_tokens", -1)):
            self.generation(do_sample=True, **{key: value})
            self.fails(1, LLMC, "compile", self.model, *NATIVE, "-o", self.folder / "m.plan", says=["generation_config.json:1:", f"{key} is {value}"])


    def test_stop_strings_and_logprobs(self):
        plan = self.compile(self.model)
        plain = json.loads(self.ok(LLMC_RUN, plan, "-p", "7+12=", "-n", "30", "--ignore-eos", "--json").stdout)
        text = plain["text"]
        for begin in range(1, len(text) - 2, 3):
            stop = text[begin:begin + 3]
            cut = json.loads(self.ok(LLMC_RUN, plan, "-p", "7+12=", "-n", "30", "--ignore-eos", "--json", "--stop", stop, "--stop", "\1never").stdout)
            self.assertEqual((cut["text"], cut["stop"]), (text[:text.index(stop)], "string"))
        out = json.loads(self.ok(LLMC_RUN, plan, "-p", "7+12=", "-n", "3", "--json", "--logprobs", "4").stdout)
        self.ok(LLMC_RUN, plan, "-p", "7+12=", "--logits", self.folder / "l.npy")
        logits = list(npy(self.folder / "l.npy")[0])
        best = sorted(range(len(logits)), key=lambda i: (-logits[i], i))[:4]
        log_sum = math.log(sum(math.exp(v - max(logits)) for v in logits)) + max(logits)
        self.assertEqual([t["id"] for t in out["logprobs"][0]["top"]], best)
        for token in out["logprobs"][0]["top"]:
            self.assertAlmostEqual(token["logprob"], logits[token["id"]] - log_sum, places=4)
        self.assertEqual([t["id"] for t in out["logprobs"]], out["tokens"])
        top = [line.split("\t") for line in self.ok(LLMC_RUN, plan, "-p", "7+12=", "--top-logits", "4").stdout.splitlines()]
        self.assertEqual([int(t[0]) for t in top], best)
        self.assertEqual([json.loads(t[2]) for t in top], [t["text"] for t in out["logprobs"][0]["top"]])

    def test_options_of_the_sampler(self):
        plan = self.compile(self.model)
        flags = ["-p", "hello", "-n", "4", "--print-tokens", "--ignore-eos"]
        self.assertEqual(self.ok(LLMC_RUN, plan, *flags, "--suppress", "11").stdout.split(",")[0], "16")
        self.assertEqual(self.ok(LLMC_RUN, plan, *flags, "--logit-bias", "11=-inf").stdout.split(",")[0], "16")
        self.assertEqual(self.ok(LLMC_RUN, plan, *flags, "--logit-bias", "5=1000").stdout, "5,5,5,5\n")
        for wrong in (["--sampler-order", "top-k,top-k"], ["--sampler-order", "nothing"], ["--logit-bias", "5"], ["--logit-bias", "99999999=1"], ["--suppress", "99999999"], ["--typical", "2"], ["--stop", ""], ["--stop", "a"]):
            self.fails(2, LLMC_RUN, plan, *flags, *wrong, says=wrong[0])


class H02(Tiny):
    """Added tokens: gaps, and those of tokenizer_config.json, as AutoTokenizer has them."""

    TOKEN = {"content": "<x>", "lstrip": False, "rstrip": False, "single_word": False, "normalized": False, "special": True}
    TEXT = "a<x>b <|endoftext|>c"

    def ids(self, config=None, added=()):
        """What `llmc tokenize` makes of TEXT."""
        tokenizer = json.loads((TINY / "tokenizer.json").read_text())
        tokenizer["added_tokens"] += added
        (self.model / "tokenizer.json").write_text(json.dumps(tokenizer))
        (self.model / "tokenizer_config.json").write_text(json.dumps({**json.loads((TINY / "tokenizer_config.json").read_text()), **(config or {})}))
        return run(LLMC, "tokenize", self.model, "-p", self.TEXT)

    def test_gaps_show_both_ids(self):
        result = self.ids(added=[{"id": 516, **self.TOKEN}])
        self.assertEqual(result.returncode, 1, result.stderr)
        for words in ("tokenizer.json:", '"<x>"', "516", "512"):
            self.assertIn(words, result.stderr)
        result = self.ids({"added_tokens_decoder": {"516": self.TOKEN}})
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("tokenizer_config.json:", result.stderr)

    def test_tokens_of_the_configuration(self):
        # Ids by transformers 5.24's AutoTokenizer.
        plain = "65,28,88,30,66,221,0,67\n"
        self.assertEqual(self.ids({"add_bos_token": True, "bos_token": "<|endoftext|>"}).stdout, plain)
        stripping = {"added_tokens_decoder": {"0": {**self.TOKEN, "content": "<|endoftext|>", "lstrip": True}}}
        self.assertEqual(self.ids({**stripping, "tokenizer_class": "PreTrainedTokenizerFast"}).stdout, "65,28,88,30,66,0,67\n")
        self.assertEqual(self.ids({"pad_token": "a"}).stdout, plain)
        for config in ({"added_tokens_decoder": {"512": self.TOKEN}}, {"additional_special_tokens": ["<x>"]}, {"extra_special_tokens": {"image_token": "<x>"}}):
            self.assertEqual(self.ids(config).stdout, "65,512,66,221,0,67\n")
            self.fails(1, LLMC, "compile", self.model, *NATIVE, "-o", self.folder / "m.plan", says=['"<x>" has the id 512', "512 rows"])
        result = self.ids({"split_special_tokens": True})
        self.assertEqual(result.returncode, 1)
        self.assertIn("split_special_tokens", result.stderr)


class H03(Tiny):
    """The post-processor decides about BOS."""

    def test_add_bos_token_has_no_effect_beside_tokenizer_json(self):
        config = json.loads((TINY / "tokenizer_config.json").read_text())
        for add in (True, False):
            (self.model / "tokenizer_config.json").write_text(json.dumps({**config, "add_bos_token": add, "add_eos_token": add, "bos_token": "<|endoftext|>"}))
            self.assertEqual(self.ok(LLMC, "tokenize", self.model, "-p", "hello").stdout, self.ok(LLMC, "tokenize", TINY, "-p", "hello").stdout)


class H04(Tiny):
    """A file that is there must be readable."""

    def test_what_is_no_file_is_named(self):
        for name in ("generation_config.json", "tokenizer_config.json", "tokenizer.json", "model.safetensors", "chat_template.jinja"):
            path = self.model / name
            kept = path.read_bytes() if path.exists() else None
            for make in (lambda: path.symlink_to("nowhere"), lambda: path.symlink_to(path), path.mkdir, lambda: os.mkfifo(path),
                         lambda: path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n")):
                path.unlink(missing_ok=True)
                make()
                self.fails(1, LLMC, "compile", self.model, *NATIVE, "-o", self.folder / "m.plan", says=[name, "[FileError]"])
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
            if kept is not None:
                path.write_bytes(kept)
        (self.model / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n")
        self.fails(1, LLMC, "compile", self.model, *NATIVE, "-o", self.folder / "m.plan", says=["model.safetensors", "git-lfs pointer", "git lfs pull"])


class I01toI13(Tiny):
    """Messages and conveniences."""

    def test_I04_no_temporary_folder_is_needed(self):
        for folder in ("", "/nonexistent", "/proc"):
            self.ok(LLMC, "compile", self.model, *NATIVE, "-o", self.folder / "m.plan", env={**os.environ, "TMPDIR": folder}, cwd=self.folder)
            self.assertEqual([p.name for p in self.folder.iterdir() if p.name not in ("tiny", "m.plan")], [])

    def test_I06_prompts_from_files_and_pipes(self):
        plan = self.compile(self.model)
        text = self.folder / "prompt.txt"
        flags = ["-n", "4", "--print-tokens"]
        expected = self.ok(LLMC_RUN, plan, "-p", "hello", *flags).stdout
        for written in (b"hello", b"hello\n", b"hello\r\n"):
            text.write_bytes(written)
            self.assertEqual(self.ok(LLMC_RUN, plan, "-f", text, *flags).stdout, expected)
            for arguments in ([], ["-f", "-"]):
                with text.open("rb") as file:
                    self.assertEqual(self.ok(LLMC_RUN, plan, *arguments, *flags, stdin=file).stdout, expected)
                self.assertEqual(self.ok(LLMC_RUN, plan, *arguments, *flags, input=written.decode()).stdout, expected)
        for written in (b"hello\n\n", b"hello\0"):  # one line end alone goes; NUL is a byte as others are
            text.write_bytes(written)
            self.assertNotEqual(self.ok(LLMC_RUN, plan, "-f", text, *flags).stdout, "")
            self.assertEqual(self.ok(LLMC_RUN, plan, "-f", text, *flags).stdout, self.ok(LLMC_RUN, plan, *flags, input=written.decode()).stdout)
        text.write_bytes(b"hello " * 40000)
        self.fails(1, LLMC_RUN, plan, "-f", text, says="context")
        for arguments in (["-p", "x"], ["--tokens", "1"], ["--perplexity", text], ["--selftest"], ["--bench"]):
            self.fails(2, LLMC_RUN, plan, "-f", text, *arguments, says="-f" if arguments[0][1] != "-" or arguments[0] in ("--tokens", "--bench") else "no prompt")
        self.fails(2, LLMC_RUN, plan, says="no prompt", stdin=subprocess.DEVNULL)
        self.fails(2, LLMC_RUN, plan, says="no prompt", input="")
        self.fails(1, LLMC_RUN, plan, "-f", self.folder / "absent", says="absent")
        self.assertEqual(self.ok(LLMC, "run", self.model, *flags, input="hello\n").stdout, expected)

    def test_I07_lists_options_and_names(self):
        plan = self.compile(self.model)
        for ids in ("1,,2", ",1", "1, ,2"):
            self.fails(2, LLMC_RUN, plan, "--tokens", ids, "-n", "1", "--print-tokens", says="not a list of ids")
        self.ok(LLMC_RUN, plan, "--tokens", "1, 2 ,3\n4", "-n", "1", "--print-tokens")
        self.fails(2, LLMC_RUN, plan, "-p", "a", "-p", "b", says="-p is given twice")
        config = json.loads((self.model / "config.json").read_text())
        (self.model / "config.json").write_text(json.dumps({**config, "architectures": ["a\0b\x1b[31mc"], "model_type": "a\0b\x1b[31mc"}))
        result = self.fails(1, LLMC, "compile", self.model, *NATIVE, "-o", self.folder / "x.plan")
        self.assertNotIn("\x1b", result.stderr)
        self.assertNotIn("\0", result.stderr)
        self.assertIn("[31mc", result.stderr)

    def test_I08_gguf_by_its_magic(self):
        source = GGUF / "llama-q4_1" / "model.gguf"
        expected = self.compile(source).read_bytes()
        for name in ("model.GGUF", "model", "model.bin"):
            shutil.copyfile(source, self.folder / name)
            self.assertEqual(self.compile(self.folder / name).read_bytes(), expected)

    def test_I09_a_new_time_is_no_change(self):
        plan = self.compile(self.model)
        flags = ["-p", "hello", "-n", "200", "--ignore-eos", "--print-tokens"]
        expected = self.ok(LLMC_RUN, plan, *flags).stdout
        process = subprocess.Popen([LLMC_RUN, plan, *flags], stdout=subprocess.PIPE, text=True)
        first = process.stdout.read(1)
        os.utime(plan)
        self.assertEqual(first + process.stdout.read(), expected)
        process.stdout.close()
        self.assertEqual(process.wait(), 0)

    @unittest.skipUnless("LLMC_NO_LINKAT" in os.environ, "only with the library that makes linkat fail")
    def test_I10_files_that_cannot_be_named(self):
        expected = self.compile(self.model)
        result = self.ok(LLMC, "compile", self.model, *NATIVE, "-o", self.folder / "x.plan", env={**os.environ, "LD_PRELOAD": os.environ["LLMC_NO_LINKAT"]})
        self.assertEqual((self.folder / "x.plan").read_bytes(), expected.read_bytes(), result.stderr)
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["m.plan", "tiny", "x.plan"])

    def test_I11_safetensors_as_the_reference_reads_them(self):
        data = (self.model / "model.safetensors").read_bytes()
        size = struct.unpack_from("<Q", data)[0]
        header, rest = data[8:8 + size].decode().rstrip(), data[8 + size:]
        expected = self.compile(self.model)
        weights = self.ok(LLMC, "inspect", expected).stdout

        def write(text):
            (self.model / "model.safetensors").write_bytes(struct.pack("<Q", len(text.encode())) + text.encode() + rest)

        for text in (" " + header, "\n" + header + "  ", header.replace('"dtype"', '"made_by":"x","dtype"', 1), header.replace("{", '{"__metadata__":null,', 1)
                     if "__metadata__" not in header else header):
            write(text)
            self.ok(LLMC, "compile", self.model, *NATIVE, "-o", self.folder / "m.plan")
        self.assertIn("weights", weights)
        plain = json.loads(header)
        plain.pop("__metadata__", None)
        for text in (header + "\0\0", json.dumps({"__metadata__": {"a": 1}, **plain}), json.dumps({"__metadata__": "x", **plain})):
            write(text)
            self.fails(1, LLMC, "compile", self.model, *NATIVE, "-o", self.folder / "x.plan", says="model.safetensors")

    def test_I12_remarks_of_layers_are_one_line(self):
        lines = [line for line in self.ok(LLMC, "compile", self.model, *NATIVE, "--remarks", "-o", self.folder / "m.plan").stderr.splitlines() if "remark" in line]
        self.assertTrue(any("b{i}" in line and "i = 0..4" in line for line in lines), lines)
        self.assertFalse(any("$b1." in line for line in lines), lines)

    def test_I13_a_model_that_was_not_fetched_is_named(self):
        says = [str(self.folder / "none" / "models"), "tools/models smollm2 fetches it"]
        self.fails(3, SOURCE / "tools" / "models", "smollm2", "--offline", says=says, env={**os.environ, "LLMC_CACHE": str(self.folder / "none")})


if __name__ == "__main__":
    unittest.main()
