# The kernels, compiled by clang as ordinary code, once for each ISA level: natively and, with the level's shapes, on the portable primitives; and the tests
# that compare both with scalar references. A CPU that lacks a level runs its emulation alone. `ninja kernel_bench_LEVEL` builds a program that prints speeds;
# it is no test.
find_program(LLMC_CLANG NAMES clang++-19)
if(LLMC_CLANG AND NOT LLMC_LOADER_ONLY)
  set(KERNEL_FLAGS -std=c++20 -O2 -I${CMAKE_SOURCE_DIR} -fPIC -fno-math-errno -ffp-contract=off -Wall -Wextra -Wconversion -Wshadow -Werror)
  file(GLOB KERNEL_SOURCES CONFIGURE_DEPENDS backends/kernels/*.h backends/kernels/*.def backends/kernels/*.cpp)
  list(APPEND KERNEL_SOURCES ${CMAKE_SOURCE_DIR}/runtime/context.h ${CMAKE_SOURCE_DIR}/runtime/barrier.h ${CMAKE_SOURCE_DIR}/ir/dtypes.def ${CMAKE_SOURCE_DIR}/ir/math.h ${CMAKE_SOURCE_DIR}/ir/activations.def ${CMAKE_SOURCE_DIR}/tests/kernels/table.h)
  # llmc_kernel_object(name source flags...): an object file NAME.o
  function(llmc_kernel_object name source)
    add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/${name}.o
      COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${LLMC_CLANG} ${KERNEL_FLAGS} ${ARGN} -c ${CMAKE_SOURCE_DIR}/${source} -o ${CMAKE_BINARY_DIR}/${name}.o
      DEPENDS ${CMAKE_SOURCE_DIR}/${source} ${KERNEL_SOURCES} VERBATIM)
  endfunction()
  file(GLOB KERNEL_TESTS CONFIGURE_DEPENDS tests/kernels/*_test.cpp tests/kernels/blocks.cpp)
  add_library(kernels_tests OBJECT EXCLUDE_FROM_ALL ${KERNEL_TESTS})
  target_link_libraries(kernels_tests PRIVATE llmc_flags GTest::gtest)
  foreach(level ${LLMC_ISA_LEVELS})
    llmc_kernel_object(kernels_native_${level} tests/kernels/table.cpp ${LLMC_ISA_${level}})
    llmc_kernel_object(kernels_emulated_${level} tests/kernels/table.cpp -DLLMC_EMULATE ${LLMC_ISA_SHAPE_${level}} -O0)  # 1 s to build, against 22 s with -O1
    add_executable(kernels_${level}_test tests/kernels/level.cpp $<TARGET_OBJECTS:kernels_tests>
      ${CMAKE_BINARY_DIR}/kernels_native_${level}.o ${CMAKE_BINARY_DIR}/kernels_emulated_${level}.o)
    list(JOIN LLMC_ISA_NEEDS_${level} "," needs)
    target_compile_definitions(kernels_${level}_test PRIVATE "LLMC_LEVEL_NEEDS=\"${needs}\"")
    target_link_libraries(kernels_${level}_test PRIVATE llmc_ir llmc_plan llmc_flags GTest::gtest_main Threads::Threads)
    if(level STREQUAL v3_vnni OR level STREQUAL v4)  # shapes and words of the other two, in another mix: tools/check
      add_test(NAME kernels_${level} COMMAND kernels_${level}_test CONFIGURATIONS Every)
      set_tests_properties(kernels_${level} PROPERTIES LABELS slow)
    else()
      add_test(NAME kernels_${level} COMMAND kernels_${level}_test)
    endif()
    llmc_kernel_object(kernel_bench_${level} tests/bench/kernel_bench.cpp ${LLMC_ISA_${level}})
    add_executable(kernel_bench_${level} EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/kernel_bench_${level}.o)
    set_target_properties(kernel_bench_${level} PROPERTIES LINKER_LANGUAGE CXX)
  endforeach()
endif()
