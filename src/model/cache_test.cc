#include "model/cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"
#include "base/temporary_folder_for_test.h"
#include "compiler/compile.h"
#include "graph/text/text.h"
#include "model/cache_key.h"
#include "model/runtime_model.h"

namespace opentrn::model {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

const std::string kKey(64, 'a');

void write_file(const fs::path& path, std::string_view bytes, double modified) {
  std::ofstream(path) << bytes;
  const auto seconds = static_cast<time_t>(modified);
  const timespec times[2] = {{seconds, 0}, {seconds, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

class CacheOfModels : public testing::Test {
 protected:
  fs::path entry_of(const std::string& key, std::string_view bytes, double modified) {
    const fs::path path = cache_.path_of(key);
    cache_.make_folder_of(path);
    write_file(path, bytes, modified);
    return path;
  }

  TemporaryFolderForTest folder_;
  Cache cache_{folder_.path() / "new" / "cache"};
};

TEST_F(CacheOfModels, IsEmptyWhereThereIsNone) {
  EXPECT_TRUE(cache_.entries().empty());
  EXPECT_TRUE(cache_.layers().empty());
  EXPECT_EQ(cache_.clear_entries(1e12).files, 0);
  EXPECT_EQ(cache_.sweep().files, 0);
}

TEST_F(CacheOfModels, AnEntryThatIsNoModelIsCompiledAgain) {
  const CacheLookup missing = cache_.look_up(kKey);
  EXPECT_FALSE(missing.hit);
  EXPECT_TRUE(missing.is_trusted);
  EXPECT_EQ(missing.notice, "");
  entry_of(kKey, "no model", 1000);
  const CacheLookup damaged = cache_.look_up(kKey);
  EXPECT_FALSE(damaged.hit);
  EXPECT_TRUE(damaged.is_trusted);
  EXPECT_THAT(damaged.notice, HasSubstr("compiled again: "));
}

TEST_F(CacheOfModels, AnEntryIsAHitUnderItsOwnNameAlone) {
  const std::string other(64, 'b');
  constexpr const char* kText =
      "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %y = stablehlo.add %x, %x : tensor<4xf32>\n"
      "  return %y : tensor<4xf32>\n}";
  const compiler::Options options;
  runtime::Artifact artifact;
  artifact.buckets.push_back(
      {{}, model_of(compiler::compile(graph::parse_module(kText, "test"), options), options.generation)});
  artifact.facts = {{std::string(kCacheKeyFact), kKey}, {"source", "m"}};
  for (const std::string& name : {kKey, other}) {
    cache_.make_folder_of(cache_.path_of(name));
    runtime::save(artifact, cache_.path_of(name).string(), runtime::Weights::kReferenced, kCachePermissions);
  }
  const CacheLookup hit = cache_.look_up(kKey);
  ASSERT_TRUE(hit.hit) << hit.notice;
  EXPECT_EQ(hit.hit->facts, (std::map<std::string, std::string>{{"source", "m"}}));
  const CacheLookup strange = cache_.look_up(other);
  EXPECT_FALSE(strange.hit);
  EXPECT_THAT(strange.notice, HasSubstr("is the entry of another model"));
}

TEST_F(CacheOfModels, AFolderThatOthersMayWriteToIsNotUsed) {
  entry_of(kKey, "no model", 1000);
  fs::permissions(cache_.folder(), fs::perms::others_write, fs::perm_options::add);
  const CacheLookup found = cache_.look_up(kKey);
  EXPECT_FALSE(found.is_trusted);
  EXPECT_THAT(found.notice, HasSubstr("the cache is not used: "));
}

TEST_F(CacheOfModels, ListsByUseAndClearsWhatIsOld) {
  entry_of(kKey, "old", 1000);
  const std::string other(64, 'b');
  const fs::path recent = entry_of(other, "recent", 2000);
  ASSERT_EQ(cache_.entries().size(), 2);
  EXPECT_EQ(cache_.entries()[0].key, other);
  EXPECT_EQ(cache_.entries()[1].bytes, 3);
  EXPECT_EQ(cache_.entries()[1].used, 1000);
  EXPECT_EQ(cache_.clear_entries(1500).bytes, 3);
  ASSERT_EQ(cache_.entries().size(), 1);
  cache_.touch(recent);
  EXPECT_GT(cache_.entries()[0].used, 1e9);
  cache_.touch(cache_.path_of(kKey));  // gone: nothing to note
}

TEST_F(CacheOfModels, SweepsWhatNobodyWrites) {
  const fs::path entry = entry_of(kKey, "entry", 1000);
  const auto part_of = [&](const std::string& process) {
    return fs::path(entry) += "." + process + ".0123.part";
  };
  const double now = static_cast<double>(time(nullptr));
  write_file(part_of(std::to_string(getpid())), "mine", now);
  write_file(part_of("nobody"), "unknown", now);
  write_file(part_of("2147483646"), "gone", now);  // above what Linux gives to a process
  write_file(part_of("1"), "idle", 1000);
  EXPECT_EQ(cache_.parts().size(), 4);
  const Removed swept = cache_.sweep();
  EXPECT_EQ(swept.files, 2);
  EXPECT_EQ(swept.bytes, 8);
  EXPECT_TRUE(fs::exists(part_of(std::to_string(getpid()))));
  EXPECT_TRUE(fs::exists(part_of("nobody")));
}

TEST_F(CacheOfModels, WhatOthersMayWriteToIsNotTrusted) {
  const fs::path entry = entry_of(kKey, "entry", 1000);
  EXPECT_EQ(cache_.why_not_trusted(entry), "");
  ASSERT_EQ(chmod((cache_.folder() / "models").c_str(), 0775), 0);
  EXPECT_THAT(cache_.why_not_trusted(entry), HasSubstr("others may write to"));
}

TEST_F(CacheOfModels, AFileInTheWayIsRefused) {
  std::ofstream(folder_.path() / "new") << "a file";
  try {
    cache_.make_folder_of(cache_.path_of(kKey));
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.label(), "cache.folder");
  }
}

TEST(CacheKey, IsThatOfTheFirstVersion) {
  const std::string compiler(64, '0');
  EXPECT_EQ(
      cache_key({.compiler = compiler, .options = R"({"b": [1.5, true, null], "a": {}})", .text = "text\n"}),
      "5cd02548065dfe04bc7a23978a6b1ba512cd174814cc843618ba8e87ec38f4b7");
  EXPECT_NE(cache_key({.compiler = compiler, .options = "{}", .text = "text\n"}),
            cache_key({.compiler = compiler, .options = "{}", .text = "text \n"}));
  EXPECT_THROW(cache_key({.compiler = compiler, .options = "{", .text = "text\n"}), Fault);
}

class FolderOfTheCache : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"OPENTRN_CACHE", "NEURON_CC_FLAGS", "NEURON_COMPILE_CACHE_URL", "XDG_CACHE_HOME"})
      unsetenv(name);
  }
};

TEST_F(FolderOfTheCache, IsTheFirstThatTheEnvironmentNames) {
  setenv("XDG_CACHE_HOME", "x", 1);
  EXPECT_EQ(stated_cache_folder(), std::nullopt);
  EXPECT_EQ(cache_folder(), "x/opentrn");
  setenv("NEURON_COMPILE_CACHE_URL", "FILE://host/b/c%20d%zz?e", 1);
  EXPECT_EQ(cache_folder(), "/b/c d%zz");
  setenv("NEURON_CC_FLAGS", "-O1 --cache_dir 'a b'", 1);
  EXPECT_EQ(cache_folder(), "a b");
  setenv("OPENTRN_CACHE", "first", 1);
  EXPECT_EQ(cache_folder(), "first");
}

TEST_F(FolderOfTheCache, IsNoBucket) {
  setenv("NEURON_COMPILE_CACHE_URL", "s3://bucket/cache", 1);
  EXPECT_THROW(cache_folder(), Fault);
}

}  // namespace
}  // namespace opentrn::model
