"""llmc compile: reproducible plans, IR in and out at every stage, and errors that leave nothing behind."""
import hashlib
import os
import re
import shutil
import stat
import unittest

from harness import GOLDEN, LLMC, LLMC_RUN, CliTest, run

MODEL = GOLDEN / "llama-gqa2"


class Reproducible(CliTest):
    def test_names_folders_and_jobs_do_not_matter(self):
        other = self.folder / "another name" / "copy"
        shutil.copytree(MODEL, other)
        first = self.compile(MODEL, "a.plan", "-j", 1).read_bytes()
        self.assertEqual(self.compile(other, "b.plan", "-j", 2).read_bytes(), first)
        self.assertEqual(self.compile(MODEL, "c.plan", "-j", 3).read_bytes(), first)
        for text in (str(MODEL).encode(), b"another name", b"/work/", b"/home/", b"/root/", b"/tmp/"):
            self.assertNotIn(text, first)

    def test_from_any_stage(self):
        dump = self.folder / "ir"
        direct = self.compile(MODEL, "direct.plan", "--dump-ir", dump).read_bytes()
        stages = sorted(dump.iterdir())
        self.assertGreaterEqual(len(stages), 8)
        for stage in stages:
            with self.subTest(stage=stage.name):
                again = self.folder / "again.ir"
                self.ok(LLMC, "opt", stage, "-o", again)
                self.assertEqual(again.read_text(), stage.read_text(), "print(parse(s)) == s")
                self.assertEqual(self.compile(MODEL, "from.plan", "--from", stage).read_bytes(), direct)

    def test_from_takes_the_options_of_its_ir(self):
        """MODEL is imported as it was for that IR, so the plan is the same without repeating the options, and with them."""
        options = ["--context", 96, "--chunk", 256, "--kv-type", "f32", "--quantize", "q8_0", "--weights", "random:7", "--disable-pass", "fuse-qkv"]
        dump = self.folder / "ir"
        direct = self.compile(MODEL, "direct.plan", "--dump-ir", dump, *options).read_bytes()
        for stage in sorted(dump.iterdir()):
            with self.subTest(stage=stage.name):
                repeated = options if stage.name != "00-import.ir" else [*options[:-2]]
                disabled = [] if stage.name != "00-import.ir" else options[-2:]
                self.assertEqual(self.compile(MODEL, "from.plan", "--from", stage, *disabled).read_bytes(), direct)
                self.assertEqual(self.compile(MODEL, "from.plan", "--from", stage, *repeated, *disabled).read_bytes(), direct)

    def test_from_takes_bf16_activations(self):
        model, dump = GOLDEN / "qwen3-bf16", self.folder / "ir"
        direct = self.compile(model, "direct.plan", "--dump-ir", dump, "--activations", "bf16").read_bytes()
        for stage in sorted(dump.iterdir()):
            self.assertEqual(self.compile(model, "from.plan", "--from", stage).read_bytes(), direct, stage.name)
            self.fails(2, LLMC, "compile", model, "--from", stage, "--activations", "f32", "-o", self.folder / "x.plan", says=["contradicts", "--activations"])

    def test_contradictions_with_from(self):
        ir, late = self.folder / "import.ir", self.folder / "late.ir"
        self.ok(LLMC, "compile", MODEL, "--stop-after", "import", "-o", ir)
        self.ok(LLMC, "compile", MODEL, "--stop-after", "pack-weights", "-o", late)
        for flags in (["--context", "16"], ["--chunk", "3"], ["--kv-type", "f32"], ["--activations", "q8"], ["--quantize", "q8_0"], ["--weights", "random:7"]):
            self.fails(2, LLMC, "compile", MODEL, "--from", ir, *flags, "-o", self.folder / "x.plan", says=["contradicts", flags[0]])
        for flags in (["--stop-after", "import"], ["--stop-after", "fuse-qkv"], ["--disable-pass", "fuse-qkv"]):
            self.fails(2, LLMC, "compile", MODEL, "--from", late, *flags, "-o", self.folder / "x.plan", says=["contradicts", flags[0]])
        self.assertFalse((self.folder / "x.plan").exists())
        self.assertEqual(self.ok(LLMC, "compile", MODEL, "--from", late, "--stop-after", "pack-weights").stdout, late.read_text())
        for option in ("context = 0", "chunk = 0", "context = 1000000", "kv_type = f64", "activations = f16"):
            name = option.split()[0]
            late.write_text(re.sub(name + r" = \w+", option, ir.read_text(), count=1))
            self.fails(1, LLMC, "compile", MODEL, "--from", late, "-o", self.folder / "x.plan", says=name)
        for numerics in ("numerics = 1, ", ""):
            late.write_text(ir.read_text().replace("numerics = 2, ", numerics))
            self.fails(1, LLMC, "compile", MODEL, "--from", late, "-o", self.folder / "x.plan", says=["late.ir:1", "numerics", "version 2"])
        for after in ("", "after = [1], "):
            ir.write_text("module @m {" + after + "context = 4}\n")
            self.fails(1, LLMC, "compile", MODEL, "--from", ir, "-o", self.folder / "x.plan", says=["import.ir:1", "after"])

    def test_I02_provenance_is_what_made_the_plan(self):
        ir, model = self.folder / "import.ir", self.folder / "model"
        shutil.copytree(MODEL, model)
        self.ok(LLMC, "compile", model, "--stop-after", "fuse-qkv", "-o", ir)
        direct = self.compile(model)
        result = self.ok(LLMC, "compile", model, "--from", ir, "--target-cpu", "native", "-o", self.folder / "from.plan")
        self.assertNotIn("warning", result.stderr)
        self.assertEqual((self.folder / "from.plan").read_bytes(), direct.read_bytes())
        config = (model / "config.json").read_text()
        self.assertIn('"rms_norm_eps": 1e-05', config)
        (model / "config.json").write_text(config.replace('"rms_norm_eps": 1e-05', '"rms_norm_eps": 1e-04'))
        result = self.ok(LLMC, "compile", model, "--from", ir, "-o", self.folder / "from.plan")
        for word in ("warning", "import.ir", "config.json"):
            self.assertIn(word, result.stderr)
        shown = self.ok(LLMC, "inspect", self.folder / "from.plan").stdout
        for role, path in (("ir", ir), ("config-contradicted-by-ir", model / "config.json")):
            self.assertIn(f"\ninput        {role} sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}\n", shown)
        self.assertNotIn("input        config sha256", shown)

    def test_from_needs_the_model_of_its_ir(self):
        out, ir = self.folder / "x.plan", self.folder / "import.ir"
        self.ok(LLMC, "compile", MODEL, "--stop-after", "import", "-o", ir)
        text = ir.read_text()
        self.fails(1, LLMC, "compile", MODEL, "--from", self.folder / "missing.ir", "-o", out, says=["missing.ir", "[FileError]"])
        self.fails(1, LLMC, "compile", MODEL, "--dump-ir", ir / "x", "-o", out, says=["import.ir/x", "[FileError]"])
        ir.write_text(text.replace("$embed", "$table"))
        self.fails(1, LLMC, "compile", MODEL, "--from", ir, "-o", out, says=["import.ir:3", "$table", "[UnknownName]"])
        ir.write_text(text.replace("$embed : f16", "$embed : bf16"))
        self.fails(1, LLMC, "compile", MODEL, "--from", ir, "-o", out, says=["import.ir:3", "bf16[96, 32]", "[TypeMismatch]"])
        ir.write_text(text.replace("after = import", "after = nothing"))
        self.fails(1, LLMC, "compile", MODEL, "--from", ir, "-o", out, says=["import.ir:1", "[BadAttribute]"])
        self.assertFalse(out.exists())

    def test_what_is_not_there_is_named(self):
        self.fails(1, LLMC, "tokenize", MODEL, "-p", "text", says=["llama-gqa2", "[Unsupported]"])
        large = self.folder / "large.ir"
        large.touch()
        os.truncate(large, (256 << 20) + 1)
        self.fails(1, LLMC, "opt", large, says=["large.ir", "268435456", "[TooLarge]"])

    def test_check_holds(self):
        self.compile(MODEL, "m.plan", "--check", "--quantize", "q8_0")
        self.compile(GOLDEN / "qwen3-bf16", "m.plan", "--check", "--activations", "bf16")


