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
add_executable(unicode_tables tools/unicode_tables.cpp)
target_link_libraries(unicode_tables PRIVATE llmc_flags)
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/unicode_tables_data.cpp
  COMMAND unicode_tables ${LLMC_UNICODE_DIR} ${CMAKE_BINARY_DIR}/unicode_tables_data.cpp
  DEPENDS unicode_tables ${unicode_files} VERBATIM)
target_sources(llmc_frontend PRIVATE ${CMAKE_BINARY_DIR}/unicode_tables_data.cpp)
