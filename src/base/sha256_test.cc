#include "base/sha256.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"
#include "base/temporary_folder_for_test.h"

namespace opentrn {
namespace {

// Two of the examples of FIPS 180-4's "Secure Hash Standard", and the digest of no bytes.
TEST(Sha256, IsTheStandards) {
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(Sha256, PiecesAreTheWhole) {
  Sha256 digest;
  digest.add("ab");
  digest.add("");
  digest.add("c");
  EXPECT_EQ(digest.hex(), sha256_of("abc"));
}

TEST(Sha256, OfAFile) {
  const TemporaryFolderForTest folder;
  const std::string bytes((size_t{3} << 20) + 7, '\xff');
  std::ofstream(folder.path() / "file") << bytes;
  EXPECT_EQ(sha256_of_file(folder.path() / "file", "file"), sha256_of(bytes));
  EXPECT_THROW(sha256_of_file(folder.path(), "file"), Fault);
  EXPECT_THROW(sha256_of_file(folder.path() / "none", "file"), Fault);
}

}  // namespace
}  // namespace opentrn
