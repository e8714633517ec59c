# The layers of src/, in order, and what each may use. opentrn_library() refuses any other
# dependency at configure time; tools/check_layers.py holds the #include lines to the same table.
#
#   layer             may use
set(OPENTRN_LAYERS
  "base:"
  "numerics:base"
  "arch:base"
  "device:base"
  "fabric:base,arch"
  "serving:base"
  "collectives:base,numerics,arch,fabric"
  "mpi:base,numerics,collectives"
  "traffic:base,arch,fabric,collectives"
  "planner:base,numerics,arch,fabric,collectives"
  "graph:base,numerics"
  "import:base,numerics,arch,graph"
  "isa:base,numerics,arch"
  "sim/functional:base,numerics,arch,isa"
  "trace:base,isa"
  "cost:base,arch,isa,trace"
  "backend:base,arch,isa,cost"
  "sim/timing:base,arch,isa,trace,cost,backend"
  "sim/ranks:base,arch,fabric,collectives,traffic,isa,trace,backend,sim/timing"
  "profile:arch,isa,trace"
  "compiler/analysis:base,numerics,graph,isa"
  "spmd:base,arch,graph,compiler/analysis"
  "compiler/rewrite:graph,compiler/analysis"
  "compiler/lowering:base,numerics,arch,graph,isa,cost,backend,compiler/analysis"
  "compiler/canonicalise:base,numerics,graph,compiler/analysis,compiler/rewrite,compiler/lowering"
  "compiler/weights:base,numerics,graph,compiler/analysis,compiler/rewrite"
  "compiler/recognise:base,graph,compiler/analysis,compiler/lowering"
  "compiler/expand:base,graph,compiler/analysis,compiler/rewrite,compiler/lowering"
  "compiler:base,numerics,arch,graph,isa,backend,sim/timing,compiler/analysis,compiler/lowering,compiler/canonicalise,compiler/weights,compiler/recognise,compiler/expand"
  "runtime:base,device,arch,graph,isa,sim/functional,sim/timing,backend,trace,profile"
  "model:base,arch,graph,import,isa,compiler/analysis,compiler,sim/functional,runtime"
  "spmd/run:base,device,arch,fabric,collectives,traffic,spmd,graph,isa,trace,compiler/analysis,compiler/canonicalise,compiler,runtime,model"
  "monitor:base,device,arch,fabric"
  "nrt:base,device,arch,fabric,graph,profile,sim/functional,runtime,model,monitor"
  "planner/compiled:base,arch,planner,spmd,graph,compiler,runtime,model"
  "planner/program:base,arch,planner,graph,compiler/analysis,compiler/canonicalise,compiler,spmd,spmd/run,runtime"
  "decoder:base,numerics,arch,fabric,collectives,graph,import,compiler/analysis,compiler/weights,compiler,sim/functional,runtime,model"
  "server:base,arch,serving,decoder,runtime"
  "server/api:base,serving"
  "nki:base,numerics,isa,sim/functional"
  "nki/strict:base"
  "nki/ranks:base,numerics,arch,collectives,mpi,isa,nki"
  "pjrt:base,device,arch,traffic,spmd,spmd/run,graph,import,compiler/canonicalise,compiler,isa,sim/functional,trace,runtime"
  "cli:base,device,numerics,arch,fabric,serving,collectives,mpi,traffic,planner,planner/compiled,planner/program,monitor,graph,import,compiler"
  "python:base,numerics,arch,fabric,collectives,traffic,sim/ranks,graph,import,isa,trace,sim/functional,sim/timing,backend,compiler/analysis,compiler,profile,runtime,model,spmd,spmd/run,decoder,serving,server,server/api,nki,nki/strict,nki/ranks,device,monitor,cli"
  "torch:runtime"
)

# Layers in which no time of a run is spent: they read files, print, or work once for a whole model. See
# opentrn_compile_quickly().
set(OPENTRN_QUICKLY
  arch runtime device mpi traffic import spmd profile model monitor nrt decoder server server/api nki/strict cli planner planner/compiled planner/program
  compiler/canonicalise compiler/recognise compiler/expand)

function(opentrn_target_of LAYER OUT)
  string(REPLACE "/" "_" flat ${LAYER})
  set(${OUT} opentrn_${flat} PARENT_SCOPE)
endfunction()

