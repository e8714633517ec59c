// Folders of `neuron-explorer inspect`: one of each process that executed programs (runtime/inspect.h), with
// its events, its use of the host, and a trace of each model.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace opentrn::monitor {

// What of the folders is read; empty sets: all.
struct SessionFilters {
  std::set<int64_t> cores;                 // logical ones
  std::set<std::string> types, instances;  // names of events; ids of instances
  bool without_system = false;             // the events
  bool without_device = false;             // the traces of models
};

// "0,1" as numbers of cores. Input fault "tools.explorer".
std::set<int64_t> session_cores(const std::string& text);

// By what rows of the system profile are grouped: "instance_id,process_id". Input fault "tools.explorer" that
// names `option`.
std::vector<std::string> session_groups(const std::string& text, const std::string& option);

// The folders in a folder, or this one alone, that inspect wrote, in the order of their names.
std::vector<std::filesystem::path> session_folders(const std::filesystem::path& folder);

class Session {
 public:
  // Input fault "tools.explorer" for a folder without a profile, and for damaged files.
  Session(const std::filesystem::path& folder, SessionFilters filters);

  // Rows of the table SystemProfileEvents: times in ns of this host's clock.
  const nlohmann::ordered_json& system_rows() const { return rows_; }
  // The list `key` of a file that processes may have, each row with its process. Faults as above.
  nlohmann::ordered_json host_rows(const std::string& file, const std::string& key) const;
  // Traces by "NUMBER_core_NUMBER"; one that several processes have stands once.
  const std::vector<std::pair<std::string, std::filesystem::path>>& models() const { return models_; }
  // What summary-json prints; `version`: of OpenTrn.
  nlohmann::ordered_json summary(const std::string& version) const;
  // Chrome's JSON: a process for each group of `primary`, a row for each of `secondary` in it.
  nlohmann::ordered_json perfetto(const std::vector<std::string>& primary,
                                  const std::vector<std::string>& secondary) const;

 private:
  struct Process {
    std::filesystem::path folder;
    std::string instance;
    int64_t pid = 0;
  };
  void add_events(const Process& process);
  void add_models(const Process& process);

  SessionFilters filters_;
  std::vector<Process> processes_;
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
  std::vector<std::pair<std::string, std::filesystem::path>> models_;
};

// `name` and `value` in lines, then those of each model.
std::string session_summary_text(const nlohmann::ordered_json& summary);

}  // namespace opentrn::monitor
