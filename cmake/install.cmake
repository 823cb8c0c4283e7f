# SPDX-License-Identifier: MIT
#
# What `make install` puts where. The manual page and the bash completion are printed by the program
# from the tables that it reads its command lines by. Every path that is written into a file is
# relative to that file: the tree may be installed under any prefix, and moved.

set(PLM_MANUAL ${CMAKE_BINARY_DIR}/plimsoll.1)
set(PLM_COMPLETION ${CMAKE_BINARY_DIR}/plimsoll.bash)
add_custom_command(OUTPUT ${PLM_MANUAL} ${PLM_COMPLETION}
    COMMAND plimsoll --help=man > ${PLM_MANUAL}
    COMMAND plimsoll --help=bash > ${PLM_COMPLETION}
    DEPENDS plimsoll VERBATIM)
add_custom_target(plm_pages ALL DEPENDS ${PLM_MANUAL} ${PLM_COMPLETION})

install(TARGETS plimsoll)
install(TARGETS plm EXPORT plimsoll INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
file(GLOB PLM_PUBLIC_HEADERS CONFIGURE_DEPENDS include/plimsoll/*.h)
if(NOT PLM_ENGINE)
    list(TRANSFORM PLM_ENGINE_HEADERS PREPEND ${CMAKE_SOURCE_DIR}/include/plimsoll/)
    list(REMOVE_ITEM PLM_PUBLIC_HEADERS ${PLM_ENGINE_HEADERS})
endif()
install(FILES ${PLM_PUBLIC_HEADERS} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/plimsoll)
install(FILES ${PLM_MANUAL} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${PLM_COMPLETION} RENAME plimsoll
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# For find_package(plimsoll): the target plimsoll::plimsoll.
include(CMakePackageConfigHelpers)
set(PLM_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/plimsoll)
configure_package_config_file(cmake/plimsollConfig.cmake.in ${CMAKE_BINARY_DIR}/plimsollConfig.cmake
    INSTALL_DESTINATION ${PLM_CMAKE_DIR} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/plimsollConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/plimsollConfig.cmake
    ${CMAKE_BINARY_DIR}/plimsollConfigVersion.cmake DESTINATION ${PLM_CMAKE_DIR})
install(EXPORT plimsoll FILE plimsollTargets.cmake NAMESPACE plimsoll:: DESTINATION ${PLM_CMAKE_DIR})

# For pkg-config.
set(PLM_PKGCONFIG_DIR ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH PLM_PKGCONFIG_TO_PREFIX /prefix/${PLM_PKGCONFIG_DIR} /prefix)
set(PLM_PKGCONFIG_LIBS "-lm ${CMAKE_THREAD_LIBS_INIT}")
if(PLM_ENGINE)
    string(PREPEND PLM_PKGCONFIG_LIBS "-ldnnl ${OpenMP_C_FLAGS} ")
endif()
configure_file(cmake/plimsoll.pc.in plimsoll.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/plimsoll.pc DESTINATION ${PLM_PKGCONFIG_DIR})

# The tree as users have it, where the tests are optimised builds: sanitizers would have to be linked.
if(CMAKE_BUILD_TYPE STREQUAL Release)
    add_test(NAME install COMMAND ${CMAKE_SOURCE_DIR}/tests/scripts/test_install ${CMAKE_BINARY_DIR})
    set_tests_properties(install PROPERTIES TIMEOUT 300 ENVIRONMENT OMP_WAIT_POLICY=passive)
endif()
add_test(NAME completion COMMAND ${CMAKE_SOURCE_DIR}/tests/scripts/test_completion ${CMAKE_BINARY_DIR})
set_tests_properties(completion PROPERTIES TIMEOUT 120)
