#include "model/cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/utf8.h"
#include "compiler/flags.h"
#include "model/cache_key.h"
#include "runtime/model_file.h"

namespace opentrn::model {
namespace fs = std::filesystem;
namespace {

constexpr double kStaleAfterSeconds = 3600;

std::string environment_text(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// "%20" is a space; what is no such escape stays.
std::string unquoted(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_escape =
        text[i] == '%' && i + 2 < text.size() && hex_digit(text[i + 1]) >= 0 && hex_digit(text[i + 2]) >= 0;
    plain += is_escape ? static_cast<char>(hex_digit(text[i + 1]) * 16 + hex_digit(text[i + 2])) : text[i];
    if (is_escape) i += 2;
  }
  return plain;
}

// The scheme of a URL in lower case (RFC 3986), "" for a path.
std::string scheme_of(std::string_view place) {
  const size_t end = place.find(':');
  if (end == std::string_view::npos || end == 0) return "";
  std::string scheme;
  for (const char c : place.substr(0, end)) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool is_other = (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
    if (!is_letter && (scheme.empty() || !is_other)) return "";
    scheme += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return scheme;
}

// The path of file:///a/b and file://host/a/b.
std::string path_of_url(std::string_view url) {
  url.remove_prefix(url.find(':') + 1);
  if (url.starts_with("//")) {
    url.remove_prefix(2);
    const size_t host = std::min(url.find('/'), url.size());
    url.remove_prefix(host);
  }
  return unquoted(url.substr(0, url.find_first_of("?#")));
}

std::optional<struct stat> facts_of(const fs::path& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return std::nullopt;
  return facts;
}

double modified(const struct stat& facts) {
  return static_cast<double>(facts.st_mtim.tv_sec) + 1e-9 * static_cast<double>(facts.st_mtim.tv_nsec);
}

double now() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Files of a folder and, with `depth` 1, of the folders in it. What is gone meanwhile is left out.
std::vector<fs::path> files_of(const fs::path& folder, int depth, std::string_view suffix) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (depth > 0) {
      std::ranges::move(files_of(it->path(), depth - 1, suffix), std::back_inserter(found));
    } else if (it->path().native().ends_with(suffix)) {
      found.push_back(it->path());
    }
  }
  std::ranges::sort(found);
  return found;
}

// The writer of NAME.PID.RANDOM.part (base/new_file.h) still runs, or nobody can say.
bool has_writer(const fs::path& part) {
  std::string name = part.stem().string();  // without .part
  name = name.substr(0, name.rfind('.'));   // without the random part
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos) return true;  // its age decides
  pid_t process = 0;
  const auto [end, error] = std::from_chars(name.data() + dot + 1, name.data() + name.size(), process);
  if (error != std::errc() || end != name.data() + name.size() || process <= 0) return true;
  return ::kill(process, 0) == 0 || errno != ESRCH;
}

[[noreturn]] void refuse_cache(std::string_view what, const fs::path& path, int error) {
  throw Fault(FaultKind::kInput, "cache.folder",
              fmt::format("cannot {} {}: {}", what, printable(path.string()), std::strerror(error)),
              "a folder of yours: OPENTRN_CACHE=FOLDER");
}

// A folder on the way to the cache, or one of its own.
void make_cache_folder(const fs::path& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) == 0) return;
  const int error = errno;
  std::error_code ignored;
  if (error != EEXIST || !fs::is_directory(path, ignored)) refuse_cache("make the folder", path, error);
}

Removed removed(const std::vector<fs::path>& files, const std::function<bool(const struct stat&)>& goes) {
  Removed sum;
  for (const fs::path& path : files) {
    const auto facts = facts_of(path);  // nothing where another process cleared it meanwhile
    if (!facts || !goes(*facts)) continue;
    if (::unlink(path.c_str()) != 0) {
      if (errno == ENOENT) continue;
      refuse_cache("remove", path, errno);
    }
    ++sum.files;
    sum.bytes += facts->st_size;
  }
  return sum;
}

}  // namespace

std::map<std::string, std::string> CacheEntry::facts() const {
  return runtime::load_artifact(path.string()).facts;
}

fs::path Cache::path_of(const std::string& key) const {
  return folder_ / "models" / key.substr(0, 2) / (key + ".neuron");
}

std::string Cache::why_not_trusted(const fs::path& entry) const {
  for (const fs::path& path : {folder_, folder_ / "models", entry.parent_path(), entry}) {
    const auto facts = facts_of(path);
    if (!facts) continue;  // it is not there yet, or cannot be read by us at all
    if (facts->st_uid != geteuid() && facts->st_uid != 0)
      return fmt::format("{} belongs to another user", printable(path.string()));
    if ((facts->st_mode & (S_IWGRP | S_IWOTH)) != 0) {
      const std::string name = printable(path.string());
      return fmt::format("others may write to {} (try: chmod go-w {})", name, name);
    }
  }
  return "";
}

