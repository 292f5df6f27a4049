# The program itself: its size, what it links, its memory, places it can't write to, files that change while it runs.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_executable(plan_assemble tests/runtime/plan_assemble.cpp)
target_link_libraries(plan_assemble PRIVATE llmc_plan)
add_test(NAME llmc_run COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/runtime/llmc_run_test.py $<TARGET_FILE:llmc-run>
  $<TARGET_FILE:plan_assemble> ${CMAKE_SOURCE_DIR}/tests/runtime/model.plan.txt ${CMAKE_BUILD_TYPE})

# Step libraries without oneDNN, and some that must be refused.
function(llmc_fake_library name)
  add_library(${name} MODULE tests/runtime/fake_library.cpp runtime/plan_steps.cpp)
  target_link_libraries(${name} PRIVATE llmc_flags)
  target_compile_definitions(${name} PRIVATE ${ARGN})
  set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fake)
  add_dependencies(runtime_test ${name})
  string(TOUPPER LLMC_${name} definition)
  target_compile_definitions(runtime_test PRIVATE ${definition}="$<TARGET_FILE:${name}>")
endfunction()
llmc_fake_library(fake_steps)
llmc_fake_library(fake_newer FAKE_ABI=77)
llmc_fake_library(fake_context FAKE_CONTEXT_ABI=78)
llmc_fake_library(fake_cpu "FAKE_FEATURES=\"hyperdrive warp\"")
llmc_fake_library(fake_none llmc_onednn_library=something_else)
# One that needs a libdnnl which isn't there.
add_library(fake_gone SHARED runtime/plan_steps.cpp)
target_link_libraries(fake_gone PRIVATE llmc_flags)
set_target_properties(fake_gone PROPERTIES OUTPUT_NAME dnnl SOVERSION 99 LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fake/gone)
llmc_fake_library(fake_dnnl)
target_link_libraries(fake_dnnl PRIVATE fake_gone)
target_link_options(fake_dnnl PRIVATE -Wl,--no-as-needed)
set_target_properties(fake_dnnl PROPERTIES BUILD_WITH_INSTALL_RPATH ON)

# `ninja speculate_bench`: what speculation gains (tools/bench_speculate.py).
add_executable(speculate_bench EXCLUDE_FROM_ALL tests/bench/speculate_bench.cpp)
target_link_libraries(speculate_bench PRIVATE llmc_runtime)
