# The library as others find it: installed.
if(NOT LLMC_LOADER_ONLY AND TARGET llmc AND NOT LLMC_SANITIZED)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  add_test(NAME install COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/api/install_test.py ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR}
    ${CMAKE_COMMAND} ${CMAKE_BUILD_TYPE})
endif()
