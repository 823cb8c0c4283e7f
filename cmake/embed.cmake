# SPDX-License-Identifier: MIT
# Writes a file's bytes as a C array, so that the program carries the file inside.
# usage: cmake -DINPUT=FILE -DOUTPUT=FILE.c -DNAME=SYMBOL -DHEADER=x.h -P embed.cmake
file(READ ${INPUT} digits HEX)
string(REGEX REPLACE "(................................)" "\\1\n" digits "${digits}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1, " bytes "${digits}")
file(WRITE ${OUTPUT} "#include \"${HEADER}\"\n\n"
    "const unsigned char ${NAME}[] = {\n${bytes}};\n"
    "const size_t ${NAME}_bytes = sizeof ${NAME};\n")
