"""--backend onednn and auto through the command line: the numbers of llvm's plans, reproducible bytes, what is shown, and what is refused."""
import json
import os
import pathlib
import re
import shutil
import tempfile
import unittest

from harness import GGUF, GOLDEN, LLMC, LLMC_RUN, ONEDNN, TINY, CliTest, nmse, npy, optional_passes

TOKENS = "3,1,4,15,9,2,6,5,35,8,9,7,9,3,2,3,8,4,6,2,6,4,3,3,8,3,2,7,9,5,0,2,8,8,4,1,9"
Q4 = GGUF / "llama-q4_1" / "model.gguf"  # block weights and int8 activations: onednn's products are exact
F16 = GOLDEN / "llama-gqa2"  # float weights: another order of sums
CACHE = {}  # plans that several tests read
CHOICE = r"remark: select-backend: @(\w+): (onednn|llvm) \((.*)\) \[PassRemark\]"


@unittest.skipUnless(ONEDNN, "this build has no libllmc_onednn.so")
class OnednnTest(CliTest):
    def logits(self, plan, *flags, program=(LLMC_RUN,)):
        out = self.folder / "out.npy"
        self.ok(*program, plan, "--tokens", TOKENS, "--logits", out, "--all-positions", *flags)
        return out.read_bytes()

    def rows(self, plan, *flags):
        self.logits(plan, *flags)
        values, (positions, vocab) = npy(self.folder / "out.npy")
        return [values[i * vocab:(i + 1) * vocab] for i in range(positions)]

    def ids(self, plan, *flags):
        return self.ok(LLMC_RUN, plan, "--tokens", "1,5,9,2,7", "-n", 12, "--temp", 0, "--print-tokens", "--ignore-eos", *flags).stdout

    def plan(self, backend, model, *flags):
        """Compiled once for all tests, which leave it as it is."""
        if (backend, model, flags) not in CACHE:
            folder = pathlib.Path(tempfile.mkdtemp(prefix="llmc-plans-"))
            unittest.addModuleCleanup(shutil.rmtree, folder)
            plan = CACHE[backend, model, flags] = folder / f"{backend}.plan"
            target = () if "--target-cpu" in flags else ("--target-cpu", "native")
            self.ok(LLMC, "compile", model, "--backend", backend, *target, *flags, "-o", plan)
        return CACHE[backend, model, flags]

    def plans(self, model, *flags):
        return [self.plan(backend, model, *flags) for backend in ("llvm", "onednn", "auto")]


