#include "base/fault.h"

#include <gtest/gtest.h>

namespace opentrn {
namespace {

TEST(Fault, SaysWhoseFaultWhatWhereAndWhatToTry) {
  Fault fault(FaultKind::kProgram, "nc_matmul.C3",
              "moving tile has 640 columns; NeuronCore-v3 takes at most 512",
              "split x into tiles of nl.tile_size.gemm_moving_fmax columns");
  fault.set_location({"attention.py", 41, "kernel"});
  fault.add_note("x: bfloat16[128, 640] in SBUF");
  EXPECT_STREQ(fault.what(),
               "program error [nc_matmul.C3]: moving tile has 640 columns; NeuronCore-v3 takes at most 512\n"
               "    at attention.py:41 in kernel\n"
               "    x: bfloat16[128, 640] in SBUF\n"
               "    try: split x into tiles of nl.tile_size.gemm_moving_fmax columns");
}

TEST(Fault, ZeroBytesOfWhatIsQuotedDoNotEndTheMessage) {
  Fault fault(FaultKind::kInput, "file", std::string("name \0 of", 9));
  fault.add_note(std::string("in \0x", 5));
  EXPECT_STREQ(fault.what(), "input error [file]: name \\x00 of\n    in \\x00x");
}

TEST(Fault, TheFirstKnownLocationWins) {
  Fault fault(FaultKind::kInput, "", "bad");
  fault.set_location({});
  fault.set_location({"a.py", 3, ""});
  fault.set_location({"b.py", 9, ""});
  EXPECT_EQ(fault.location().file, "a.py");
}

TEST(Fault, CheckThrowsInternal) {
  try {
    OPENTRN_CHECK(1 == 2, "values {} and {}", 1, 2);
    FAIL() << "OPENTRN_CHECK did not throw";
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind(), FaultKind::kInternal);
    EXPECT_NE(fault.message().find("values 1 and 2"), std::string::npos);
  }
}

}  // namespace
}  // namespace opentrn