function(_opentrn_allowed LAYER OUT)
  foreach(row IN LISTS OPENTRN_LAYERS)
    if(row MATCHES "^${LAYER}:(.*)$")
      string(REPLACE "," ";" allowed "${CMAKE_MATCH_1}")
      set(${OUT} "${allowed}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "layer '${LAYER}' is not in cmake/layers.cmake")
endfunction()

# About half of the compiler's time goes into headers, so the sources of a target are compiled in batches (CMake's unity
# build): eight of src/graph/eval take 14 s in place of 31, and 24 at once four fifths of three times eight. ALONE names
# the files that a batch cannot hold, because a name of their anonymous namespace stands in another file of the folder
# too ("redefinition of ..."). With -DOPENTRN_BATCH=1000 all of them show, so that no batch depends on how many files
# come before it. Tests whose examples have one name stand in a namespace for each file. Each file must still compile
# alone: the presets debug, asan-ubsan and tsan build so, and -DOPENTRN_UNITY=OFF does.
function(opentrn_batches TARGET)
  cmake_parse_arguments(ARG "" "SIZE" "ALONE" ${ARGN})
  if(NOT ARG_SIZE)
    set(ARG_SIZE ${OPENTRN_BATCH})
  endif()
  set_target_properties(${TARGET} PROPERTIES
    UNITY_BUILD ${OPENTRN_UNITY} UNITY_BUILD_BATCH_SIZE ${ARG_SIZE}
    UNITY_BUILD_RELOCATABLE ON)  # from CMake 4.0: the same batch in two checkouts is the same to ccache
  # In a batch every file counts as included, and a class of the file's own with a member of its anonymous namespace as
  # one that other files see too.
  target_compile_options(${TARGET} PRIVATE $<$<AND:$<BOOL:${OPENTRN_UNITY}>,$<CXX_COMPILER_ID:GNU>>:-Wno-subobject-linkage>)
  if(ARG_ALONE)
    get_target_property(sources ${TARGET} SOURCES)
    foreach(file IN LISTS ARG_ALONE)
      if(NOT file IN_LIST sources)
        message(FATAL_ERROR "${TARGET}: ALONE names '${file}', which is none of its sources")
      endif()
    endforeach()
    set_source_files_properties(${ARG_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# GCC stops to inline where a file has grown by two fifths, so that a loop of a batch may be another
# one than that of the file alone. Without that limit functions are inlined by their own sizes.
function(opentrn_inline_as_alone TARGET)
  target_compile_options(${TARGET} PRIVATE $<$<CXX_COMPILER_ID:GNU>:--param=large-unit-insns=10000000>)
endfunction()

# Code that runs for an instant is compiled for less long: -O1 in place of -O3 takes a quarter to a third off the
# compiler's time.
function(opentrn_compile_quickly TARGET)
  target_compile_options(${TARGET} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# opentrn_library(<layer> SOURCES a.cc b.cc ALONE b.cc LAYERS base isa LIBS fmt::fmt)
# PART name: a library of its own, opentrn_<layer>_<name>, of what a build may leave out of the layer.
function(opentrn_library LAYER)
  cmake_parse_arguments(ARG "" "PART" "SOURCES;ALONE;LAYERS;LIBS;PRIVATE_LIBS" ${ARGN})
  _opentrn_allowed(${LAYER} allowed)
  opentrn_target_of(${LAYER} target)
  if(ARG_PART)
    string(APPEND target _${ARG_PART})
  endif()
  add_library(${target} STATIC ${ARG_SOURCES})
  opentrn_batches(${target} ALONE ${ARG_ALONE})
  if(LAYER IN_LIST OPENTRN_QUICKLY)
    opentrn_compile_quickly(${target})
  endif()
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  foreach(dep IN LISTS ARG_LAYERS)
    if(NOT dep IN_LIST allowed)
      message(FATAL_ERROR "layer '${LAYER}' may not use '${dep}'; it may use: ${allowed}")
    endif()
    opentrn_target_of(${dep} dep_target)
    target_link_libraries(${target} PUBLIC ${dep_target})
  endforeach()
  target_link_libraries(${target} PUBLIC ${ARG_LIBS} PRIVATE ${ARG_PRIVATE_LIBS})
endfunction()

# opentrn_test(<layer> SOURCES a_test.cc b_test.cc ALONE b_test.cc): one GoogleTest program per layer, found test by test.
function(opentrn_test LAYER)
  if(NOT OPENTRN_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;ALONE;LIBS" ${ARGN})
  opentrn_target_of(${LAYER} target)
  find_package(GTest REQUIRED)
  add_executable(${target}_test ${ARG_SOURCES})
  opentrn_batches(${target}_test ALONE ${ARG_ALONE})
  target_link_libraries(${target}_test PRIVATE ${target} ${ARG_LIBS} GTest::gtest_main GTest::gmock)
  opentrn_compile_quickly(${target}_test)
  include(GoogleTest)
  gtest_discover_tests(${target}_test DISCOVERY_TIMEOUT 120 TEST_PREFIX "${LAYER}/")
endfunction()

function(opentrn_add_layers)
  foreach(row IN LISTS OPENTRN_LAYERS)
    string(REGEX REPLACE ":.*" "" layer "${row}")
    # -DOPENTRN_ONLY="base;arch" builds those layers alone.
    if(OPENTRN_ONLY AND NOT layer IN_LIST OPENTRN_ONLY)
      continue()
    endif()
    if(EXISTS ${CMAKE_SOURCE_DIR}/src/${layer}/CMakeLists.txt)
      add_subdirectory(src/${layer})
    endif()
  endforeach()
endfunction()