class Printing(CliTest):
    def test_stop_after_writes_ir_to_stdout(self):
        text = self.ok(LLMC, "compile", MODEL, "--stop-after", "fuse-qkv").stdout
        self.assertIn("after = fuse-qkv", text)
        self.assertIn("wqkv", text)

    def test_print_and_remarks_go_to_stderr(self):
        result = self.ok(LLMC, "compile", MODEL, "-o", self.folder / "m.plan", "--target-cpu", "native", "--print-after", "all", "--remarks", "--time-passes")
        self.assertEqual(result.stdout, "")
        for words in ("after plan-memory", "no change", "fuse-qkv", " ms"):
            self.assertIn(words, result.stderr)

    def test_print_before_is_what_the_pass_gets(self):
        result = self.ok(LLMC, "compile", MODEL, "-o", self.folder / "m.plan", "--target-cpu", "native", "--print-before", "fuse-gate-up", "--print-before", "plan-memory")
        for before, after in (("fuse-gate-up", "fuse-qkv"), ("plan-memory", "plan-schedule")):
            self.assertIn(f"# before {before}\n" + self.ok(LLMC, "compile", MODEL, "--stop-after", after).stdout, result.stderr)
        self.assertEqual(result.stderr.count("# before"), 2)

    def test_remarks_say_what_did_not_fire_and_why(self):
        """Biased and unbiased or differently stored siblings fuse as far as they can; each remark names its pass and the op."""
        fired = self.ok(LLMC, "compile", MODEL, "-o", self.folder / "m.plan", "--target-cpu", "native", "--remarks").stderr
        self.assertIn("remark: fuse-qkv: 3 linears from $b{i}.wq on are one, i = 0..2 [PassRemark]", fired)
        none = self.ok(LLMC, "compile", MODEL, "-o", self.folder / "m.plan", "--target-cpu", "native", "--remarks", "--activations", "bf16").stderr
        self.assertIn("remark: quantize-activations: @decode: 0 values to bf16 [PassRemark]", none)
        self.assertRegex(none, r"remark: quantize-activations: @decode: \d+ products keep f32 inputs, their weights aren't bf16 ")
        without = self.ok(LLMC, "compile", MODEL, "-o", self.folder / "m.plan", "--target-cpu", "native", "--remarks", "--disable-pass", "fuse-qkv").stderr
        self.assertNotIn("fuse-qkv", without)

    def test_stop_after_a_pass_that_is_left_out(self):
        text = self.ok(LLMC, "compile", MODEL, "--disable-pass", "fuse-qkv", "--stop-after", "fuse-qkv").stdout
        self.assertIn("after = absorb-mla", text)

    def test_list_passes(self):
        self.assertIn("fuse-add-rms-norm", self.ok(LLMC, "opt", "--list-passes").stdout)

    def test_inspect(self):
        plan = self.compile(MODEL)
        self.assertIn("phase        decode 1..1 rows", self.ok(LLMC, "inspect", plan).stdout)
        self.assertRegex(self.ok(LLMC, "inspect", plan).stdout, r"\nbuild        llmc \S+, LLVM 19\S*, (kernels x86-64-v\d\S* [0-9a-f]{16}, )+presets [0-9a-f]{16}\n")
        self.assertIn('decode steps\n  step\n  code "decode"\n', self.ok(LLMC, "inspect", plan, "--schedule").stdout)
        self.assertIn("\noptions      after = import, numerics = 2, context = 512, kv_type = f16, activations = f32, chunk = 256\n", self.ok(LLMC, "inspect", plan).stdout)
        self.ok(LLMC, "inspect", plan, "--verify")
        self.assertIn("after = plan-memory", self.ok(LLMC, "inspect", plan, "--ir").stdout)
        self.assertIn("after = import", self.ok(LLMC, "inspect", plan, "--ir", "import").stdout)
        direct = self.ok(LLMC, "compile", MODEL, "--stop-after", "fuse-gate-up").stdout
        self.assertEqual(self.ok(LLMC, "inspect", plan, "--ir", "fuse-gate-up").stdout, direct)
        self.assertEqual(self.ok(LLMC, "inspect", plan, "--ir", "plan-memory").stdout, self.ok(LLMC, "inspect", plan, "--ir").stdout)

    def test_verify_sees_a_flipped_weight(self):
        plan = self.compile(MODEL)
        data = bytearray(plan.read_bytes())
        for line in self.ok(LLMC, "inspect", plan).stdout.splitlines():
            if line.startswith("section      weights"):
                offset = int(line.split()[-1])
        data[offset + 100] ^= 1
        plan.write_bytes(data)
        self.fails(1, LLMC, "inspect", plan, "--verify", says="weights")


