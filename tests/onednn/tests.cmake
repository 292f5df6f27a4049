# libllmc_onednn.so through its C interface, on all that oneDNN can do here and as on a CPU with AVX2 alone. `ninja onednn_bench` builds a program that
# prints speeds; it is no test.
if(TARGET llmc_onednn)
  file(GLOB onednn_tests CONFIGURE_DEPENDS tests/onednn/*_test.cpp)
  set(onednn_table)
  if(TARGET kernels_v3_test)  # the kernels as a table, to compare with
    set(onednn_table ${CMAKE_BINARY_DIR}/kernels_native_v3.o)
  else()
    list(FILTER onednn_tests EXCLUDE REGEX "kernel_step_test")
  endif()
  add_executable(onednn_test ${onednn_tests} tests/kernels/blocks.cpp ${onednn_table})
  target_include_directories(onednn_test SYSTEM PRIVATE ${ONEDNN_INCLUDE})
  target_link_libraries(onednn_test PRIVATE llmc_flags llmc_onednn llmc_ir llmc_plan ${ONEDNN_LIBRARY} GTest::gtest_main Threads::Threads)
  add_test(NAME onednn COMMAND onednn_test)
  add_test(NAME onednn_avx2 COMMAND onednn_test)
  set_tests_properties(onednn_avx2 PROPERTIES ENVIRONMENT ONEDNN_MAX_CPU_ISA=AVX2)
  add_executable(onednn_bench EXCLUDE_FROM_ALL tests/bench/onednn_bench.cpp)
  target_link_libraries(onednn_bench PRIVATE llmc_flags llmc_onednn llmc_plan)
endif()
