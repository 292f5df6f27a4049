# The kernels, compiled by clang as ordinary code: natively for x86-64-v3 and on the portable primitives, and the tests that compare the two with scalar
# references. `ninja kernel_bench` builds a program that prints speeds; it is no test.
find_program(LLMC_CLANG NAMES clang++-19)
if(LLMC_CLANG AND NOT LLMC_LOADER_ONLY)
  set(KERNEL_FLAGS -std=c++20 -O2 -I${CMAKE_SOURCE_DIR} -fPIC -fno-math-errno -ffp-contract=off -Wall -Wextra -Wconversion -Wshadow -Werror)
  file(GLOB KERNEL_SOURCES CONFIGURE_DEPENDS backends/kernels/*.h backends/kernels/*.def backends/kernels/*.cpp)
  list(APPEND KERNEL_SOURCES ${CMAKE_SOURCE_DIR}/runtime/context.h ${CMAKE_SOURCE_DIR}/runtime/barrier.h ${CMAKE_SOURCE_DIR}/ir/dtypes.def ${CMAKE_SOURCE_DIR}/tests/kernels/table.h)
  # llmc_kernel_object(name source flags...): an object file NAME.o
  function(llmc_kernel_object name source)
    add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/${name}.o
      COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${LLMC_CLANG} ${KERNEL_FLAGS} ${ARGN} -c ${CMAKE_SOURCE_DIR}/${source} -o ${CMAKE_BINARY_DIR}/${name}.o
      DEPENDS ${CMAKE_SOURCE_DIR}/${source} ${KERNEL_SOURCES} VERBATIM)
  endfunction()
  llmc_kernel_object(kernels_native tests/kernels/table.cpp -march=x86-64-v3)
  llmc_kernel_object(kernels_emulated tests/kernels/table.cpp -DLLMC_EMULATE -O0)  # 1 s to build, against 22 s with -O1
  file(GLOB KERNEL_TESTS CONFIGURE_DEPENDS tests/kernels/*_test.cpp)
  add_executable(kernels_test ${KERNEL_TESTS} ${CMAKE_BINARY_DIR}/kernels_native.o ${CMAKE_BINARY_DIR}/kernels_emulated.o)
  target_link_libraries(kernels_test PRIVATE llmc_flags GTest::gtest_main Threads::Threads)
  add_test(NAME kernels COMMAND kernels_test)
  llmc_kernel_object(kernel_bench tests/bench/kernel_bench.cpp -march=x86-64-v3)
  add_executable(kernel_bench EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/kernel_bench.o)
  set_target_properties(kernel_bench PROPERTIES LINKER_LANGUAGE CXX)
endif()
