# Debian packages by CPack: `lightcone` (server and command line) and `lightcone-model` (encoders, trainings, fits and
# the demo, which need libtorch). `make deb` builds both.
include(GNUInstallDirs)
set(packaging ${CMAKE_SOURCE_DIR}/deploy/debian)

install(TARGETS lightcone RUNTIME DESTINATION bin COMPONENT lightcone)
install(TARGETS lightcone-model lightcone-research RUNTIME DESTINATION bin COMPONENT model)
install(FILES ${packaging}/lightcone.service DESTINATION lib/systemd/system COMPONENT lightcone)
install(FILES ${packaging}/lightcone.toml DESTINATION /etc/lightcone COMPONENT lightcone)
install(FILES ${packaging}/copyright DESTINATION share/doc/lightcone COMPONENT lightcone)
install(FILES ${packaging}/copyright DESTINATION share/doc/lightcone-model COMPONENT model)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/deploy/prometheus ${CMAKE_SOURCE_DIR}/deploy/grafana
        DESTINATION share/doc/lightcone/examples COMPONENT lightcone)

# The manual page and the completions come from the program that is packaged.
install(CODE "
  set(made \"${CMAKE_BINARY_DIR}/package\")
  file(MAKE_DIRECTORY \${made})
  foreach(shell bash zsh fish)
    execute_process(COMMAND \"${CMAKE_BINARY_DIR}/bin/lightcone\" completion \${shell}
                    OUTPUT_FILE \${made}/completion.\${shell} COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  execute_process(COMMAND gzip -9nc \"${packaging}/lightcone.1\" OUTPUT_FILE \${made}/lightcone.1.gz
                  COMMAND_ERROR_IS_FATAL ANY)
" COMPONENT lightcone)
install(FILES ${CMAKE_BINARY_DIR}/package/lightcone.1.gz DESTINATION share/man/man1 COMPONENT lightcone)
install(FILES ${CMAKE_BINARY_DIR}/package/completion.bash DESTINATION share/bash-completion/completions
        RENAME lightcone COMPONENT lightcone)
install(FILES ${CMAKE_BINARY_DIR}/package/completion.zsh DESTINATION share/zsh/vendor-completions
        RENAME _lightcone COMPONENT lightcone)
install(FILES ${CMAKE_BINARY_DIR}/package/completion.fish DESTINATION share/fish/vendor_completions.d
        RENAME lightcone.fish COMPONENT lightcone)

# `make deb` has built what is packaged.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME lightcone)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The Lightcone developers <lightcone@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_OUTPUT_FILE_PREFIX ${CMAKE_BINARY_DIR}/package)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL lightcone model)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION database)
set(CPACK_DEBIAN_LIGHTCONE_PACKAGE_NAME lightcone)
set(CPACK_COMPONENT_LIGHTCONE_DESCRIPTION "Vector retrieval that survives changes of the embedding model
Lightcone is a vector database server. Queries of a new embedding model search
the gallery that older models embedded, from the first minute, and items are
embedded anew one by one, worst first.")
set(CPACK_DEBIAN_LIGHTCONE_PACKAGE_DEPENDS adduser)
set(CPACK_DEBIAN_LIGHTCONE_PACKAGE_RECOMMENDS lightcone-model)
set(CPACK_DEBIAN_LIGHTCONE_PACKAGE_CONTROL_EXTRA
    "${packaging}/conffiles;${packaging}/postinst;${packaging}/prerm;${packaging}/postrm")
set(CPACK_DEBIAN_LIGHTCONE_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_MODEL_PACKAGE_NAME lightcone-model)
set(CPACK_COMPONENT_MODEL_DESCRIPTION "Encoders, trainings and adapters of the Lightcone server
The programs that the server starts to embed raw inputs, to train models and
to fit adapters. A server of vectors alone does not need them.")
set(CPACK_DEBIAN_MODEL_PACKAGE_DEPENDS
    "lightcone (= ${PROJECT_VERSION}), fonts-dejavu-core, fonts-liberation, fonts-freefont-ttf")
include(CPack)
