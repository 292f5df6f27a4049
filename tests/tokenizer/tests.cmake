# The tokenizer from end to end: what the front end lowers, the runtime encodes. The only test of two layers that meet in a file format alone.
if(NOT LLMC_LOADER_ONLY)
  add_executable(tokenizer_test tests/tokenizer/golden_test.cpp tests/tokenizer/lowered_test.cpp tests/tokenizer/pattern_test.cpp
                 tests/tokenizer/sentencepiece_test.cpp)
  add_executable(tokenize_texts tests/tokenizer/tokenize_texts.cpp)
  target_link_libraries(tokenize_texts PRIVATE llmc_frontend llmc_runtime)
  target_link_libraries(tokenizer_test PRIVATE llmc_frontend llmc_runtime GTest::gtest_main)
  target_compile_definitions(tokenizer_test PRIVATE LLMC_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME tokenizer COMMAND tokenizer_test)
endif()
