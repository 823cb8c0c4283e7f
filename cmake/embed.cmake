# SPDX-License-Identifier: MIT
# Writes files into a C source as arrays of bytes, so that the program carries them.
# usage: cmake -DOUTPUT=assets.c -DHEADER=report/page_assets.h "-DFILES=page.html;page.css" -P embed.cmake
# page.html becomes  const char plm__page_html[], ended by a NUL, and  const size_t plm__page_html_bytes
# without it, as the header declares them. With -DTABLE=plm__name one array of {"page.html", bytes,
# address of the length} more, ended by zeros, of the header's type ROW; the bytes are then static.
set(source "/* Made by cmake/embed.cmake. */\n#include \"${HEADER}\"\n")
set(storage "")
set(rows "")
if(TABLE)
    set(storage "static ")
endif()
foreach(file ${FILES})
    get_filename_component(file_name ${file} NAME)
    string(MAKE_C_IDENTIFIER ${file_name} name)
    file(READ ${file} hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(REGEX REPLACE "((0x..,){24})" "\\1\n" bytes "${bytes}")
    string(APPEND source "\n${storage}const char plm__${name}[] = {\n${bytes}0};\n"
        "${storage}const size_t plm__${name}_bytes = sizeof plm__${name} - 1;\n")
    string(APPEND rows "    {\"${file_name}\", plm__${name}, &plm__${name}_bytes},\n")
endforeach()
if(TABLE)
    string(APPEND source "\nconst ${ROW} ${TABLE}[] = {\n${rows}    {0},\n};\n")
endif()
file(WRITE ${OUTPUT} "${source}")