class Numbers(OnednnTest):
    def test_text_of_a_trained_model(self):
        for plan in self.plans(TINY) + self.plans(TINY, "--activations", "bf16"):
            for threads in (1, 2):
                self.assertEqual(self.ok(LLMC_RUN, plan, "-p", "7+12=", "-n", 8, "--temp", 0, "-t", threads).stdout, "19\n")
        for backend in ("onednn", "auto"):
            self.assertEqual(self.ok(LLMC, "run", TINY, "--backend", backend, "-p", "7+12=", "-n", 8, "--temp", 0).stdout, "19\n")

    def test_block_weights_have_llvms_bits(self):
        for model, flags in ((Q4, ()), (GGUF / "qwen3-q8_0" / "model.gguf", ()), (GGUF / "qwen2-q4_1" / "model.gguf", ()), (F16, ("--quantize", "q4_0"))):
            llvm, *others = self.plans(model, *flags)
            bits, ids = self.logits(llvm), self.ids(llvm)
            for plan in others:
                with self.subTest(model=model, plan=plan.name):
                    self.assertIn("\nnumerics     exact\n", self.ok(LLMC, "inspect", plan).stdout)
                    for threads in (1, 2, 3):
                        self.assertEqual(self.logits(plan, "-t", threads), bits, threads)
                    self.assertEqual(self.ids(plan, "-t", 2), ids)
                    self.assertEqual(self.ok(LLMC_RUN, plan, "--selftest").stdout, "self-test passed\n")

    def test_float_weights_differ_by_the_order_of_sums(self):
        for model, flags in ((F16, ()), (GOLDEN / "qwen2-bias", ()), (GGUF / "llama-f32" / "model.gguf", ()), (GGUF / "llama-q5_1" / "model.gguf", ()), (Q4, ("--activations", "f32"))):
            llvm, *others = self.plans(model, *flags)
            expected, ids = self.rows(llvm), self.ids(llvm)
            for plan in others:
                with self.subTest(model=model, plan=plan.name):
                    for found, wanted in zip(self.rows(plan), expected, strict=True):
                        self.assertLess(nmse(found, wanted), 1e-9)
                    bits = self.logits(plan, "-t", 1)
                    for threads in (2, 3):
                        self.assertEqual(self.logits(plan, "-t", threads), bits, threads)
                    self.assertEqual([self.ids(plan, "-t", threads) for threads in (1, 2)], [ids, ids])
                    self.assertIn("self-test passed", self.ok(LLMC_RUN, plan, "--selftest").stdout)
            summary = self.ok(LLMC, "inspect", others[0]).stdout
            self.assertIn("\nnumerics     products by oneDNN, in its order of sums: prefill, decode, score\n", summary)
            self.assertRegex(summary, r"\nself-test    8 ids, NMSE at most (2e-07|0.01) at 32 logits\n")

    def test_the_check_can_fail(self):
        """Another rounding of activations gives other bits and a larger error."""
        q8, f32 = (self.rows(self.plan("onednn", Q4, *flags)) for flags in ((), ("--activations", "f32")))
        self.assertGreater(nmse(q8[-1], f32[-1]), 1e-9)

    def test_bf16_activations(self):
        llvm, onednn, auto = self.plans(GOLDEN / "qwen3-bf16", "--activations", "bf16")
        self.assertIn("\n  dnnl bf16 ", self.ok(LLMC, "inspect", onednn, "--schedule").stdout)
        expected = self.rows(llvm)
        for plan in (onednn, auto):
            for found, wanted in zip(self.rows(plan), expected, strict=True):
                self.assertLess(nmse(found, wanted), 1e-4)  # a sum's last bit may round to the next bf16
            self.assertIn("self-test passed", self.ok(LLMC_RUN, plan, "--selftest").stdout)
            self.assertEqual(self.logits(plan, "-t", 1), self.logits(plan, "-t", 3))

    def test_without_optional_passes(self):
        expected, floats = self.logits(self.plan("llvm", Q4)), self.rows(self.plan("llvm", F16))
        for disabled in [*([p] for p in optional_passes()), optional_passes()]:
            flags = [f for p in disabled for f in ("--disable-pass", p)]
            with self.subTest(disabled=disabled):
                self.assertEqual(self.logits(self.compile(Q4, "q.plan", "--backend", "onednn", *flags)), expected)
                for found, wanted in zip(self.rows(self.compile(F16, "f.plan", "--backend", "onednn", *flags)), floats, strict=True):
                    self.assertLess(nmse(found, wanted), 1e-9)

    def test_small_contexts_and_chunks_and_many_threads(self):
        for flags in (("--context", 1), ("--chunk", 1), ("--chunk", 16), ("--context", 8, "--chunk", 3)):
            for model in (Q4, F16):
                with self.subTest(flags=flags, model=model):
                    plan = self.compile(model, "m.plan", "--backend", "onednn", *flags)
                    for threads in (1, 2, 40):  # 40: more than slices
                        self.assertIn("self-test passed", self.ok(LLMC_RUN, plan, "--selftest", "-t", threads).stdout)
                    self.ok(LLMC_RUN, plan, "--tokens", "1", "-n", 3, "--print-tokens")
        self.assertIn("self-test passed", self.ok(LLMC_RUN, self.compile(TINY, "auto.plan", "--backend", "auto", "--context", 1), "--selftest", "-t", 3).stdout)
        expected = self.logits(self.plan("llvm", Q4))
        plan = self.compile(Q4, "chunk.plan", "--backend", "onednn", "--chunk", 16)
        self.assertEqual(self.logits(plan), expected)
        self.assertEqual(self.logits(plan, "--chunk", 5, "-t", 40), expected)
        self.compile(F16, "check.plan", "--backend", "onednn", "--check")
        self.compile(F16, "check.plan", "--backend", "auto", "--check", "--no-selftest", "--kv-type", "f32")

    def test_perplexity(self):
        text = self.folder / "text"
        text.write_text("12+7=19\n3+4=7\n" * 8)
        llvm, onednn, auto = (float(self.ok(LLMC_RUN, plan, "--perplexity", text).stdout) for plan in self.plans(TINY))
        for value in (onednn, auto):
            self.assertLess(abs(value / llvm - 1), 1e-5)


