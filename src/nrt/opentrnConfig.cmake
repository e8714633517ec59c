# find_package(opentrn): the target opentrn::nrt, libnrt.so with its headers, relative to where this file lies
# (PREFIX/lib/cmake/opentrn).
get_filename_component(_opentrn_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(_opentrn_library "${_opentrn_prefix}/lib/libnrt.so.1")
if(NOT EXISTS "${_opentrn_library}")
  set(opentrn_FOUND FALSE)
  set(opentrn_NOT_FOUND_MESSAGE "${_opentrn_library} is not there: run `opentrn neuron-tools install --prefix DIR`")
  return()
endif()
if(NOT TARGET opentrn::nrt)
  add_library(opentrn::nrt SHARED IMPORTED)
  set_target_properties(opentrn::nrt PROPERTIES
    IMPORTED_LOCATION "${_opentrn_library}"
    IMPORTED_SONAME libnrt.so.1
    INTERFACE_INCLUDE_DIRECTORIES "${_opentrn_prefix}/include")
endif()
