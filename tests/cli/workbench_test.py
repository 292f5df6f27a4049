"""verify, bisect, trace and profile through the command line."""
import json
import pathlib
import re
import unittest

from harness import GOLDEN, LLMC, ONEDNN, SOURCE, TINY, CliTest, npy

HIDDEN = SOURCE / "tests" / "data" / "golden-hidden"


class VerifyTest(CliTest):
    def test_table(self):
        out = self.ok(LLMC, "verify", TINY).stdout
        self.assertIn("fuse-qkv", out)
        self.assertIn("code: score, 2 threads", out)
        self.assertNotIn("BROKEN", out)

    def test_json(self):
        report = json.loads(self.ok(LLMC, "verify", GOLDEN / "llama-odd", "--json", "--disable-pass", "fuse-qkv").stdout)
        self.assertTrue(report["holds"])
        names = [row["what"] for row in report["rows"]]
        self.assertIn("pack-weights", names)
        self.assertNotIn("fuse-qkv", names)
        for row in report["rows"]:
            self.assertTrue(row["equal"] or row["kind"] == "rounds", row)

    def test_rounding_is_measured(self):
        report = json.loads(self.ok(LLMC, "verify", TINY, "--json", "--quantize", "q8_0").stdout)
        rounds = [row for row in report["rows"] if row["what"] == "quantize-activations"]
        self.assertEqual(len(rounds), 1)
        self.assertFalse(rounds[0]["equal"])
        self.assertTrue(0 < rounds[0]["nmse"] < 1e-2, rounds)

    def test_needs_weights(self):
        self.fails(2, LLMC, "verify", TINY, "--no-weights", says="weights")


class EncoderTest(CliTest):
    """The same of models that give hidden rows."""

    MODEL = HIDDEN / "bert-types"

    def test_verify(self):
        out = self.ok(LLMC, "verify", self.MODEL).stdout
        self.assertIn("code: hidden, 2 threads", out)
        self.assertNotIn("BROKEN", out)
        report = json.loads(self.ok(LLMC, "verify", HIDDEN / "modernbert-local-gguf" / "model.gguf", "--json").stdout)
        self.assertTrue(report["holds"])

    def test_bisect(self):
        self.assertIn("nothing breaks", self.ok(LLMC, "bisect", self.MODEL).stdout)
        golden = json.loads((self.MODEL / "golden.json").read_text())
        self.assertTrue(any(golden["types"]))  # the reference is of a pair, and bisect gives types of 0
        tokens = ",".join(map(str, golden["prompt"]))
        self.fails(1, LLMC, "bisect", self.MODEL, "--reference", self.MODEL / "hidden.npy", "--tokens", tokens, "--tolerance", "1e-9", says="")
        plain = HIDDEN / "eurobert-bias"
        tokens = ",".join(map(str, json.loads((plain / "golden.json").read_text())["prompt"]))
        self.ok(LLMC, "bisect", plain, "--reference", plain / "hidden.npy", "--tokens", tokens, "--tolerance", "1e-9")
        self.fails(1, LLMC, "bisect", plain, "--reference", plain / "hidden.npy", "--tokens", "1,2", says=("rows of", "ShapeMismatch"))
        found = self.fails(1, LLMC, "bisect", self.MODEL, "--against", self.edited()).stdout
        self.assertIn("first op that parts", found)

    def edited(self):
        """The model with another scale of its scores in the first layer."""
        description = json.loads(self.ok(LLMC, "describe", self.MODEL).stdout)
        for block in description["blocks"].values():
            block["attention"]["scale"] *= 2
        description["weights"] = str(self.MODEL / "model.safetensors")
        path = self.folder / "edited.json"
        path.write_text(json.dumps(description))
        return path

    def test_trace(self):
        rows = json.loads(self.ok(LLMC, "trace", self.MODEL, "--tokens", "1,2,3", "--json").stdout)
        self.assertIn("b0.att", [row["value"] for row in rows])
        plan = self.compile(self.MODEL)
        self.ok(LLMC, "trace", plan, "--tokens", "1,2,3", "--npy", self.folder / "a")
        self.ok(LLMC, "trace", self.MODEL, "--tokens", "1,2,3", "--compare", self.folder / "a")
        self.fails(1, LLMC, "trace", self.MODEL, "--tokens", ",".join(["1"] * 4000), says=("one call takes", "TooLarge"))


