// opentrn._core: the cache of compiled models (model/cache.h), which opentrn/model/cache.py makes of the
// environment.
#include <nanobind/nanobind.h>

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/sha256.h"
#include "model/cache.h"
#include "model/cache_key.h"
#include "python/model_bindings.h"
#include "python/unlocked.h"

namespace opentrn::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using Files = std::vector<std::shared_ptr<runtime::Attachment>>;
using Path = std::filesystem::path;

std::string cache_key(const std::optional<std::string>& text, const Path& path, const std::string& options,
                      const std::string& compiler, const Files& files) {
  const Unlocked unlocked;
  return model::cache_key(
      {.compiler = compiler, .options = options, .text = text, .path = path, .parts = files});
}

std::pair<int64_t, int64_t> pair_of(const model::Removed& removed) { return {removed.files, removed.bytes}; }

}  // namespace

void bind_cache(nb::module_& module) {
  using model::Cache, model::CacheEntry;
  nb::class_<CacheEntry>(
      module, "CacheEntry",
      "A compiled model of the cache; `used`: when it was last written or hit, in seconds since "
      "the epoch.")
      .def_ro("key", &CacheEntry::key)
      .def_ro("path", &CacheEntry::path)
      .def_ro("bytes", &CacheEntry::bytes)
      .def_ro("used", &CacheEntry::used)
      .def_prop_ro(
          "facts", &CacheEntry::facts,
          "What compile() noted: \"source\", \"target\", \"options\". Raises InputError for a damaged "
          "entry.");
  nb::class_<Cache>(module, "Cache", "The cache of compiled models in a folder, which need not exist.")
      .def(nb::init<Path>(), "folder"_a)
      .def_prop_ro("folder", &Cache::folder)
      .def("path_of", &Cache::path_of, "key"_a, "The file of an entry, whether it exists or not.")
      .def("why_not_trusted", &Cache::why_not_trusted, "entry"_a,
           "Why the file of an entry, which need not exist, is neither read nor written; \"\" when it is.")
      .def("make_folder_of", &Cache::make_folder_of, "entry"_a,
           "The folders of an entry, where they are missing. Raises InputError `cache.folder`.")
      .def("touch", &Cache::touch, "entry"_a,
           "Notes that the entry was used, unless it is gone. Raises InputError `cache.folder`.")
      .def("entries", &Cache::entries, "What the cache holds, most recently used first.")
      .def(
          "leftover",
          [](const Cache& self) {
            std::vector<Path> stale;
            for (const model::CachePart& part : self.parts())
              if (part.is_stale) stale.push_back(part.path);
            return stale;
          },
          "Files that interrupted writers left.")
      .def(
          "sweep", [](const Cache& self) { return pair_of(self.sweep()); },
          "Removes what interrupted writers left; (how many, bytes).")
      .def(
          "clear", [](const Cache& self, double since) { return pair_of(self.clear_entries(since)); },
          "since"_a,
          "Removes entries that nobody has used since, in seconds since the epoch; (how many, bytes).")
      .def(
          "clear_layers", [](const Cache& self, double since) { return pair_of(self.clear_layers(since)); },
          "since"_a,
          "Removes the times of layers of `opentrn plan` that nobody has written since; as clear().");
  module.attr("CACHE_KEY_FACT") = nb::str(model::kCacheKeyFact.data(), model::kCacheKeyFact.size());
  module.attr("CACHE_PERMISSIONS") = model::kCachePermissions;
  module.def(
      "cache_folder", &model::cache_folder,
      "Where the environment has compiled models kept. Raises InputError `cache.url` for another scheme.");
  module.def("stated_cache_folder", &model::stated_cache_folder,
             "The folder that the environment names, or None. Raises InputError as cache_folder().");
  module.def(
      "cache_key", &cache_key, "text"_a.none(), "path"_a, "options"_a, "compiler"_a, "files"_a,
      "The key of a model's text, of the file at `path`, or of an ONNX model's `files`; `options` is a JSON "
      "object, `compiler` the digest of what compiles. Raises InputError.");
  module.def(
      "digest_of_files",
      [](const Files& files) {
        const Unlocked unlocked;
        return model::digest_of(files);
      },
      "files"_a, "SHA-256 of an ONNX model with the parts of files that its weights are.");
  module.def(
      "sha256_of_file",
      [](const Path& path) {
        const Unlocked unlocked;
        return sha256_of_file(path, "file");
      },
      "path"_a, "In hexadecimal. Raises InputError for a file that cannot be read.");
}

}  // namespace opentrn::python
