if(TARGET llmc AND LLMC_LLVM)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(onednn_library "")  # LLMC_ONEDNN_BUILT: libllmc_onednn.so, or nothing in a build without it
  if(TARGET llmc_onednn)
    set(onednn_library $<TARGET_FILE:llmc_onednn>)
  endif()
  file(GLOB scripts CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/cli/*_test.py)
  foreach(script ${scripts})
    get_filename_component(name ${script} NAME_WE)
    add_test(NAME cli.${name} COMMAND Python3::Interpreter ${script})
    set_tests_properties(cli.${name} PROPERTIES ENVIRONMENT
      "LLMC=$<TARGET_FILE:llmc>;LLMC_RUN=$<TARGET_FILE:llmc-run>;LLMC_ONEDNN_BUILT=${onednn_library};LLMC_SOURCE_DIR=${CMAKE_SOURCE_DIR};PYTHONDONTWRITEBYTECODE=1")
  endforeach()
endif()
