# SPDX-License-Identifier: MIT
#
# The module for NVIDIA GPUs, plimsoll_cuda.so, which the program loads at run time. It is built
# where nvcc is found. nvcc makes the kernels, one fat binary with machine code for each processor
# below and PTX for newer ones; the rest is C. The module links no CUDA library: the driver,
# cuBLASLt and cuDNN are opened when the device is.

find_program(PLM_NVCC nvcc HINTS /usr/local/cuda/bin /usr/lib/cuda/bin)
if(NOT PLM_ENGINE OR PLM_STATIC)
    return()
endif()
if(NOT PLM_NVCC)
    message(STATUS "nvcc is missing: the module for GPUs is not built")
    add_test(NAME test_standin COMMAND ${CMAKE_COMMAND} -E echo
        "skipped: nvcc was not found when this was built, so there is no module for GPUs to test")
    set_tests_properties(test_standin PROPERTIES SKIP_REGULAR_EXPRESSION "skipped: ")
    return()
endif()
get_filename_component(PLM_CUDA_ROOT ${PLM_NVCC} REALPATH)
get_filename_component(PLM_CUDA_ROOT ${PLM_CUDA_ROOT}/../.. ABSOLUTE)

set(PLM_CUDA_PROCESSORS 80 86 89 90)
set(PLM_CUDA_CODE -gencode=arch=compute_90,code=compute_90)
set(PLM_SANITIZED OFF)
if(CMAKE_C_FLAGS_DEBUG MATCHES "fsanitize") # runs on the stand-in alone, which never runs the code
    set(PLM_SANITIZED ON)
    set(PLM_CUDA_PROCESSORS 90)
    set(PLM_CUDA_CODE "")
endif()
foreach(processor ${PLM_CUDA_PROCESSORS})
    list(APPEND PLM_CUDA_CODE -gencode=arch=compute_${processor},code=sm_${processor})
endforeach()
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
    COMMAND ${PLM_NVCC} -fatbin -std=c++17 -O3 ${PLM_CUDA_CODE} -I${CMAKE_SOURCE_DIR}/src
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
if(NOT CMOCKA_FOUND)
    return()
endif()
add_executable(test_cuda tests/gpu/test_cuda.c)
target_include_directories(test_cuda PRIVATE src tests)
target_link_libraries(test_cuda PRIVATE plm_flags plm PkgConfig::CMOCKA)
add_dependencies(test_cuda plimsoll_cuda)
if(NOT PLM_SANITIZED) # a real driver wants the addresses that the address sanitizer keeps
    add_test(NAME test_cuda COMMAND test_cuda WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(test_cuda PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)
endif()

# What cuDNN's attention wants on GPUs that are described to it: no GPU is needed, only the library.
add_executable(test_attention_plans tests/gpu/test_attention_plans.c
    src/device/cuda/cuda_attention_graph.c src/phantom/cudnn_device.c)
target_include_directories(test_attention_plans PRIVATE src tests)
target_include_directories(test_attention_plans SYSTEM PRIVATE ${PLM_CUDA_ROOT}/include)
target_compile_definitions(test_attention_plans PRIVATE PLM_CUDA_ROOT="${PLM_CUDA_ROOT}")
target_link_libraries(test_attention_plans PRIVATE plm_flags plm PkgConfig::CMOCKA ${CMAKE_DL_LIBS} m)
if(NOT PLM_SANITIZED) # cuDNN keeps memory in parts of it that are gone when leaks are looked for
    add_test(NAME test_attention_plans COMMAND test_attention_plans)
    set_tests_properties(test_attention_plans PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77)
endif()

# The module on the stand-in: one library with the names of four of NVIDIA's, each call of which can
# be made to fail (tests/phantom/faults.h).
if(NOT TARGET plm_phantom)
    return()
endif()
set(PLM_STANDIN_FOLDER ${CMAKE_BINARY_DIR}/phantom/nvidia)
add_library(phantom_faults SHARED tests/phantom/faults.c tests/phantom/attention.c)
set_target_properties(phantom_faults PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PLM_STANDIN_FOLDER}
    C_VISIBILITY_PRESET hidden)
target_include_directories(phantom_faults PRIVATE src tests)
target_include_directories(phantom_faults SYSTEM PRIVATE ${PLM_CUDA_ROOT}/include)
target_compile_definitions(phantom_faults PRIVATE PLM_PHANTOM_LIBRARY="$<TARGET_FILE:plm_phantom>")
target_link_libraries(phantom_faults PRIVATE plm_flags ${CMAKE_DL_LIBS})
add_dependencies(phantom_faults plm_phantom)
file(MAKE_DIRECTORY ${PLM_STANDIN_FOLDER})
foreach(name libcuda.so.1 libcublasLt.so.13 libcudnn.so.9 libnvidia-ml.so.1)
    file(CREATE_LINK libphantom_faults.so ${PLM_STANDIN_FOLDER}/${name} SYMBOLIC)
endforeach()
add_executable(test_standin tests/gpu/test_standin.c)
target_include_directories(test_standin PRIVATE src tests)
target_link_libraries(test_standin PRIVATE plm_flags plm PkgConfig::CMOCKA)
target_compile_definitions(test_standin PRIVATE PLM_STANDIN_FOLDER="${PLM_STANDIN_FOLDER}"
    PLM_PHANTOM_LIBRARY="$<TARGET_FILE:plm_phantom>" PLM_STANDIN_CODE="${PLM_CUDA_FATBIN}"
    "PLM_STANDIN_PROCESSORS=$<JOIN:${PLM_CUDA_PROCESSORS},$<COMMA>>")
add_dependencies(test_standin plimsoll_cuda phantom_faults)
add_test(NAME test_standin COMMAND test_standin WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
set_tests_properties(test_standin PROPERTIES TIMEOUT 300)
