// Tests that a file's format is found by its content.
#include "import/load.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "base/temporary_folder_for_test.h"
#include "import/testdata/programs.h"

namespace opentrn::import {
namespace {

Format sniffed(std::string_view text) { return sniff(std::as_bytes(std::span(text)), "model"); }

TEST(Load, FormatsAreKnownByTheirFirstBytes) {
  for (const testdata::Program& program : testdata::kPrograms) {
    EXPECT_EQ(sniff(program.bytes(), "model"),
              program.version == "hlo" ? Format::kHloProto : Format::kVhloBytecode);
    EXPECT_EQ(sniffed(program.text), Format::kStablehloText);
  }
  EXPECT_EQ(sniffed("// a comment\n#loc = loc(unknown)\nmodule {}"), Format::kStablehloText);
  EXPECT_EQ(sniffed("\n\"builtin.module\"() ({}) : () -> ()"), Format::kStablehloText);
  EXPECT_EQ(sniffed(std::string_view("\x08\x09", 2)), Format::kOnnx);  // ir_version 9
  EXPECT_THROW(sniffed(std::string_view("\x7F"
                                        "ELF\0\0",
                                        6)),
               Fault);
  EXPECT_THROW(sniffed(""), Fault);
}

TEST(Load, FilesOfEveryFormat) {
  const TemporaryFolderForTest folder;
  const auto path = folder.path() / "program.model";
  for (const testdata::Program& program : testdata::kPrograms) {
    const std::vector<std::byte> bytes = program.bytes();
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    EXPECT_FALSE(load_file(path.string()).entry().arguments().empty()) << program.name;
  }
  std::filesystem::remove(path);
  EXPECT_THROW((void)load_file(path.string()), Fault);
  EXPECT_THROW((void)load_file(path.parent_path().string()), Fault);  // a folder
}

}  // namespace
}  // namespace opentrn::import
