# The workbench: faults that verify and bisect must find.
if(NOT LLMC_LOADER_ONLY AND LLMC_LLVM)
  add_executable(mutation_test tests/workbench/mutation_test.cpp tools/workbench/bisect.cpp tools/workbench/numbers.cpp
    tools/workbench/stages.cpp tools/workbench/values.cpp tools/scheduled_model.cpp tools/text_file.cpp tools/pass_context.cpp tools/remarks.cpp)
  target_link_libraries(mutation_test PRIVATE llmc_frontend llmc_passes llmc_backends llmc_runtime fmt::fmt GTest::gtest_main)
  target_compile_definitions(mutation_test PRIVATE LLMC_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME mutation COMMAND mutation_test)
endif()
