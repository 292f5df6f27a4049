# The kernels' bitcode, one blob an ISA level (tools/cmake/llvm.cmake makes the files, backends/llvm/target.cpp has the table).
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
  .section .note.GNU-stack,"",@progbits
