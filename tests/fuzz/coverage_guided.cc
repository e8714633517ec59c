// libFuzzer's entry points: `./dev fuzz --coverage-guided` builds one program for each body of bodies.h, with
// OPENTRN_FUZZ_TARGET as its name, and gives each files to begin with (opentrn_fuzz --corpus).
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "tests/fuzz/bodies.h"
#include "tests/fuzz/watchdog.h"

#define OPENTRN_FUZZ_JOINED(name) name##_bytes
#define OPENTRN_FUZZ_BODY(name) OPENTRN_FUZZ_JOINED(name)

// Of processor time. libFuzzer's own -timeout is of wall time, which runs out on a busy machine;
// coverage_fuzz.py sets it far behind.
constexpr double kFileSeconds = 20;

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  std::signal(SIGPROF, [](int) { std::abort(); });  // which libFuzzer reports, with the file
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  opentrn::fuzz::watch_processor(kFileSeconds);
  try {
    opentrn::fuzz::OPENTRN_FUZZ_BODY(OPENTRN_FUZZ_TARGET)({reinterpret_cast<const std::byte*>(data), size});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fuzz: FAILED: %s\n", error.what());
    std::abort();
  }
  opentrn::fuzz::watch_processor(0);
  return 0;
}
