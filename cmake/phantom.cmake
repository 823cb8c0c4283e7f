# SPDX-License-Identifier: MIT
#
# The stand-in for NVIDIA's libraries (src/phantom), which `plimsoll forecast` loads into a script's
# own process. It is no part of the library plm: only the names that it stands in for are visible,
# and it needs nothing but libc, so that it loads wherever the wheel does.

if(PLM_FUZZ OR NOT (CMAKE_SYSTEM_NAME STREQUAL "Linux" AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64"))
    return()
endif()

file(GLOB PLM_PHANTOM_SOURCES CONFIGURE_DEPENDS src/phantom/*.c)
add_library(plm_phantom SHARED ${PLM_PHANTOM_SOURCES})
set_target_properties(plm_phantom PROPERTIES OUTPUT_NAME plimsoll_phantom C_VISIBILITY_PRESET hidden)
target_include_directories(plm_phantom PRIVATE src)
# A stand-in has the parameters of the function that it stands in for, and ignores most of them.
target_compile_options(plm_phantom PRIVATE -Wno-unused-parameter)
# The library is loaded into processes that have no sanitizer, and takes over fixed addresses.
target_compile_options(plm_phantom PRIVATE -fno-sanitize=all)
target_link_options(plm_phantom PRIVATE -fno-sanitize=all
    -Wl,-z,defs,-z,lazy # lazily: what an old libc lacks is then missed only where it is called
    -Wl,-Bsymbolic) # its own calls reach its own functions
target_link_libraries(plm_phantom PRIVATE plm_flags Threads::Threads ${CMAKE_DL_LIBS})

# What its test loads to choose a CUDA: libraries with the name of a runtime and nothing in them.
set(PLM_PHANTOM_RUNTIMES "")
foreach(version 12040 13000)
    string(SUBSTRING ${version} 0 2 major)
    add_library(phantom_cudart_${major} SHARED tests/phantom/cudart.c)
    target_compile_definitions(phantom_cudart_${major} PRIVATE RUNTIME_VERSION=${version})
    set_target_properties(phantom_cudart_${major} PROPERTIES PREFIX "" SUFFIX ""
        OUTPUT_NAME libcudart.so.${major} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/phantom)
    target_link_libraries(phantom_cudart_${major} PRIVATE plm_flags)
    target_link_options(phantom_cudart_${major} PRIVATE -Wl,-soname,libcudart.so.${major})
    list(APPEND PLM_PHANTOM_RUNTIMES phantom_cudart_${major})
endforeach()

# And a cuDNN that cannot be told of a device.
add_library(phantom_cudnn SHARED tests/phantom/cudnn.c)
set_target_properties(phantom_cudnn PROPERTIES PREFIX "" SUFFIX "" OUTPUT_NAME libcudnn.so.9
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/phantom)
target_include_directories(phantom_cudnn PRIVATE src)
target_link_libraries(phantom_cudnn PRIVATE plm_flags)
target_link_options(phantom_cudnn PRIVATE -Wl,-soname,libcudnn.so.9)
