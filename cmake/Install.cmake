# SPDX-License-Identifier: Apache-2.0
# After `cmake --install`, find_package(rondo) works from the installed tree.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rondo)

install(
    TARGETS rondo
    EXPORT rondo_targets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
)
if(TARGET rondo_cli)
    install(TARGETS rondo_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(
    EXPORT rondo_targets
    FILE rondoTargets.cmake
    NAMESPACE rondo::
    DESTINATION ${config_dir}
)
configure_package_config_file(
    ${PROJECT_SOURCE_DIR}/cmake/rondoConfig.cmake.in ${PROJECT_BINARY_DIR}/rondoConfig.cmake
    INSTALL_DESTINATION ${config_dir}
)
write_basic_package_version_file(
    ${PROJECT_BINARY_DIR}/rondoConfigVersion.cmake
    COMPATIBILITY SameMinorVersion # before 1.0 a minor version may break its users
)
install(
    FILES ${PROJECT_BINARY_DIR}/rondoConfig.cmake
          ${PROJECT_BINARY_DIR}/rondoConfigVersion.cmake
          ${PROJECT_SOURCE_DIR}/cmake/Findasio.cmake
    DESTINATION ${config_dir}
)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