class BisectTest(CliTest):
    def stages(self):
        folder = self.folder / "stages"
        self.ok(LLMC, "compile", TINY, "--target-cpu", "native", "-o", self.folder / "m.plan", "--dump-ir", folder)
        return folder

    def test_nothing_breaks(self):
        self.assertIn("nothing breaks", self.ok(LLMC, "bisect", TINY).stdout)
        self.assertIn("nothing breaks", self.ok(LLMC, "bisect", TINY, "--stages", self.stages()).stdout)

    def test_names_an_edited_stage(self):
        folder = self.stages()
        files = sorted(folder.glob("*.ir"))
        first = [path for path in files if "specialize-phases" in path.name][0]
        for path in files[files.index(first):]:
            path.write_text(re.sub(r"scale = [0-9.e-]+", "scale = 0.125", path.read_text()))
        found = json.loads(self.fails_with_output(1, LLMC, "bisect", TINY, "--stages", folder, "--json"))
        self.assertEqual(found["stage"], first.stem)
        self.assertEqual(found["culprit"]["op"], "attention")
        self.assertEqual(found["culprit"]["layer"], 0)
        text = self.fails_with_output(1, LLMC, "bisect", TINY, "--stages", folder)
        self.assertIn("> ", text)
        self.assertIn("b0.att", text)

    def fails_with_output(self, status, *arguments):
        return self.fails(status, *arguments).stdout

    def test_reference(self):
        model = GOLDEN / "llama-mha"
        golden = json.loads((model / "golden.json").read_text())
        tokens = ",".join(map(str, golden["prompt"]))
        self.ok(LLMC, "bisect", model, "--reference", model / "logits.npy", "--tokens", tokens, "--kv-type", "f32", "--tolerance", "1e-9")
        other = GOLDEN / "llama-mqa"
        self.fails(1, LLMC, "bisect", model, "--reference", other / "logits.npy", "--tokens", tokens, says="")
        self.fails(2, LLMC, "bisect", model, "--reference", model / "logits.npy", says="--tokens")
        self.fails(1, LLMC, "bisect", model, "--reference", model / "logits.npy", "--tokens", "1,2", says=("values", "ShapeMismatch"))

    def test_against_a_plan(self):
        plan = self.compile(TINY)
        self.assertIn("nothing parts", self.ok(LLMC, "bisect", TINY, "--against", plan).stdout)
        other = self.compile(TINY, "other.plan", "--quantize", "q8_0")
        self.assertIn("first op that parts", self.fails_with_output(1, LLMC, "bisect", TINY, "--against", other))


class TraceTest(CliTest):
    def test_rows(self):
        rows = json.loads(self.ok(LLMC, "trace", TINY, "-p", "7+12=", "--json").stdout)
        names = [row["value"] for row in rows]
        self.assertEqual(names[0], "b0.x")
        self.assertIn("b1.att", names)
        self.assertTrue(all(row["nonfinite"] == 0 for row in rows))
        layer = json.loads(self.ok(LLMC, "trace", TINY, "-p", "7+12=", "--json", "--layer", "1", "--op", "attention").stdout)
        self.assertEqual([row["value"] for row in layer], ["b1.att"])

    def test_plan_and_model_agree(self):
        plan = self.compile(TINY)
        self.ok(LLMC, "trace", TINY, "--tokens", "1,2,3", "--npy", self.folder / "a")
        out = self.ok(LLMC, "trace", plan, "--tokens", "1,2,3", "--compare", self.folder / "a", "--tolerance", "0").stdout
        self.assertIn("%b1.x", out)
        values, shape = npy(self.folder / "a" / "b0.x.npy")
        self.assertEqual(tuple(shape), (3, 128))
        damaged = bytearray((self.folder / "a" / "b1.n.npy").read_bytes())
        damaged[-1] ^= 0x40
        (self.folder / "a" / "b1.n.npy").write_bytes(damaged)
        self.fails(1, LLMC, "trace", plan, "--tokens", "1,2,3", "--compare", self.folder / "a", says="%b1.n is the first that parts")

    def test_map(self):
        self.ok(LLMC, "trace", TINY, "--tokens", "1,2", "--npy", self.folder / "a")
        pathlib.Path(self.folder / "a" / "b0.x.npy").rename(self.folder / "a" / "embedding.npy")
        (self.folder / "map").write_text("b0.x embedding  # ours theirs\n")
        out = self.ok(LLMC, "trace", TINY, "--tokens", "1,2", "--compare", self.folder / "a", "--map", self.folder / "map").stdout
        self.assertIn("embedding.npy", out)
        (self.folder / "map").write_text("b0.x\n")
        self.fails(1, LLMC, "trace", TINY, "--tokens", "1,2", "--compare", self.folder / "a", "--map", self.folder / "map", says=("OURS THEIRS", "SyntaxError"))

    def test_usage(self):
        self.fails(2, LLMC, "trace", TINY, "--tokens", "1,x", says="--tokens")
        self.fails(2, LLMC, "trace", TINY, "--layer", "99", says="--layer")
        self.fails(1, LLMC, "trace", TINY, "--tokens", "1", "--compare", self.folder, says="NPY")
        (self.folder / "b0.x.npy").write_bytes(b"\x93NUMPY\x01\x00\xff\xff{}")
        self.fails(1, LLMC, "trace", TINY, "--tokens", "1", "--compare", self.folder, says=("cut", "BadFormat"))


