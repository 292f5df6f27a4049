# libllmc.so: plan and runtime behind the C interface (runtime/llmc.h), and what `cmake --install` puts in place: programs, libraries, headers,
# find_package(llmc) and pkg-config.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set_target_properties(llmc_plan llmc_runtime PROPERTIES POSITION_INDEPENDENT_CODE ON)
add_library(llmc_library SHARED $<TARGET_OBJECTS:llmc_plan> $<TARGET_OBJECTS:llmc_runtime>)
set_target_properties(llmc_library PROPERTIES OUTPUT_NAME llmc EXPORT_NAME llmc LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION} SOVERSION 1
  LINK_DEPENDS ${CMAKE_SOURCE_DIR}/runtime/llmc.map)
target_link_options(llmc_library PRIVATE -Wl,--gc-sections -Wl,--version-script=${CMAKE_SOURCE_DIR}/runtime/llmc.map)
if(NOT LLMC_SANITIZED)
  target_link_options(llmc_library PRIVATE -Wl,-z,defs)
endif()
target_link_libraries(llmc_library PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
target_include_directories(llmc_library INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/runtime> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

install(TARGETS llmc_library EXPORT llmcTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES runtime/llmc.h runtime/llmc.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS llmc-run RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET llmc-run-static)
  install(TARGETS llmc-run-static RUNTIME DESTINATION libexec/llmc)
endif()
if(TARGET llmc_onednn)
  install(TARGETS llmc_onednn LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(EXPORT llmcTargets NAMESPACE llmc:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/llmc)
file(WRITE ${CMAKE_BINARY_DIR}/llmcConfig.cmake "include(\${CMAKE_CURRENT_LIST_DIR}/llmcTargets.cmake)\n")
write_basic_package_version_file(${CMAKE_BINARY_DIR}/llmcConfigVersion.cmake VERSION ${PROJECT_VERSION} COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/llmcConfig.cmake ${CMAKE_BINARY_DIR}/llmcConfigVersion.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/llmc)
# Relative to the file's own place, so that an installed tree may be moved.
file(WRITE ${CMAKE_BINARY_DIR}/llmc.pc "prefix=\${pcfiledir}/../..
includedir=\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}
libdir=\${pcfiledir}/..

Name: llmc
Description: runs plans that llmc has compiled
Version: ${PROJECT_VERSION}
Cflags: -I\${includedir}
Libs: -L\${libdir} -lllmc
")
install(FILES ${CMAKE_BINARY_DIR}/llmc.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
