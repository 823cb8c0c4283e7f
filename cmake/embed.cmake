# SPDX-License-Identifier: MIT
# Writes files into a C source as arrays of bytes, so that the program carries them.
# usage: cmake -DOUTPUT=assets.c -DHEADER=report/page_assets.h "-DFILES=page.html;page.css" -P embed.cmake
# page.html becomes  const char plm__page_html[], ended by a NUL, and  const size_t plm__page_html_bytes
# without it, as the header declares them.
set(source "/* Made by cmake/embed.cmake. */\n#include \"${HEADER}\"\n")
foreach(file ${FILES})
    get_filename_component(name ${file} NAME)
    string(MAKE_C_IDENTIFIER ${name} name)
    file(READ ${file} hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(REGEX REPLACE "((0x..,){24})" "\\1\n" bytes "${bytes}")
    string(APPEND source "\nconst char plm__${name}[] = {\n${bytes}0};\n"
        "const size_t plm__${name}_bytes = sizeof plm__${name} - 1;\n")
endforeach()
file(WRITE ${OUTPUT} "${source}")
