# The program itself: its size, what it links, its memory, places it can't write to, files that change while it runs.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_executable(plan_assemble tests/runtime/plan_assemble.cpp)
target_link_libraries(plan_assemble PRIVATE llmc_plan)
add_test(NAME llmc_run COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/runtime/llmc_run_test.py $<TARGET_FILE:llmc-run>
  $<TARGET_FILE:plan_assemble> ${CMAKE_SOURCE_DIR}/tests/runtime/model.plan.txt ${CMAKE_BUILD_TYPE})
