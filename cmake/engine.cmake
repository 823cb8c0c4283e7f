# SPDX-License-Identifier: MIT
#
# What the engine is. Plimsoll is two products on one spine: the instruments (memory traces, pools,
# PyTorch's files, reports), and the engine, which plans and trains. PLM_ENGINE=OFF leaves the
# engine out, and with it oneDNN and OpenMP. The folders say what is the engine's: those of src/
# below, and every folder that is called engine.

set(PLM_ENGINE_FOLDERS pass plan device/target device/cpu device/fault run model data train
    plan_report)
# The public headers of those folders.
set(PLM_ENGINE_HEADERS advice.h bill.h calibrate.h curve.h data.h model.h plan.h plan_report.h
    profile.h session.h tape.h train.h)

# Takes the engine's files out of a list of sources when it is not built.
function(plm_without_engine list)
    if(PLM_ENGINE)
        return()
    endif()
    list(FILTER ${list} EXCLUDE REGEX "/engine/[^/]*$")
    foreach(folder ${PLM_ENGINE_FOLDERS})
        list(FILTER ${list} EXCLUDE REGEX "/src/${folder}/[^/]*$")
    endforeach()
    set(${list} "${${list}}" PARENT_SCOPE)
endfunction()

set(PLM_ENGINE_LIBRARIES "")
if(PLM_ENGINE)
    find_package(OpenMP REQUIRED COMPONENTS C)
    find_library(DNNL_LIBRARY dnnl REQUIRED)
    add_library(plimsoll::dnnl UNKNOWN IMPORTED)
    set_target_properties(plimsoll::dnnl PROPERTIES IMPORTED_LOCATION ${DNNL_LIBRARY})
    set(PLM_ENGINE_LIBRARIES OpenMP::OpenMP_C plimsoll::dnnl)
endif()
