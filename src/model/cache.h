// Compiled models that are kept: a folder of .neuron files, each under its key (cache_key.h).
//
// Entries appear by renaming, so several processes may compile into one cache at once; two that compile the
// same model write the same entry. An entry holds its key, and is none of another name's. Who can write to
// the cache can give its users any program, so a folder that others own or may write to is not used; the
// super-user's is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/model_file.h"

namespace opentrn::model {

// The name of the fact of an entry by which it is known whatever its file is called.
inline constexpr std::string_view kCacheKeyFact = "cache_key";
// Of an entry from its first byte on: nobody else may write to it, whatever the umask says.
inline constexpr unsigned kCachePermissions = 0644;

struct CacheEntry {
  std::string key;
  std::filesystem::path path;
  int64_t bytes = 0;
  double used = 0;  // when it was last written or hit, in seconds since the epoch

  // What compile() noted: "source", "target", "options". Input fault for a damaged entry.
  std::map<std::string, std::string> facts() const;
};

// A file that is being written. Stale: its process is gone, or nobody wrote to it for an hour.
struct CachePart {
  std::filesystem::path path;
  bool is_stale = false;
};

struct Removed {
  int64_t files = 0, bytes = 0;
};

// What the cache has of a model: the entry, or why there is none that is used.
struct CacheLookup {
  std::optional<runtime::Artifact>
      hit;                 // its facts are without the key, which is the entry's and not the model's
  bool is_trusted = true;  // else the entry is neither read nor written
  std::string notice;      // a line for the user; "" for nothing
};

class Cache {
 public:
  explicit Cache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  const std::filesystem::path& folder() const { return folder_; }  // need not exist
  // The file of an entry, whether it exists or not.
  std::filesystem::path path_of(const std::string& key) const;
  // Why the file of an entry, which need not exist, is neither read nor written; "" when it is.
  std::string why_not_trusted(const std::filesystem::path& entry) const;
  // The folders of an entry, where they are missing: nobody else's to write to. Input fault `cache.folder`.
  void make_folder_of(const std::filesystem::path& entry) const;
  // Notes that the entry was used, unless another process cleared it meanwhile. Input fault `cache.folder`.
  void touch(const std::filesystem::path& entry) const;
  // Reads the entry and notes that it was used. One that is damaged, of another model, or whose weights are
  // gone is not the user's fault: the model is compiled again, and the notice says why.
  CacheLookup look_up(const std::string& key) const;
  std::vector<CacheEntry> entries() const;  // most recently used first
  std::vector<CachePart> parts() const;
  // Removes what interrupted writers left.
  Removed sweep() const;
  // Files of the times of layers that `opentrn plan` has compiled, one for each build and generation.
  std::vector<std::filesystem::path> layers() const;
  // Removes what nobody has used since, in seconds since the epoch. Models that are open stay usable.
  // Input fault `cache.folder` for one that cannot be removed.
  Removed clear_entries(double since) const;
  Removed clear_layers(double since) const;

 private:
  std::filesystem::path folder_;
};

// What the environment names as the folder: $OPENTRN_CACHE; else, as AWS's compiler has them, --cache_dir of
// $NEURON_CC_FLAGS and $NEURON_COMPILE_CACHE_URL (a path or file://). Input fault `cache.url` for another
// scheme.
std::optional<std::filesystem::path> stated_cache_folder();
// The same; else $XDG_CACHE_HOME/opentrn or ~/.cache/opentrn.
std::filesystem::path cache_folder();

}  // namespace opentrn::model
