"""Writes a GGUF file with other weight types: matrices are dequantised and encoded anew, all else is kept.

    tools/venv --light tools/derive_gguf.py IN.gguf OUT.gguf --type q8_0 [--embedding q8_0]

The token embedding (often the head as well) is Q8_0 in the 4- and 5-bit types, as llama.cpp's quantiser leaves a tied
one, else of the type itself. OUT is written under a temporary name and renamed.
"""

import argparse
import os
import pathlib

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter, LlamaFileType, quants

TYPES = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1"]
FILE_TYPES = {
    "f32": LlamaFileType.ALL_F32,
    "f16": LlamaFileType.MOSTLY_F16,
    "bf16": LlamaFileType.MOSTLY_BF16,
    "q8_0": LlamaFileType.MOSTLY_Q8_0,
    "q4_0": LlamaFileType.MOSTLY_Q4_0,
    "q4_1": LlamaFileType.MOSTLY_Q4_1,
    "q5_0": LlamaFileType.MOSTLY_Q5_0,
    "q5_1": LlamaFileType.MOSTLY_Q5_1,
}
WRITER_OWN = ("GGUF.version", "GGUF.tensor_count", "GGUF.kv_count", "general.architecture", "general.file_type")


def copy_metadata(reader, writer):
    """Copies every key but those that the writer makes itself."""
    for name, field in reader.fields.items():
        if name in WRITER_OWN:
            continue
        kind = field.types[0]
        item = field.types[-1] if kind == GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), kind, sub_type=item)


def encode(tensor, kind):
    """The tensor's values in another type, as the writer wants them."""
    values = quants.dequantize(tensor.data, tensor.tensor_type).reshape([int(n) for n in reversed(tensor.shape)])
    return quants.quantize(np.ascontiguousarray(values, dtype=np.float32), GGMLQuantizationType[kind.upper()])


def derive(source, target, kind, embedding):
    """Writes `target`: `source` with matrices of type `kind` and a token embedding of type `embedding`."""
    reader = GGUFReader(source)
    part = target.with_name(f"{target.name}.part.{os.getpid()}")
    try:
        writer = GGUFWriter(part, reader.get_field("general.architecture").contents())
        writer.add_file_type(FILE_TYPES[kind])
        copy_metadata(reader, writer)
        for tensor in reader.tensors:
            if len(tensor.shape) < 2:
                writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
                continue
            to = embedding if tensor.name == "token_embd.weight" else kind
            writer.add_tensor(tensor.name, encode(tensor, to), raw_dtype=GGMLQuantizationType[to.upper()])
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def main():
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("target", type=pathlib.Path)
    parser.add_argument("--type", choices=TYPES, required=True, help="type of the matrices")
    parser.add_argument("--embedding", choices=TYPES, help="type of the token embedding")
    args = parser.parse_args()
    derive(args.source, args.target, args.type, args.embedding or ("q8_0" if args.type[0] == "q" else args.type))


if __name__ == "__main__":
    main()
