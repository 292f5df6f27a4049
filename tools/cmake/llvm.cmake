# LLVM and LLD 19, and the kernels' bitcode. Debian builds LLD against libLLVM.so, so libLLVM.so and the LLD archives go together: LLVM component archives beside
# them would put two LLVMs into one process, which links and then dies at start. HINTS because another LLVM may be installed.
find_package(LLVM 19.1 REQUIRED CONFIG HINTS /usr/lib/llvm-19/lib/cmake/llvm)
find_package(LLD 19.1 REQUIRED CONFIG HINTS /usr/lib/llvm-19/lib/cmake/lld ${LLVM_DIR}/../lld)
find_program(LLMC_KERNEL_CXX NAMES clang++-19 clang++ HINTS ${LLVM_TOOLS_BINARY_DIR} REQUIRED)

# The target's sources may include <llvm/...> and <lld/...>; whoever links the target links LLVM.
function(llmc_use_llvm target)
  target_include_directories(${target} SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS} ${LLD_INCLUDE_DIRS})
  separate_arguments(definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
  target_compile_definitions(${target} PRIVATE ${definitions} LLMC_WITH_LLVM)
  target_link_libraries(${target} PRIVATE lldELF lldCommon LLVM)
endfunction()

# Each flag has a reason (backends/README.md, Kernels). thin: the pre-link pipeline leaves loops alone, so that constants bound later can still unroll them.
# The working directory is the source root and file names are relative, so that no path reaches the bitcode.
set(LLMC_KERNEL_FLAGS --target=x86_64-pc-linux-gnu -std=c++20 -O2 -flto=thin -fPIC -ffreestanding -fno-builtin -fno-math-errno -ffp-contract=off
  -fno-exceptions -fno-rtti -fno-stack-protector -fno-asynchronous-unwind-tables -fno-unwind-tables -fno-jump-tables -fno-ident -fcf-protection=none
  -fvisibility=hidden -no-canonical-prefixes -ffile-prefix-map=${CMAKE_SOURCE_DIR}=. -Wall -Wextra -Wshadow -Werror -Wno-psabi -I.)

# llmc_kernel_bitcode(OUT.bc SOURCE.cpp flags...): one source file (relative to the source root) to bitcode for one ISA level.
# Headers are listed, not scanned: a depfile would name them relative to the source root, and the build would read that relative to the build folder.
file(GLOB LLMC_KERNEL_HEADERS CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/backends/kernels/* ${CMAKE_SOURCE_DIR}/ir/*.h ${CMAKE_SOURCE_DIR}/ir/*.def ${CMAKE_SOURCE_DIR}/runtime/context.h
  ${CMAKE_SOURCE_DIR}/runtime/barrier.h)
function(llmc_kernel_bitcode bitcode source)
  add_custom_command(OUTPUT ${bitcode}
    COMMAND ${LLMC_KERNEL_CXX} ${LLMC_KERNEL_FLAGS} ${ARGN} -c -emit-llvm ${source} -o ${bitcode}
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} DEPENDS ${CMAKE_SOURCE_DIR}/${source} ${LLMC_KERNEL_HEADERS}
    COMMENT "Bitcode ${source}" VERBATIM)
endfunction()

# The ISA levels, smallest first: name and flags. backends/llvm/embed.S and the table in backends/llvm/target.cpp have a line for each.
include(tools/cmake/isa.cmake)
foreach(level ${LLMC_ISA_LEVELS})
  string(TOUPPER ${level} upper)
  llmc_kernel_bitcode(${CMAKE_BINARY_DIR}/kernels_${level}.bc backends/kernels/kernels.cpp ${LLMC_ISA_${level}})
  list(APPEND LLMC_KERNEL_BITCODE ${CMAKE_BINARY_DIR}/kernels_${level}.bc)
  list(APPEND LLMC_KERNEL_DEFINITIONS "LLMC_KERNELS_${upper}=\"${CMAKE_BINARY_DIR}/kernels_${level}.bc\"")
endforeach()
set(LLMC_CONTEXT_HEADER ${CMAKE_SOURCE_DIR}/runtime/context.h)  # a part of what --emit writes
set_source_files_properties(backends/llvm/embed.S PROPERTIES OBJECT_DEPENDS "${LLMC_KERNEL_BITCODE};${LLMC_CONTEXT_HEADER}"
  COMPILE_DEFINITIONS "${LLMC_KERNEL_DEFINITIONS};LLMC_CONTEXT_HEADER=\"${LLMC_CONTEXT_HEADER}\"")
file(GLOB llvm_sources CONFIGURE_DEPENDS backends/llvm/*.cpp backends/llvm/*.S)
list(APPEND BACKEND_SOURCES ${llvm_sources})
