# Unicode tables of the front end, from Debian's package unicode-data.
set(LLMC_UNICODE_DIR /usr/share/unicode CACHE PATH "Unicode Character Database: UnicodeData.txt, PropList.txt, ...")
set(unicode_files UnicodeData.txt PropList.txt DerivedCoreProperties.txt DerivedNormalizationProps.txt Scripts.txt PropertyValueAliases.txt
  CaseFolding.txt SpecialCasing.txt emoji/emoji-data.txt auxiliary/GraphemeBreakProperty.txt)
list(TRANSFORM unicode_files PREPEND ${LLMC_UNICODE_DIR}/)
foreach(file ${unicode_files})
  if(NOT EXISTS ${file})
    message(FATAL_ERROR "${file} is missing: install Debian's package unicode-data or set LLMC_UNICODE_DIR")
  endif()
endforeach()
foreach(program unicode_tables text_tables)
  add_executable(${program} tools/${program}.cpp)
  target_link_libraries(${program} PRIVATE llmc_flags)
  add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/${program}_data.cpp
    COMMAND ${program} ${LLMC_UNICODE_DIR} ${CMAKE_BINARY_DIR}/${program}_data.cpp
    DEPENDS ${program} ${unicode_files} VERBATIM)
  target_sources(llmc_frontend PRIVATE ${CMAKE_BINARY_DIR}/${program}_data.cpp)
endforeach()
