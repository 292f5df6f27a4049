# The parsers' own program, and hostile files run through it under a limit on address space.
if(NOT LLMC_LOADER_ONLY)
  add_executable(llmc-parse tests/limits/llmc_parse.cpp)
  target_link_libraries(llmc-parse PRIVATE llmc_frontend)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  if(NOT CMAKE_CXX_FLAGS_RELWITHDEBINFO MATCHES "fsanitize" OR NOT CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo")
    add_test(NAME limits COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/limits/limits.py $<TARGET_FILE:llmc-parse>)
  endif()
endif()
