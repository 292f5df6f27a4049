find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME style COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/style/style.py ${CMAKE_SOURCE_DIR})
add_test(NAME op_kinds COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tests/style/op_kinds.py ${CMAKE_SOURCE_DIR})
add_test(NAME supported COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/tools/supported.py --check)
