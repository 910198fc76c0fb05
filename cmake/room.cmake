# exo_room(name USES lower-rooms LIBRARIES packages): one folder of src/, one library, one include root.
#
# A room finds only the headers of the rooms it uses, and rooms are added bottom-up, so a wrong include does not
# compile and a cycle stops CMake. Files are sorted by their suffix: *_test.cc make the room's test program,
# *_avx2.cc and the like are compiled for that instruction set, the rest is the library.
set(EXO_ISA_FLAGS_avx2 -mavx2 -mfma -mf16c)
set(EXO_ISA_FLAGS_avx512
    -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mprefer-vector-width=512)
set(EXO_ISA_FLAGS_avx512bf16 ${EXO_ISA_FLAGS_avx512} -mavx512bf16)

function(exo_room name)
  cmake_parse_arguments(ROOM "" "" "USES;LIBRARIES" ${ARGN})
  foreach(room IN LISTS ROOM_USES)
    if(NOT TARGET exo_${room})
      message(FATAL_ERROR "${name} may not use ${room}: it is not below it")
    endif()
  endforeach()

  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cc)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "(_test|_bench|_fuzz)\\.cc$")
  list(FILTER sources EXCLUDE REGEX "/main\\.cc$")
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(FILTER sources EXCLUDE REGEX "_(avx2|avx512|avx512bf16)\\.cc$")
  endif()

  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/rooms/${name})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_BINARY_DIR}/rooms/${name}/${name} SYMBOLIC)
  if(sources)
    set(scope PUBLIC)
    add_library(exo_${name} STATIC ${sources})
    target_link_libraries(exo_${name} PRIVATE exo_options)
    target_precompile_headers(exo_${name} REUSE_FROM exo_precompiled)
  else()
    set(scope INTERFACE)
    add_library(exo_${name} INTERFACE)
  endif()
  target_include_directories(exo_${name} ${scope} ${CMAKE_BINARY_DIR}/rooms/${name})
  list(TRANSFORM ROOM_USES PREPEND exo_)
  target_link_libraries(exo_${name} ${scope} ${ROOM_USES} ${ROOM_LIBRARIES})

  foreach(isa avx2 avx512 avx512bf16)
    set(variants ${sources})
    list(FILTER variants INCLUDE REGEX "_${isa}\\.cc$")
    if(variants)
      set_source_files_properties(${variants} PROPERTIES
        COMPILE_OPTIONS "${EXO_ISA_FLAGS_${isa}}" SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()

  if(EXO_BUILD_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_precompile_headers(${name}_test REUSE_FROM exo_precompiled)
    target_link_libraries(${name}_test PRIVATE exo_${name} exo_options GTest::gmock GTest::gtest_main)
    target_compile_definitions(${name}_test PRIVATE EXO_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    add_test(NAME ${name} COMMAND ${name}_test)
  endif()
endfunction()
