# SPDX-License-Identifier: MIT
#
# The module for NVIDIA GPUs, plimsoll_cuda.so, which the program loads at run time. It is built
# where nvcc is found. nvcc makes the kernels, one fat binary with machine code for each processor
# below and PTX for newer ones; the rest is C. The module links no CUDA library: the driver,
# cuBLASLt and cuDNN are opened when the device is.

find_program(PLM_NVCC nvcc HINTS /usr/local/cuda/bin /usr/lib/cuda/bin)
# The sanitizers see nothing of a GPU, and the kernels take a quarter of a minute.
if(NOT PLM_NVCC OR NOT PLM_ENGINE OR PLM_STATIC OR CMAKE_C_FLAGS_DEBUG MATCHES "fsanitize")
    message(STATUS "nvcc is missing, or not wanted: the module for GPUs is not built")
    return()
endif()
get_filename_component(PLM_CUDA_ROOT ${PLM_NVCC} REALPATH)
get_filename_component(PLM_CUDA_ROOT ${PLM_CUDA_ROOT}/../.. ABSOLUTE)

set(PLM_CUDA_PROCESSORS -gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_86,code=sm_86
    -gencode=arch=compute_89,code=sm_89 -gencode=arch=compute_90,code=[sm_90,compute_90])
file(GLOB PLM_CUDA_KERNELS CONFIGURE_DEPENDS src/device/cuda/kernel/*.cu)
file(GLOB PLM_CUDA_HEADERS CONFIGURE_DEPENDS src/device/cuda/kernel/*.cuh)

# Every kernel in one translation unit, so that the module is one fat binary.
set(PLM_CUDA_ALL ${CMAKE_BINARY_DIR}/generated/kernels.cu)
set(all "/* Made by cmake/cuda.cmake. */\n")
foreach(kernel ${PLM_CUDA_KERNELS})
    get_filename_component(name ${kernel} NAME)
    string(APPEND all "#include \"device/cuda/kernel/${name}\"\n")
endforeach()
file(CONFIGURE OUTPUT ${PLM_CUDA_ALL} CONTENT "${all}" @ONLY)
set(PLM_CUDA_FATBIN ${CMAKE_BINARY_DIR}/generated/cuda_kernels_fatbin)
add_custom_command(OUTPUT ${PLM_CUDA_FATBIN}
    COMMAND ${PLM_NVCC} -fatbin -std=c++17 -O3 ${PLM_CUDA_PROCESSORS} -I${CMAKE_SOURCE_DIR}/src
        -I${CMAKE_SOURCE_DIR}/include -I${CMAKE_SOURCE_DIR}/src/device/cuda/kernel
        -o ${PLM_CUDA_FATBIN} ${PLM_CUDA_ALL}
    DEPENDS ${PLM_CUDA_KERNELS} ${PLM_CUDA_HEADERS} ${PLM_CUDA_ALL} src/graph/step_record.h VERBATIM)
set(PLM_CUDA_FATBIN_C ${CMAKE_BINARY_DIR}/generated/cuda_kernels_fatbin.c)
add_custom_command(OUTPUT ${PLM_CUDA_FATBIN_C}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${PLM_CUDA_FATBIN_C} -DHEADER=device/cuda/cuda_fatbin.h
        -DFILES=${PLM_CUDA_FATBIN} -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${PLM_CUDA_FATBIN} cmake/embed.cmake VERBATIM)

file(GLOB PLM_CUDA_SOURCES CONFIGURE_DEPENDS src/device/cuda/*.c)
add_library(plimsoll_cuda MODULE ${PLM_CUDA_SOURCES} ${PLM_CUDA_FATBIN_C}
    src/device/target/cuda_workspace.c src/base/size.c src/base/number.c src/base/dtype.c src/base/array.c src/graph/op_info.c)
set_target_properties(plimsoll_cuda PROPERTIES PREFIX "" C_VISIBILITY_PRESET hidden)
target_include_directories(plimsoll_cuda PRIVATE src)
target_include_directories(plimsoll_cuda SYSTEM PRIVATE ${PLM_CUDA_ROOT}/include)
target_link_libraries(plimsoll_cuda PRIVATE plm_flags ${CMAKE_DL_LIBS} m)
target_link_options(plimsoll_cuda PRIVATE -Wl,--no-undefined)
install(TARGETS plimsoll_cuda DESTINATION ${CMAKE_INSTALL_LIBDIR}/plimsoll)

# The engine on a GPU, where there is one; elsewhere the test is built and skips itself.
if(CMOCKA_FOUND)
    add_executable(test_cuda tests/gpu/test_cuda.c)
    target_include_directories(test_cuda PRIVATE src tests)
    target_link_libraries(test_cuda PRIVATE plm_flags plm PkgConfig::CMOCKA)
    add_dependencies(test_cuda plimsoll_cuda)
    add_test(NAME test_cuda COMMAND test_cuda WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(test_cuda PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)
endif()
