# llmc, the compiler's command line.
find_package(CLI11 REQUIRED)
file(GLOB COMMANDS CONFIGURE_DEPENDS tools/cmd_*.cpp tools/workbench/*.cpp)
add_executable(llmc tools/llmc.cpp tools/scheduled_model.cpp tools/text_file.cpp tools/pass_context.cpp tools/remarks.cpp tools/fold_text.cpp tools/progress.cpp tools/in_memory.cpp ${COMMANDS})
target_link_libraries(llmc PRIVATE llmc_frontend llmc_passes llmc_backends llmc_runtime fmt::fmt CLI11::CLI11)
if(TARGET llmc_onednn)
  add_dependencies(llmc llmc_onednn)  # llmc run opens it, and llmc-run beside it what llmc compiles
endif()
