# The golden models through the front end and the interpreter.
if(NOT LLMC_LOADER_ONLY)
  add_executable(golden_test tests/golden/golden_test.cpp)
  target_link_libraries(golden_test PRIVATE llmc_frontend GTest::gtest_main)
  target_compile_definitions(golden_test PRIVATE LLMC_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME golden COMMAND golden_test)
endif()
