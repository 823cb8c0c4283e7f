# SPDX-License-Identifier: MIT
#
# What the engine is. Plimsoll is two products on one spine: the instruments (memory traces, pools,
# PyTorch's files, reports), and the engine, which plans and trains. PLM_ENGINE=OFF leaves out what
# this list names, and oneDNN and OpenMP with it. A file that needs the engine and is missing here
# breaks that build, which scripts/check makes.

set(PLM_ENGINE_FOLDERS graph device pass plan run model data train)
set(PLM_ENGINE_FILES
    cli/calibration.c
    cli/choices.c
    cli/cmd_bill.c
    cli/cmd_curve.c
    cli/cmd_plan.c
    cli/cmd_profile.c
    cli/cmd_train.c
    cli/threads.c
    src/report/curve.c
    src/report/curve_svg.c
    src/report/profile_json.c
    src/report/profile_rows.c
    src/report/profile_text.c
    bench/bench_ops.c
    bench/bench_plan.c
    bench/bench_rungs.c
    bench/bench_search.c
    bench/bench_predict.c
    bench/bench_step.c
    examples/own_model.c
    tests/unit/test_allocation.c
    tests/unit/test_bill.c
    tests/unit/test_chunk.c
    tests/unit/test_cli_train.c
    tests/unit/test_cmd_bill.c
    tests/unit/test_cmd_curve.c
    tests/unit/test_cmd_plan.c
    tests/unit/test_cost.c
    tests/unit/test_curve.c
    tests/unit/test_data.c
    tests/unit/test_device.c
    tests/unit/test_graph.c
    tests/unit/test_invariants.c
    tests/unit/test_model.c
    tests/unit/test_ops.c
    tests/unit/test_pass.c
    tests/unit/test_plan.c
    tests/unit/test_precision.c
    tests/unit/test_profile.c
    tests/unit/test_recompute.c
    tests/unit/test_resident.c
    tests/unit/test_run.c
    tests/unit/test_bert.c
    tests/unit/test_check.c
    tests/unit/test_checkpoint.c
    tests/unit/test_kill.c
    tests/unit/test_optimizer.c
    tests/unit/test_out_of_memory.c
    tests/unit/test_search.c
    tests/unit/test_sweep.c
    tests/unit/test_target.c
    tests/unit/test_tape.c
    tests/unit/test_train.c)
# Public headers of which the instruments need not even the types.
set(PLM_ENGINE_HEADERS data.h model.h session.h tape.h train.h)
# Of a folder of the engine, but the bill prints its words: the strategy.
set(PLM_SHARED_FILES src/graph/strategy.c)

foreach(path ${PLM_ENGINE_FILES} ${PLM_SHARED_FILES})
    if(NOT EXISTS ${CMAKE_SOURCE_DIR}/${path})
        message(FATAL_ERROR "cmake/engine.cmake names ${path}, which is not there")
    endif()
endforeach()

# Takes the engine's files out of a list of sources when it is not built.
function(plm_without_engine list)
    if(PLM_ENGINE)
        return()
    endif()
    set(kept "")
    foreach(source ${${list}})
        file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${source})
        string(REGEX REPLACE "^src/([^/]*)/.*$" "\\1" folder ${path})
        if(path IN_LIST PLM_SHARED_FILES
                OR NOT (folder IN_LIST PLM_ENGINE_FOLDERS OR path IN_LIST PLM_ENGINE_FILES))
            list(APPEND kept ${source})
        endif()
    endforeach()
    set(${list} "${kept}" PARENT_SCOPE)
endfunction()

set(PLM_ENGINE_LIBRARIES "")
if(PLM_ENGINE)
    find_package(OpenMP REQUIRED COMPONENTS C)
    find_library(DNNL_LIBRARY dnnl REQUIRED)
    add_library(plimsoll::dnnl UNKNOWN IMPORTED)
    set_target_properties(plimsoll::dnnl PROPERTIES IMPORTED_LOCATION ${DNNL_LIBRARY})
    set(PLM_ENGINE_LIBRARIES OpenMP::OpenMP_C plimsoll::dnnl)
endif()
