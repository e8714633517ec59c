// protozero's reader, which throws where a field is of another wire type than it is read as.
//
// protozero leaves that to its users and only asserts it, which a release build does not: the bytes would be
// taken for something else. Include this in place of <protozero/pbf_reader.hpp>.
#pragma once

#include <cassert>

#include <protozero/exception.hpp>

#ifdef protozero_assert
#error "another protozero header comes first"
#endif
#define protozero_assert(condition)                                       \
  do {                                                                    \
    if (!(condition)) throw protozero::unknown_pbf_wire_type_exception{}; \
  } while (false)
#include <protozero/pbf_reader.hpp>
// What writers assert is their callers' affair.
#undef protozero_assert
#define protozero_assert(condition) assert(condition)
