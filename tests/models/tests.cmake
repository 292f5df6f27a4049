# Trained models, compiled and run by the two programs: SmolLM2 against transformers' answers, and the repository's own.
if(LLMC_LLVM AND NOT LLMC_LOADER_ONLY)
  foreach(check smollm2_greedy smollm2_teacher tiny_sums)
    add_test(NAME ${check} COMMAND ${CMAKE_SOURCE_DIR}/tests/models/check ${check} $<TARGET_FILE:llmc> $<TARGET_FILE:llmc-run>)
    set_tests_properties(${check} PROPERTIES SKIP_RETURN_CODE 77 LABELS slow)
  endforeach()
endif()