void Cache::make_folder_of(const fs::path& entry) const {
  fs::path above;
  for (const fs::path& part : folder_.parent_path()) {
    above /= part;
    make_cache_folder(above, 0777);
  }
  for (const fs::path& path : {folder_, folder_ / "models", entry.parent_path()})
    make_cache_folder(path, 0755);
}

void Cache::touch(const fs::path& entry) const {
  if (::utimensat(AT_FDCWD, entry.c_str(), nullptr, 0) != 0 && errno != ENOENT)
    refuse_cache("note the use of", entry, errno);
}

namespace {

std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

}  // namespace

CacheLookup Cache::look_up(const std::string& key) const {
  const fs::path entry = path_of(key);
  CacheLookup found;
  if (const std::string why = why_not_trusted(entry); !why.empty())
    return {std::nullopt, false, "the cache is not used: " + why};
  std::error_code ignored;
  if (!fs::exists(entry, ignored)) return found;
  try {
    runtime::Artifact artifact = runtime::load_artifact(entry.string());
    const auto fact = artifact.facts.find(std::string(kCacheKeyFact));
    if (fact == artifact.facts.end() || fact->second != key)
      throw Fault(FaultKind::kInput, "cache.entry",
                  fmt::format("{} is the entry of another model", entry.string()));
    artifact.facts.erase(fact);
    found.hit = std::move(artifact);
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kInput) throw;
    found.notice = first_line(fmt::format("compiled again: {}", fault.what()));
    return found;
  }
  try {
    touch(entry);
  } catch (const Fault& fault) {
    found.notice = first_line(fmt::format("the cache cannot be written: {}", fault.what()));
  }
  return found;
}

std::vector<CacheEntry> Cache::entries() const {
  std::vector<CacheEntry> found;
  for (const fs::path& path : files_of(folder_ / "models", 1, ".neuron"))
    if (const auto facts = facts_of(path))
      found.push_back({path.stem().string(), path, facts->st_size, modified(*facts)});
  std::ranges::stable_sort(found, std::greater{}, &CacheEntry::used);
  return found;
}

std::vector<CachePart> Cache::parts() const {
  std::vector<CachePart> found;
  for (const fs::path& path : files_of(folder_ / "models", 1, ".part"))
    if (const auto facts = facts_of(path))  // nothing where it took its name meanwhile
      found.push_back({path, now() - modified(*facts) > kStaleAfterSeconds || !has_writer(path)});
  return found;
}

Removed Cache::sweep() const {
  std::vector<fs::path> stale;
  for (const CachePart& part : parts())
    if (part.is_stale) stale.push_back(part.path);
  return removed(stale, [](const struct stat&) { return true; });
}

std::vector<fs::path> Cache::layers() const { return files_of(folder_ / "layers", 0, ".tsv"); }

Removed Cache::clear_entries(double since) const {
  return removed(files_of(folder_ / "models", 1, ".neuron"),
                 [&](const struct stat& facts) { return modified(facts) <= since; });
}

Removed Cache::clear_layers(double since) const {
  return removed(layers(), [&](const struct stat& facts) { return modified(facts) <= since; });
}

std::optional<fs::path> stated_cache_folder() {
  if (std::string place = environment_text("OPENTRN_CACHE"); !place.empty()) return place;
  const std::string flag = compiler::cache_dir_of(environment_text("NEURON_CC_FLAGS"));
  const std::string place = flag.empty() ? environment_text("NEURON_COMPILE_CACHE_URL") : flag;
  if (place.empty()) return std::nullopt;
  const std::string scheme = scheme_of(place);
  if (scheme == "file") return path_of_url(place);
  if (!scheme.empty())
    throw Fault(FaultKind::kInput, "cache.url",
                fmt::format("{}={}: OpenTrn keeps compiled models in a folder",
                            flag.empty() ? "NEURON_COMPILE_CACHE_URL" : "--cache_dir", place),
                "a path, or OPENTRN_CACHE=FOLDER, or --no-cache");
  return place;
}

fs::path cache_folder() {
  if (auto stated = stated_cache_folder()) return *stated;
  if (const std::string base = environment_text("XDG_CACHE_HOME"); !base.empty())
    return fs::path(base) / "opentrn";
  const std::string home = environment_text("HOME");
  return fs::path(home.empty() ? "/" : home) / ".cache" / "opentrn";
}

}  // namespace opentrn::model