class ProfileTest(CliTest):
    def profile(self, plan, *flags):
        return json.loads(self.ok(LLMC, "profile", plan, "-p", 20, "-n", 3, "-r", 1, "--json", *flags).stdout)

    def test_rows_are_the_plans_calls(self):
        plan = self.compile(TINY, "m.plan", "--chunk", 8)
        schedule = json.loads(self.ok(LLMC, "inspect", plan, "--schedule", "--json").stdout)
        for threads in (1, 3):
            profile = self.profile(plan, "-t", threads, "--layers")
            for phase in ("prefill", "decode"):
                rows, calls = profile[phase], schedule[f"{phase}_schedule"]
                self.assertEqual(sum(row["calls"] for row in rows), len(calls))
                self.assertEqual({row["function"] for row in rows}, {call["function"] for call in calls})
                self.assertEqual(sum(row["calls"] for row in profile[f"{phase}_layers"]), len(calls))
                self.assertEqual(len(profile[f"{phase}_threads"]), threads)
                self.assertTrue(all(row["us"] >= 0 and row["wait_us"] >= 0 for row in rows))
                self.assertGreater(profile[f"{phase}_us"], 0)
                self.assertGreater(profile[f"{phase}_in_rows_%"], 0)

    def test_bytes_are_those_of_describe(self):
        """A token of SmolLM2's kind reads each weight once, and the cache of the positions before it."""
        report = self.ok(LLMC, "describe", TINY, "--report").stderr
        weights = int(re.search(r"decode, first position .*reads ([0-9,]+) bytes of weights", report)[1].replace(",", ""))
        decode = self.profile(self.compile(TINY))["decode"]
        read = sum(row["MB"] for row in decode if "attention" not in row["ops"]) * 1e6
        self.assertAlmostEqual(read / weights, 1, delta=0.02)  # a rope table and gains beside them

    def test_text(self):
        text = self.ok(LLMC, "profile", self.compile(TINY), "-p", 8, "-n", 2).stdout
        self.assertRegex(text, r"\n +%b\{i\}\.\w+ +linear .*linear_f32\.\d+ ")
        self.assertRegex(text, r"\nprefill in rows % +[0-9.]+\n")

    def test_refusals(self):
        plan = self.compile(TINY)
        self.fails(1, LLMC, "profile", plan, "-p", 100000, says=["a prompt of 100000", "the context has"])
        self.fails(2, LLMC, "profile", plan, "-p", 0, says="-p")
        self.fails(1, LLMC, "profile", self.folder / "none.plan", says="none.plan")
        self.fails(1, LLMC, "profile", self.compile(SOURCE / "tests/data/golden-hidden/bert-masked", "bert.plan", "--no-tokenizer"), says="encoders")
        self.fails(2, LLMC, "profile", self.compile(TINY, "r.plan", "--backend", "reference"), says="no code")
        if ONEDNN:
            self.fails(2, LLMC, "profile", self.compile(TINY, "d.plan", "--backend", "onednn"), says="oneDNN's steps")


class DiffTest(CliTest):
    def test_plans(self):
        a, b = self.compile(TINY), self.compile(TINY, "b.plan", "--kv-type", "f32")
        self.assertEqual(self.ok(LLMC, "diff", a, a).stdout, "nothing differs\n")
        out = self.ok(LLMC, "diff", a, b).stdout
        self.assertIn("option kv_type: f16 -> f32", out)
        self.assertRegex(out, r"memory states: \d+ bytes -> \d+ bytes")
        self.assertIn("- state $b", out.replace("  repeat", "").replace("-   state", "- state"))
        changes = json.loads(self.ok(LLMC, "diff", a, b, "--json").stdout)["changes"]
        self.assertIn({"group": "option", "name": "kv_type", "a": "f16", "b": "f32"}, changes)

    def test_texts_and_models(self):
        folder = self.folder / "stages"
        self.ok(LLMC, "compile", TINY, "--target-cpu", "native", "-o", self.folder / "m.plan", "--dump-ir", folder)
        a, b = [next(folder.glob(f"*-{name}.ir")) for name in ("import", "fuse-qkv")]
        out = self.ok(LLMC, "diff", a, b).stdout
        self.assertRegex(out, r"(?m)^\+ .*wqkv")
        self.assertRegex(out, r"(?m)^\+ .*split = ")
        out = self.ok(LLMC, "diff", GOLDEN / "llama-mha", GOLDEN / "llama-mqa").stdout
        self.assertIn("weights f32", out)
        self.fails(1, LLMC, "diff", a, self.folder / "none.ir", says="none.ir")


if __name__ == "__main__":
    unittest.main()
