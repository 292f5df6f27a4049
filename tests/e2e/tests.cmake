# Tests of everything behind the front end together: passes, backends and runtime on tiny modules.
if(LLMC_LLVM AND NOT LLMC_LOADER_ONLY AND TARGET llmc_passes AND TARGET llmc_backends)
  add_executable(e2e_test tests/e2e/parity_test.cpp tests/e2e/tiny.cpp)
  target_link_libraries(e2e_test PRIVATE llmc_passes llmc_backends llmc_runtime GTest::gtest_main)
  add_test(NAME e2e COMMAND e2e_test)
endif()
