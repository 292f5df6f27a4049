# The declarations that go with emitted code, and the kernels' bitcode, one blob an ISA level (tools/cmake/llvm.cmake makes the files, backends/llvm/target.cpp has the table).
  .macro blob name, file
  .globl \name, \name\()_end
  .hidden \name, \name\()_end
  .balign 16
\name:
  .incbin "\file"
\name\()_end:
  .byte 0
  .endm
  .section .rodata
  blob llmc_kernels_v3, LLMC_KERNELS_V3
  blob llmc_kernels_v3_vnni, LLMC_KERNELS_V3_VNNI
  blob llmc_kernels_v4, LLMC_KERNELS_V4
  blob llmc_kernels_v4_vnni, LLMC_KERNELS_V4_VNNI
  blob llmc_context_header, LLMC_CONTEXT_HEADER
  .section .note.GNU-stack,"",@progbits