class Plans(OnednnTest):
    def test_the_same_bytes(self):
        other = self.folder / "another name" / "copy"
        shutil.copytree(TINY, other)
        for backend in ("onednn", "auto"):
            first = self.compile(TINY, "a.plan", "--backend", backend, "-j", 1).read_bytes()
            self.assertEqual(self.compile(other, "b.plan", "--backend", backend, "-j", 2).read_bytes(), first)
            self.assertEqual(self.compile(TINY, "c.plan", "--backend", backend, cwd=other).read_bytes(), first)
            for text in (b"another name", b"/work/", b"/home/", b"/root/", b"/tmp/"):
                self.assertNotIn(text, first)

    def test_from_any_stage(self):
        """Up to select-backend the backend is the command line's, behind it the IR's."""
        for backend in ("onednn", "auto"):
            dump = self.folder / backend
            direct = self.compile(TINY, "direct.plan", "--backend", backend, "--dump-ir", dump).read_bytes()
            stages = sorted(dump.iterdir())
            chosen = [stage for stage in stages if f"backend = {backend}" in stage.read_text()]
            self.assertEqual([stage.name[3:] for stage in chosen], ["select-backend.ir", "plan-schedule.ir", "plan-memory.ir"])
            for stage in stages if backend == "onednn" else [stages[0], *chosen]:
                with self.subTest(stage=stage.name):
                    again = self.folder / "again.ir"
                    self.ok(LLMC, "opt", stage, "-o", again)
                    self.assertEqual(again.read_text(), stage.read_text(), "print(parse(s)) == s")
                    self.assertEqual(self.compile(TINY, "from.plan", "--from", stage, "--backend", backend).read_bytes(), direct)
                    if stage not in chosen:
                        continue
                    self.assertEqual(self.compile(TINY, "from.plan", "--from", stage).read_bytes(), direct)
                    for another in {"llvm", "reference", "onednn", "auto"} - {backend}:
                        self.fails(2, LLMC, "compile", TINY, "--from", stage, "--backend", another, "-o", self.folder / "x.plan",
                                   says=[f"--backend {another} contradicts", f"for {backend}"])
            self.assertFalse((self.folder / "x.plan").exists())
        late = self.folder / "late.ir"
        flags = ("--backend", "auto", "--quantize", "q8_0", "--target-cpu", "native")
        direct = self.compile(TINY, "direct.plan", *flags).read_bytes()
        self.ok(LLMC, "compile", TINY, *flags, "--stop-after", "select-backend", "-o", late)
        self.assertEqual(self.compile(TINY, "from.plan", "--from", late).read_bytes(), direct)
        self.assertEqual(self.ok(LLMC, "inspect", self.folder / "from.plan", "--ir", "select-backend").stdout, late.read_text())
        self.fails(2, LLMC, "compile", TINY, "--from", late, "--target-cpu", "x86-64-v3", "-o", self.folder / "x.plan", says=["--target-cpu x86-64-v3 contradicts", "native"])
        self.ok(LLMC, "compile", TINY, "--stop-after", "plan-memory", "-o", late)
        self.fails(2, LLMC, "compile", TINY, "--from", late, "--backend", "onednn", "-o", self.folder / "x.plan", says="--backend onednn contradicts")

    def test_options_of_an_ir_that_contradict_each_other(self):
        late, bad = self.folder / "late.ir", self.folder / "bad.ir"
        self.ok(LLMC, "compile", TINY, "--backend", "onednn", "--stop-after", "plan-memory", "-o", late)
        text, names = late.read_text(), "onednn = [prefill, decode, score]"
        self.assertIn("backend = onednn, " + names, text)
        for before, after in (("backend = onednn, ", ""), ("backend = onednn", "backend = llvm"), ("backend = onednn", "backend = nothing"), ("backend = onednn", "backend = 7"),
                              ("select-backend, ", ""), (", " + names, ""), (names, "onednn = 7"), (names, "onednn = [prefill, nothing]"), (names, "onednn = [prefill]")):
            with self.subTest(before=before, after=after):
                bad.write_text(text.replace(before, after, 1))
                self.fails(1, LLMC, "compile", TINY, "--from", bad, "-o", self.folder / "x.plan", says=["bad.ir:1", "[BadAttribute]"])
        self.assertFalse((self.folder / "x.plan").exists())

    def test_inspect(self):
        plan = self.plan("onednn", TINY)
        summary = self.ok(LLMC, "inspect", plan).stdout
        self.assertIn("\nbackend      onednn\n", summary)
        for phase in ("prefill      1..256", "decode       1..1", "score        1..16"):
            name, rows = phase.split()
            self.assertRegex(summary, rf"\nphase        {name} {re.escape(rows)} rows, \d+ steps: \d+ dnnl, \d+ barrier, \d+ kernel\n")
        self.assertNotIn("\ntarget", summary)
        steps = self.ok(LLMC, "inspect", plan, "--schedule").stdout
        self.assertEqual(steps.count("\n  dnnl "), sum(int(n) for n in re.findall(r"(\d+) dnnl", summary)))
        self.ok(LLMC, "inspect", plan, "--verify")
        chosen = self.ok(LLMC, "inspect", plan, "--ir", "select-backend").stdout
        final = self.ok(LLMC, "inspect", plan, "--ir").stdout
        for text in (chosen, final):
            self.assertIn("backend = onednn, onednn = [prefill, decode, score]", text.splitlines()[0])
        self.assertEqual(chosen, self.ok(LLMC, "compile", TINY, "--backend", "onednn", "--stop-after", "select-backend").stdout)
        self.assertEqual(final, self.ok(LLMC, "inspect", plan, "--ir", "plan-memory").stdout)
        self.assertIn("scratch", final)
        self.assertNotIn("scratch", self.ok(LLMC, "inspect", self.plan("llvm", TINY), "--ir").stdout)

    def test_auto_says_what_it_chose_and_why(self):
        for model, flags in ((TINY, ()), (TINY, ("--activations", "bf16")), (TINY, ("--quantize", "q4_0")), (F16, ())):
            result = self.ok(LLMC, "compile", model, "--backend", "auto", "--target-cpu", "x86-64-v3", "--remarks", *flags, "-o", self.folder / "m.plan")
            chosen = re.findall(CHOICE, result.stderr)
            self.assertEqual([name for name, _, _ in chosen], ["prefill", "decode", "score"])
            for _, backend, reason in chosen:
                self.assertRegex(reason, r"matrices on one core: llvm \S+ ms, onednn \S+ ms")
            header = self.ok(LLMC, "inspect", self.folder / "m.plan", "--ir").stdout.splitlines()[0]
            listed = [name for name, backend, _ in chosen if backend == "onednn"]
            self.assertIn("backend = auto, target = [x86-64-v3]" + (f", onednn = [{', '.join(listed)}]" if listed else ""), header)
            self.assertEqual("onednn = " in header, bool(listed))
            self.assertEqual(listed, ["prefill"] if "bf16" in flags else [])  # where oneDNN is the better one, on most CPUs
            summary = self.ok(LLMC, "inspect", self.folder / "m.plan").stdout
            for name, backend, _ in chosen:
                self.assertRegex(summary, rf"phase        {name} \S+ rows, {'1 steps' if backend == 'llvm' else '[0-9]+ steps: [0-9]+ dnnl'}")
        result = self.ok(LLMC, "compile", TINY, "--backend", "onednn", "--remarks", "-o", self.folder / "m.plan")
        self.assertEqual(re.findall(CHOICE, result.stderr), [(name, "onednn", "asked for") for name in ("prefill", "decode", "score")])

    def test_auto_takes_the_targets_of_compile(self):
        for flags in ((), ("--activations", "bf16")):
            result = self.ok(LLMC, "compile", TINY, "--backend", "auto", "--remarks", *flags, "-o", self.folder / "m.plan")
            listed = [name for name, backend, _ in re.findall(CHOICE, result.stderr) if backend == "onednn"]
            header = self.ok(LLMC, "inspect", self.folder / "m.plan", "--ir").stdout.splitlines()[0]
            self.assertIn("backend = auto, target = [x86-64-v3, x86-64-v3-vnni, x86-64-v4-vnni]" + (f", onednn = [{', '.join(listed)}]" if listed else ""), header)
            self.assertEqual("onednn = " in header, bool(listed))

    def test_inspect_shows_what_the_plan_has_and_not_what_auto_would_choose_here(self):
        ir, plan = self.folder / "chosen.ir", self.folder / "m.plan"
        self.ok(LLMC, "compile", TINY, "--backend", "auto", "--target-cpu", "x86-64-v3", "--activations", "bf16", "--stop-after", "select-backend", "-o", ir)
        self.assertIn("onednn = [prefill]", ir.read_text())
        ir.write_text(ir.read_text().replace("onednn = [prefill]", "onednn = [decode, score]"))
        self.ok(LLMC, "compile", TINY, "-o", self.folder / "m.plan", "--from", ir)  # which has its target
        self.assertEqual(self.ok(LLMC, "inspect", plan, "--ir", "select-backend").stdout, ir.read_text())
        self.assertEqual(self.ok(LLMC, "inspect", plan, "--ir", "plan-memory").stdout, self.ok(LLMC, "inspect", plan, "--ir").stdout)
        self.assertIn("self-test passed", self.ok(LLMC_RUN, plan, "--selftest", "-t", 2).stdout)

    def test_a_damaged_plan_fails(self):
        plan = self.folder / "m.plan"
        shutil.copy(self.plan("onednn", TINY), plan)
        good = plan.read_bytes()
        places = {kind: (int(size), int(offset)) for kind, size, offset in re.findall(r"section +(\w+) +(\d+) bytes at (\d+)", self.ok(LLMC, "inspect", plan).stdout)}
        for kind in ("manifest", "steps"):
            size, offset = places[kind]
            for at in (offset, offset + size // 2, offset + size - 1):
                data = bytearray(good)
                data[at] ^= 0x10
                plan.write_bytes(data)
                self.fails(1, LLMC_RUN, plan, "--selftest", says="m.plan")
        plan.write_bytes(good[:-1])
        self.fails(1, LLMC_RUN, plan, "--selftest", says="m.plan")
        # The loader doesn't hash weights; the self-test sees numbers that they change.
        size, offset = places["weights"]
        plan.write_bytes(good[:offset] + bytes(size) + good[offset + size:])
        self.fails(1, LLMC_RUN, plan, "--selftest", says="self-test")
        self.fails(1, LLMC, "inspect", plan, "--verify", says="weights")

    def test_bench_has_its_keys(self):
        keys = {"load_ms", "ttft_ms", "prefill_tokens_per_second", "decode_tokens_per_second", "peak_rss_bytes", "prompt_tokens", "generated_tokens", "threads", "cpu",
                "stream_bytes_per_second", "weights_bytes"}
        for plan in self.plans(TINY, "--activations", "bf16"):
            library = " dnnl, " in self.ok(LLMC, "inspect", plan).stdout
            self.assertTrue(library or "onednn" not in plan.name)
            found = json.loads(self.ok(LLMC_RUN, plan, "--bench", "-p", 8, "-n", 4, "-r", 1, "-t", 2, "--json").stdout)
            self.assertEqual(set(found), keys | ({"primitives_ms"} if library else set()))
            if library:
                self.assertLessEqual(found["primitives_ms"], found["load_ms"])

    def test_targets_are_checked_although_there_is_no_code(self):
        for backend in ("onednn", "auto", "llvm"):
            self.fails(2, LLMC, "compile", TINY, "--backend", backend, "--target-cpu", "pentium", "-o", self.folder / "x.plan", says="pentium")
            self.fails(2, LLMC, "run", TINY, "--backend", backend, "--target-cpu", "pentium", "-p", "a", says="pentium")
        self.assertEqual(self.compile(TINY, "a.plan", "--backend", "onednn", "--target-cpu", "native").read_bytes(), self.plan("onednn", TINY).read_bytes())


class Library(OnednnTest):
    def environment(self, **variables):
        return {**{k: v for k, v in os.environ.items() if k != "LLMC_ONEDNN_LIBRARY"}, **variables}

    def test_a_library_that_is_not_one(self):
        plan, empty = self.plan("onednn", Q4), self.folder / "empty.so"
        empty.touch()
        for place, words in (("/nonexistent", ["isn't there", "/nonexistent", "LLMC_ONEDNN_LIBRARY"]), (empty, ["can't be opened", "empty.so"]), (self.folder, ["can't be opened"])):
            env = self.environment(LLMC_ONEDNN_LIBRARY=str(place))
            for command in ([LLMC_RUN, plan], [LLMC, "run", plan], [LLMC, "run", Q4, "--backend", "onednn"]):
                result = self.fails(1, *command, "--tokens", "1", "--print-tokens", "-n", 1, env=env, says=["phase prefill, step 0 (kernel) needs libllmc_onednn.so", *words])
                self.assertEqual(result.stdout, "")

    def test_a_program_without_its_library(self):
        alone = self.folder / "alone"
        alone.mkdir()
        shutil.copy(LLMC_RUN, alone)
        program, env = alone / os.path.basename(LLMC_RUN), self.environment()
        llvm, onednn, auto = self.plans(Q4)
        chosen = self.ok(LLMC, "inspect", auto).stdout
        self.fails(1, program, onednn, "--tokens", "1", "--print-tokens", env=env, says=["libllmc_onednn.so", "isn't there", "built with llmc where oneDNN is installed", str(alone)])
        self.ok(program, llvm, "--selftest", env=env)
        self.assertNotIn("dnnl", chosen.split("passes")[0])  # llvm for all of it: the plan needs no library
        self.ok(program, auto, "--selftest", env=env)
        shutil.copy(ONEDNN, alone)
        self.ok(program, onednn, "--selftest", env=env)
        self.ok(LLMC_RUN, onednn, "--selftest", env=self.environment(LLMC_ONEDNN_LIBRARY=str(alone / os.path.basename(ONEDNN))))
        self.ok(LLMC_RUN, onednn, "--selftest", env=self.environment(LLMC_ONEDNN_LIBRARY=""))


class Refusals(CliTest):
    def test_backends_that_there_are_not(self):
        out = self.folder / "x.plan"
        self.fails(2, LLMC, "compile", F16, "-o", out, "--backend", "onednm", says=["onednm", "llvm,onednn,auto,reference"])
        self.fails(2, LLMC, "compile", F16, "-o", out, "--backend", "", says="llvm,onednn,auto,reference")
        self.assertFalse(out.exists())

    @unittest.skipIf(ONEDNN, "this build has libllmc_onednn.so")
    def test_a_build_without_the_library(self):
        for backend in ("onednn", "auto"):
            for command in (["compile", F16, "-o", self.folder / "x.plan"], ["run", F16, "--tokens", "1", "--print-tokens"]):
                self.fails(2, LLMC, *command, "--backend", backend,
                           says=[f"backend {backend} is not in this build of llmc", "made without oneDNN (Debian's libdnnl-dev)", "there is reference, llvm"])
        self.ok(LLMC_RUN, self.compile(F16), "--selftest")


if __name__ == "__main__":
    unittest.main()
