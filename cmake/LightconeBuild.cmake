# Compiler settings and the functions by which every folder declares its one target.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(LIGHTCONE_CCACHE ccache)
if(LIGHTCONE_CCACHE)
  # CCACHE_DEPEND: results are found by what the included files hold. By default ccache falls back on the preprocessed
  # text, which keeps neither comments nor macros, and so takes a precompiled header from before a change of either: GCC
  # then includes the changed header once more ("redefinition"), or compiles with the macro's old value, silently.
  # CCACHE_NAMESPACE: what was stored in the other way stays out of reach. CCACHE_SLOPPINESS: what precompiled headers
  # need, and no more: a header that changes while it is compiled has to be noticed.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_DEPEND=1 CCACHE_NAMESPACE=lightcone-depend
      CCACHE_SLOPPINESS=pch_defines,time_macros ${LIGHTCONE_CCACHE})
endif()

add_library(lightcone_options INTERFACE)
target_include_directories(lightcone_options INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/gen)
target_compile_options(lightcone_options INTERFACE -Wall -Wextra -Wno-unused-parameter -Wno-sign-compare)
if(LIGHTCONE_WERROR)
  target_compile_options(lightcone_options INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_options(lightcone_options INTERFACE -Wthread-safety -Wno-deprecated-declarations)
endif()
if(LIGHTCONE_SANITIZE)
  add_compile_options(-fsanitize=${LIGHTCONE_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${LIGHTCONE_SANITIZE})
  add_compile_definitions(LIGHTCONE_SANITIZED=1)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # With sanitizers GCC sees uninitialized members in c10::optional that are never read (GCC bug 105562 and others).
    target_compile_options(lightcone_options INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()
if(LIGHTCONE_SANITIZE MATCHES thread)
  include(${CMAKE_SOURCE_DIR}/tests/tsan/wrapped.cmake)
  add_library(lightcone_tsan_absl OBJECT ${CMAKE_SOURCE_DIR}/tests/tsan/absl_mutex.cc)
  foreach(symbol IN LISTS LIGHTCONE_TSAN_WRAPPED)
    add_link_options(-Wl,--wrap=${symbol})
  endforeach()
  link_libraries($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:lightcone_tsan_absl>)
endif()


# lightcone_library(name SRCS a.cc ... DEPS target ...): a static library whose headers are included from the root.
function(lightcone_library name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  if(ARG_SRCS)
    add_library(${name} STATIC ${ARG_SRCS})
    target_link_libraries(${name} PUBLIC ${ARG_DEPS} PRIVATE lightcone_options)
    target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/gen)
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ${ARG_DEPS})
    target_include_directories(${name} INTERFACE ${CMAKE_SOURCE_DIR})
  endif()
endfunction()

# lightcone_includes_torch(name): for targets whose files include libtorch's headers. Clang refuses these as C++20 with
# GCC 12's library (a vector of an incomplete type): beside Clang, GCC compiles such files, without sanitizers.
function(lightcone_includes_torch name)
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    set_target_properties(${name} PROPERTIES CXX_COMPILER_LAUNCHER ${CMAKE_SOURCE_DIR}/cmake/by-gcc.sh
                                             DISABLE_PRECOMPILE_HEADERS ON)
  endif()
endfunction()

# lightcone_in_batches(name): compiles the target's files eight at a time as one (CMake's unity builds). Most of what a file
# that includes libtorch, CLI11, gRPC or the JSON library costs is their own inline code, the same in each. The files of a
# batch share one unnamed namespace: names in it are told apart. -DLIGHTCONE_UNITY=OFF compiles one by one, which is faster
# while one file changes again and again, and shows an include that a file lacks: `make clang` does.
function(lightcone_in_batches name)
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${LIGHTCONE_UNITY} UNITY_BUILD_BATCH_SIZE 8)
endfunction()

# lightcone_precompile(name [header ...]): what nearly every file of the target includes is compiled once. Files keep their own includes.
function(lightcone_precompile name)
  target_precompile_headers(${name} PRIVATE <algorithm> <atomic> <cmath> <cstdint> <deque> <filesystem> <functional> <map> <memory> <optional>
                            <random> <set> <span> <string> <string_view> <thread> <utility> <variant> <vector> <absl/container/flat_hash_map.h>
                            <absl/status/statusor.h> <absl/synchronization/mutex.h> <absl/time/clock.h> ${ARGN})
endfunction()

# lightcone_test(name SRCS ... DEPS ... [LABELS ...] [TIMEOUT seconds] [COST seconds]): one gtest program, one ctest entry,
# labelled with the name of its folder. What takes long says so by COST and starts first: nothing then runs alone at the end.
function(lightcone_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;COST" "SRCS;DEPS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 1800)
  endif()
  add_executable(${name} ${ARG_SRCS})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} lightcone_options GTest::gmock_main)
  if(CMAKE_BUILD_TYPE STREQUAL Release)
    target_compile_options(${name} PRIVATE -O1)  # the tests' own code: a fifth less to compile, what they test is at -O2
  endif()
  target_compile_definitions(${name} PRIVATE LIGHTCONE_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                             LIGHTCONE_BINARY_DIR="${CMAKE_BINARY_DIR}")
  add_test(NAME ${name} COMMAND ${name})
  get_filename_component(room ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  if(room MATCHES "^(engine|store|index|trace)$")
    add_dependencies(tsan_tests ${name})
  endif()
  # Tests run side by side, a core each: threads of two trainings that wait for each other on two cores take ten times as long.
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${room};${ARG_LABELS}" ENVIRONMENT OMP_NUM_THREADS=1)
  if(ARG_COST)
    set_tests_properties(${name} PROPERTIES COST ${ARG_COST})
  endif()
endfunction()

add_custom_target(fuzzers)
add_custom_target(tsan_tests)

# lightcone_fuzzer(name SRCS ... DEPS ...): a libFuzzer program in bin/fuzz, only with -DLIGHTCONE_FUZZERS=ON and clang.
function(lightcone_fuzzer name)
  if(NOT LIGHTCONE_FUZZERS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SRCS})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} lightcone_options)
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/fuzz)
  add_dependencies(fuzzers ${name})
endfunction()
