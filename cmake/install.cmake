# What is installed beside the command: its man page and completion, the runtime for programs around models, the CMake package, pkg-config.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

if(TARGET mlc)
    foreach(kind IN ITEMS man completion)
        add_custom_command(OUTPUT "${CMAKE_BINARY_DIR}/mlc.${kind}" DEPENDS mlc VERBATIM
            COMMAND "${CMAKE_COMMAND}" -E env -- sh -c "$<TARGET_FILE:mlc> help --${kind} >mlc.${kind}" WORKING_DIRECTORY "${CMAKE_BINARY_DIR}")
    endforeach()
    add_custom_target(mlc-texts ALL DEPENDS "${CMAKE_BINARY_DIR}/mlc.man" "${CMAKE_BINARY_DIR}/mlc.completion")
    install(FILES "${CMAKE_BINARY_DIR}/mlc.man" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" RENAME mlc.1)
    install(FILES "${CMAKE_BINARY_DIR}/mlc.completion" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" RENAME mlc)
endif()

install(TARGETS mlc_runtime ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(FILES runtime/abi.h runtime/load.h runtime/mlc_pool.h runtime/mlc_weights.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/mlc")

configure_package_config_file(cmake/mlcConfig.cmake.in "${CMAKE_BINARY_DIR}/mlcConfig.cmake" INSTALL_DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/mlc"
    PATH_VARS CMAKE_INSTALL_BINDIR CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/mlcConfigVersion.cmake" COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES "${CMAKE_BINARY_DIR}/mlcConfig.cmake" "${CMAKE_BINARY_DIR}/mlcConfigVersion.cmake" DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/mlc")
configure_file(cmake/mlc-runtime.pc.in "${CMAKE_BINARY_DIR}/mlc-runtime.pc" @ONLY)
install(FILES "${CMAKE_BINARY_DIR}/mlc-runtime.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