class Refusals(CliTest):
    def left(self):
        return sorted(p.name for p in self.folder.iterdir())

    def test_usage(self):
        out = self.folder / "x.plan"
        self.fails(2, LLMC)
        self.fails(2, LLMC, "compile", MODEL)
        self.fails(2, LLMC, "compile", MODEL, "-o", out, "--no-such-flag")
        self.fails(2, LLMC, "compile", MODEL, "-o", out, "--disable-pass", "plan-memory", says="required")
        self.fails(2, LLMC, "compile", MODEL, "-o", out, "--disable-pass", "fuse-everything", says="fuse-everything")
        self.fails(2, LLMC, "compile", MODEL, "-o", out, "--print-after", "nothing", says="nothing")
        self.fails(2, LLMC, "compile", MODEL, "-o", out, "--target-cpu", "pentium", says="pentium")
        self.fails(2, LLMC, "compile", MODEL, "-o", out, "--context", "0")
        self.fails(2, LLMC, "compile", MODEL, "-o", out, "--activations", "f16", says=["--activations", "bf16"])
        self.fails(2, LLMC, "compile", MODEL, "-o", out, "--no-weights", says="weights")
        self.assertEqual(self.left(), [])

    def test_input(self):
        out = self.folder / "x.plan"
        self.fails(1, LLMC, "compile", self.folder / "missing", "-o", out, says="missing")
        broken = self.folder / "broken"
        shutil.copytree(MODEL, broken)
        weights = broken / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-7])
        self.fails(1, LLMC, "compile", broken, "-o", out, says="model.safetensors")
        self.assertEqual(self.left(), ["broken"])

    def test_output(self):
        self.fails(1, LLMC, "compile", MODEL, "-o", self.folder / "no" / "such" / "x.plan", says="x.plan")
        self.fails(1, LLMC, "compile", MODEL, "-o", "/dev/full", says="/dev/full")
        self.fails(1, LLMC, "compile", MODEL, "--stop-after", "import", "-o", "/dev/full", says=["/dev/full", "No space"])
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/full").st_mode), "the device is still there")
        copy = self.folder / "model"
        shutil.copytree(MODEL, copy)
        before = (copy / "model.safetensors").read_bytes()
        self.fails(1, LLMC, "compile", copy, "-o", copy / "model.safetensors", says="model.safetensors")
        os.link(copy / "model.safetensors", self.folder / "link.plan")
        self.fails(1, LLMC, "compile", copy, "-o", self.folder / "link.plan", says="link.plan")
        self.assertEqual((copy / "model.safetensors").read_bytes(), before)
        self.assertEqual(self.left(), ["link.plan", "model"])

    def test_full_disk(self):
        """A write that fails midway (here by the limit on file sizes) leaves the old plan and no temporary."""
        plan = self.compile(MODEL)
        before = plan.read_bytes()
        result = run("bash", "-c", f"trap '' XFSZ; ulimit -f 128; exec '{LLMC}' compile '{MODEL}' -o '{plan}'")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("m.plan", result.stderr)
        self.assertEqual(plan.read_bytes(), before)
        self.assertEqual(self.left(), ["m.plan"])

    def test_reference_plans_are_refused_by_name(self):
        plan = self.compile(MODEL, "r.plan", "--backend", "reference")
        self.fails(1, LLMC_RUN, plan, "--tokens", "1,2", "-n", "1", "--print-tokens", says="reference")


class Opt(CliTest):
    def test_errors_name_line_and_column(self):
        bad = self.folder / "bad.ir"
        bad.write_text("module @m {after = import}\nweight $w : q9_9[1, 1]\n")
        self.fails(1, LLMC, "opt", bad, says=["bad.ir:2:", "q9_9"])
        bad.write_text(self.ok(LLMC, "compile", MODEL, "--stop-after", "import").stdout)
        self.fails(2, LLMC, "opt", bad, "--passes", "nonsense", says="nonsense")

    def test_flat(self):
        text = self.ok(LLMC, "compile", GOLDEN / "llama-deep", "--stop-after", "import").stdout
        self.assertIn("repeat i", text)
        flat = self.ok(LLMC, "opt", "-", "--flat", input=text).stdout
        self.assertNotIn("repeat", flat)
        self.assertEqual(self.ok(LLMC, "opt", "-", input=flat).stdout, text)


if __name__ == "__main__":
    unittest.main()
