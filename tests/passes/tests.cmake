# The text tests of passes.
if(NOT LLMC_LOADER_ONLY)
  file(GLOB pass_texts CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/passes/*.llmc)
  set(kernel_table ${CMAKE_SOURCE_DIR}/backends/kernel_table.cpp)  # needs no backend
  target_sources(passes_test PRIVATE ${kernel_table})
  add_executable(pass_text_test ${CMAKE_SOURCE_DIR}/tests/passes/text_runner.cpp ${kernel_table})
  target_link_libraries(pass_text_test PRIVATE llmc_passes)
  if(pass_texts)
    add_test(NAME pass_texts COMMAND pass_text_test ${pass_texts})
  endif()
endif()
