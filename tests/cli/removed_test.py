"""Each backend's plans without the other's packages: what the loader opens, and runs in a folder that holds nothing but the files of one side.

`ldd` and the dynamic linker's own log (LD_DEBUG=libs) show what is opened on the system as it is. Then a folder with llmc-run, its plans and copies of the
libraries of one side becomes the root (chroot, or `unshare` where that needs no root), so that what isn't in it isn't there: no package has to be removed.
"""
import os
import pathlib
import re
import shutil
import unittest

from harness import GGUF, LLMC, LLMC_RUN, ONEDNN, TINY, CliTest, run

Q4 = GGUF / "llama-q4_1" / "model.gguf"
OF_LLVM = r"LLVM|lld|clang|libz3|libedit"
OF_ONEDNN = r"dnnl|gomp|libomp|iomp|OpenCL|libtbb"
CHROOTS = [["chroot"], ["unshare", "--user", "--map-root-user", "chroot"]]


def libraries(program):
    """What it is linked with, and they are: paths as the dynamic linker finds them."""
    lines = run("ldd", program).stdout.splitlines()
    return [pathlib.Path(m[1]) for m in (re.search(r"(?:=> |^\s*)(/\S+) \(", line) for line in lines) if m]


class Removed(CliTest):
    def opened(self, *command):
        """Names of the files that the dynamic linker initialised, from start to end."""
        log = self.folder / "ld"
        result = self.ok(*command, env={**os.environ, "LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": str(log)})
        texts = [path.read_text(errors="replace") for path in self.folder.glob("ld.*")]
        for path in self.folder.glob("ld.*"):
            path.unlink()
        if not texts:
            self.skipTest("this system's dynamic linker writes no log")
        return result.stdout, [pathlib.Path(file).name for file in re.findall(r"calling init: (\S+)", "".join(texts))]

    def root(self, *parts, without="nothing at all"):
        """A folder with `parts` and the libraries that they need, but those whose name matches `without`."""
        root = pathlib.Path(self.folder / f"root-{len(list(self.folder.iterdir()))}")
        root.mkdir()
        for part in parts:
            if not re.search(without, part.name):
                shutil.copy(part, root / part.name)
            for library in libraries(part) if part in (LLMC_RUN_PATH, ONEDNN_PATH) else []:
                if not re.search(without, library.name):
                    target = root / library.relative_to("/")
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(library, target)
        return root

    def inside(self, root, *arguments):
        """llmc-run in `root`; a root has no /proc, so the library is named."""
        env = {"LLMC_ONEDNN_LIBRARY": "/" + ONEDNN_PATH.name, "PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin"), "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "")}
        return run(*self.change_root(root), root, "/" + LLMC_RUN_PATH.name, *arguments, env=env)

    def change_root(self, root):
        for command in CHROOTS:
            if shutil.which(command[0]) and shutil.which("chroot") and run(*command, root, "/" + LLMC_RUN_PATH.name, "--version").returncode == 0:
                return command
        self.skipTest("this program can not run in another root here")

    def test_llmc_run_is_linked_with_neither(self):
        for library in libraries(LLMC_RUN):
            self.assertNotRegex(library.name, OF_LLVM + "|" + OF_ONEDNN)
        if ONEDNN:
            self.assertNotRegex("\n".join(library.name for library in libraries(ONEDNN)), OF_LLVM)
            self.assertRegex("\n".join(library.name for library in libraries(ONEDNN)), "libdnnl")
        self.assertNotRegex("\n".join(library.name for library in libraries(LLMC)), OF_ONEDNN)

    def test_a_plan_by_llvm_opens_neither(self):
        for model in (TINY, Q4):
            _, files = self.opened(LLMC_RUN, self.compile(model, "llvm.plan"), "--tokens", "1,5,9", "-n", 3, "--temp", 0, "--print-tokens", "-t", 2)
            self.assertIn("libc.so", "\n".join(files))
            self.assertNotRegex("\n".join(files), OF_LLVM + "|" + OF_ONEDNN)

    @unittest.skipUnless(ONEDNN, "this build has no libllmc_onednn.so")
    def test_a_plan_by_onednn_opens_its_library_and_not_llvm(self):
        for model in (TINY, Q4):
            _, files = self.opened(LLMC_RUN, self.compile(model, "onednn.plan", "--backend", "onednn"), "--tokens", "1,5,9", "-n", 3, "--temp", 0, "--print-tokens", "-t", 2)
            self.assertIn("libdnnl", "\n".join(files))
            self.assertNotRegex("\n".join(files), OF_LLVM)
            allowed = {library.name for program in (LLMC_RUN, ONEDNN) for library in libraries(program)} | {ONEDNN_PATH.name}
            self.assertLessEqual(set(files), allowed)

    @unittest.skipUnless(ONEDNN, "this build has no libllmc_onednn.so")
    def test_in_folders_without_one_or_both(self):
        plans = {backend: self.compile(Q4, f"{backend}.plan", "--backend", backend) for backend in ("llvm", "onednn")}
        question = ("--tokens", "1,5,9", "-n", 4, "--temp", 0, "--print-tokens", "--ignore-eos", "-t", 2)
        expected = self.ok(LLMC_RUN, plans["llvm"], *question).stdout

        without_llvm = self.root(LLMC_RUN_PATH, ONEDNN_PATH, *plans.values(), without=OF_LLVM)
        without_onednn = self.root(LLMC_RUN_PATH, ONEDNN_PATH, *plans.values(), without="libdnnl|gomp|OpenCL")
        alone = self.root(LLMC_RUN_PATH, *plans.values())
        self.change_root(without_llvm)
        self.assertNotRegex("\n".join(path.name for path in without_llvm.rglob("*")), OF_LLVM)
        for root, both in ((without_llvm, True), (without_onednn, False), (alone, False)):
            with self.subTest(root=root.name):
                result = self.inside(root, "/llvm.plan", *question)
                self.assertEqual((result.returncode, result.stdout), (0, expected), result.stderr)
                result = self.inside(root, "/onednn.plan", *question)
                if both:
                    self.assertEqual((result.returncode, result.stdout), (0, expected), result.stderr)
                    continue
                self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
                message = ["can't be opened without oneDNN", "libdnnl2"] if root == without_onednn else ["isn't there", "built with llmc where oneDNN is installed"]
                for words in ["/onednn.plan", "needs libllmc_onednn.so", *message]:
                    self.assertIn(words, result.stderr)


LLMC_RUN_PATH, ONEDNN_PATH = pathlib.Path(LLMC_RUN), pathlib.Path(ONEDNN or "libllmc_onednn.so")

if __name__ == "__main__":
    unittest.main()
