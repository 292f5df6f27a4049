"""The table of supported families in frontend/README.md, made from the presets (frontend/arch/*.json).

    tools/supported.py            writes it between its markers
    tools/supported.py --check    exits with 1 if it isn't what the presets say
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "frontend" / "README.md"
BEGIN, END = "<!-- supported: tools/supported.py -->\n", "<!-- /supported -->\n"


def table():
    """The lines of the table."""
    lines = ["| family | config's `model_type` | GGUF architecture | preset |", "|---|---|---|---|"]
    for path in sorted((ROOT / "frontend" / "arch").glob("*.json")):
        preset = json.loads(path.read_text())
        types = preset.get("hf", {}).get("model_types", []) + list(preset.get("hf", {}).get("wrappers", {}))
        names = preset.get("gguf", {}).get("architectures", [])
        cells = [" ".join(f"`{n}`" for n in names) for names in (types, names)]
        lines.append(f"| {preset['title']} | {cells[0]} | {cells[1]} | `{path.stem}` |")
    return "".join(line + "\n" for line in lines)


def main():
    """Writes or checks the table."""
    text = PAGE.read_text()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    if "--check" in sys.argv:
        if text[begin:end] != table():
            sys.exit("frontend/README.md: the table of families is not what the presets say; run tools/supported.py")
    else:
        PAGE.write_text(text[:begin] + table() + text[end:])


if __name__ == "__main__":
    main()
