"""Records what every pass says of the golden models: which fusions fire, which don't and why, one text a family.

    tools/golden/fusions.py [--llmc build/release/llmc] [--out tests/data/fusions]

The golden is a list of decisions, made by the compiler itself: that the numbers stay right is what the other goldens hold. Read the difference before it is committed.
"""

import argparse
import pathlib
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parents[2]
HEAD = "# What the passes say of each golden model of this family. Written by tools/golden/fusions.py.\n"
MIXED = ("--quantize", "q4_k_m")  # several types in a layer
SIZES = "plan-memory: "  # bytes, which are no decision


def models():
    """Folders of the golden models by family, the first word of their names. (GGUF models that are kept as rows have the shapes of the others.)"""
    found = {}
    for folder in ("golden", "golden-gguf", "golden-hidden"):
        for path in sorted((SOURCE / "tests" / "data" / folder).iterdir()):
            if (path / "config.json").exists() or any(path.glob("*.gguf")):
                found.setdefault(path.name.split("-")[0], []).append(path)
    return found


def decisions(llmc, model, *flags):
    """What the passes say in a compilation, layers folded. Raises CalledProcessError."""
    source = next(iter(sorted(model.glob("*.gguf"))), model)
    command = [llmc, "compile", source, "--no-weights", "--no-tokenizer", "--remarks", "--stop-after", "plan-memory", "-o", "/dev/null", *flags]
    text = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stderr
    lines = [line.removeprefix("remark: ").removesuffix(" [PassRemark]") for line in text.splitlines() if line.startswith("remark: ")]
    return [line for line in lines if not line.startswith(SIZES)]


def record(llmc, folders):
    """The text of a family."""
    text = HEAD
    for i, folder in enumerate(folders):
        for flags in [(), MIXED] if i == 0 and (folder / "config.json").exists() else [()]:
            title = " ".join([f"{folder.parent.name}/{folder.name}", *flags])
            text += f"\n{title}\n" + "".join(f"  {line}\n" for line in decisions(llmc, folder, *flags))
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--llmc", default=SOURCE / "build" / "release" / "llmc")
    parser.add_argument("--out", type=pathlib.Path, default=SOURCE / "tests" / "data" / "fusions")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    families = models()
    for path in args.out.glob("*.txt"):
        if path.stem not in families:
            path.unlink()
    for family, folders in families.items():
        (args.out / f"{family}.txt").write_text(record(args.llmc, folders))


if __name__ == "__main__":
    main()
