# libllmc_onednn.so (runtime/onednn): oneDNN's matmuls and the kernels for plans that are steps. It needs oneDNN, 2.6 or newer, built for OpenMP or
# without threads, and clang 19 for the kernels; llmc and llmc-run need neither. `if(TARGET llmc_onednn)` tells whether it is built.
set_property(GLOBAL APPEND PROPERTY LLMC_LAYERS "onednn:plan,kernels")
set(LLMC_ONEDNN ON CACHE STRING "build libllmc_onednn.so: ON (when oneDNN and clang++-19 are there), REQUIRED, OFF")
set(LLMC_ONEDNN_ROOT "" CACHE PATH "oneDNN's folder (include/oneapi/dnnl, lib); empty: the system's")

# Why it can't be built, or nothing; sets ONEDNN_INCLUDE, ONEDNN_LIBRARY, LLMC_KERNEL_CXX.
function(llmc_find_onednn out)
  find_program(LLMC_KERNEL_CXX NAMES clang++-19)
  set(where)
  if(LLMC_ONEDNN_ROOT)
    set(where PATHS ${LLMC_ONEDNN_ROOT} NO_DEFAULT_PATH)
  endif()
  find_path(ONEDNN_INCLUDE oneapi/dnnl/dnnl.hpp PATH_SUFFIXES include ${where})
  find_library(ONEDNN_LIBRARY dnnl PATH_SUFFIXES lib lib/${CMAKE_LIBRARY_ARCHITECTURE} ${where})
  mark_as_advanced(ONEDNN_INCLUDE ONEDNN_LIBRARY)
  set(${out} "" PARENT_SCOPE)
  if(NOT ONEDNN_INCLUDE OR NOT ONEDNN_LIBRARY)
    set(${out} "oneDNN isn't installed (Debian: libdnnl-dev)" PARENT_SCOPE)
    return()
  endif()
  if(NOT LLMC_KERNEL_CXX)
    set(${out} "clang++-19 isn't installed" PARENT_SCOPE)
    return()
  endif()
  file(STRINGS ${ONEDNN_INCLUDE}/oneapi/dnnl/dnnl_version.h lines REGEX "define DNNL_VERSION_(MAJOR|MINOR) ")
  string(REGEX REPLACE "[^0-9;]" "" numbers "${lines}")
  list(JOIN numbers "." version)
  if(version VERSION_LESS 2.6)
    set(${out} "oneDNN ${version} is older than 2.6" PARENT_SCOPE)
    return()
  endif()
  file(STRINGS ${ONEDNN_INCLUDE}/oneapi/dnnl/dnnl_config.h threading REGEX "define DNNL_CPU_THREADING_RUNTIME DNNL_RUNTIME_(OMP|SEQ)")
  if(NOT threading)
    set(${out} "${ONEDNN_LIBRARY} is built neither for OpenMP nor without threads" PARENT_SCOPE)
  endif()
endfunction()

if(NOT LLMC_ONEDNN MATCHES "^(ON|OFF|REQUIRED|TRUE|FALSE|1|0)$")
  message(FATAL_ERROR "LLMC_ONEDNN is ${LLMC_ONEDNN}, not ON, OFF or REQUIRED")
endif()
set(onednn_missing "LLMC_ONEDNN is OFF")
if(LLMC_ONEDNN)
  llmc_find_onednn(onednn_missing)
  if(onednn_missing AND LLMC_ONEDNN STREQUAL REQUIRED)
    message(FATAL_ERROR "libllmc_onednn.so can't be built: ${onednn_missing}")
  endif()
endif()
if(onednn_missing)
  message(STATUS "libllmc_onednn.so isn't built: ${onednn_missing}")
  return()
endif()

# The flags of tests/kernels: the same sources as the LLVM backend's, natively.
set(onednn_kernels ${CMAKE_BINARY_DIR}/onednn_kernels.o)
file(GLOB onednn_kernel_headers CONFIGURE_DEPENDS backends/kernels/*.h backends/kernels/*.def backends/kernels/*.cpp runtime/context.h runtime/barrier.h)
add_custom_command(OUTPUT ${onednn_kernels}
  COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${LLMC_KERNEL_CXX} -std=c++20 -O2 -march=x86-64-v3 -I${CMAKE_SOURCE_DIR} -fPIC -fvisibility=hidden
    -fno-math-errno -ffp-contract=off -ffile-prefix-map=${CMAKE_SOURCE_DIR}=. -Wall -Wextra -Wconversion -Wshadow -Werror
    -c ${CMAKE_SOURCE_DIR}/runtime/onednn/kernels.cpp -o ${onednn_kernels}
  DEPENDS ${CMAKE_SOURCE_DIR}/runtime/onednn/kernels.cpp ${CMAKE_SOURCE_DIR}/runtime/onednn/kernels.h
    ${CMAKE_SOURCE_DIR}/ir/dtypes.def ${CMAKE_SOURCE_DIR}/ir/math.h ${CMAKE_SOURCE_DIR}/ir/activations.def ${onednn_kernel_headers}
  VERBATIM)

set(onednn_map ${CMAKE_SOURCE_DIR}/runtime/onednn/library.map)
add_library(llmc_onednn SHARED runtime/onednn/library.cpp runtime/onednn/program.cpp runtime/onednn/blocks.cpp runtime/onednn/primitives.cpp runtime/onednn/kernel_check.cpp
  runtime/plan_steps.cpp ${onednn_kernels})
target_include_directories(llmc_onednn SYSTEM PRIVATE ${ONEDNN_INCLUDE})
target_compile_options(llmc_onednn PRIVATE -fvisibility=hidden)
target_link_options(llmc_onednn PRIVATE -Wl,--version-script=${onednn_map})
target_link_libraries(llmc_onednn PRIVATE llmc_flags ${ONEDNN_LIBRARY})
set_target_properties(llmc_onednn PROPERTIES LINK_DEPENDS ${onednn_map})
