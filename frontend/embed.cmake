# Puts the presets and the table of config keys into llmc_frontend as string literals, again whenever one of them changes.
file(GLOB embedded CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/frontend ${CMAKE_SOURCE_DIR}/frontend/arch/*.json)
list(SORT embedded)
list(APPEND embedded config_keys.json)
set(entries "")
foreach(name ${embedded})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/frontend/${name})
  file(READ ${CMAKE_SOURCE_DIR}/frontend/${name} text)
  string(APPEND entries "    {\"${name}\", R\"llmc(${text})llmc\"},\n")
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/frontend_embedded.cpp @ONLY CONTENT
"// Made by frontend/embed.cmake.
#include \"frontend/embedded.h\"

namespace llmc {
std::span<const EmbeddedFile> EmbeddedFiles() {
  static constexpr EmbeddedFile kFiles[] = {
@entries@  };
  return kFiles;
}
}  // namespace llmc
")
target_sources(llmc_frontend PRIVATE ${CMAKE_BINARY_DIR}/generated/frontend_embedded.cpp)
