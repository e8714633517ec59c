#include "compiler/flags.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/fault.h"
#include "compiler/options.h"

namespace opentrn::compiler {

namespace {

enum class Meaning {
  kOption,      // of the compiler here
  kSwitch,      // the same without a value
  kTarget,      // must be the platform's
  kInteger64,   // "enabled" is not modelled
  kNoEffect,    // a value, and nothing to do
  kNoEffectOn,  // the same without a value
};

struct Flag {
  std::string_view name;
  Meaning meaning;
};

// Beside the options of the compiler here (option_rows()).
// [doc: compiler/neuronx-cc/api-reference-guide; the last group is seen in NEURON_CC_FLAGS of public scripts]
constexpr Flag kFlags[] = {
    {"target", Meaning::kTarget},
    {"native-int64", Meaning::kInteger64},
    {"framework", Meaning::kNoEffect},
    {"model-type", Meaning::kNoEffect},
    {"distribution-strategy", Meaning::kNoEffect},
    {"implicit-integer-downcast", Meaning::kNoEffect},  // integers are exact
    {"logical-nc-config", Meaning::kNoEffect},          // NEURON_LOGICAL_NC_CONFIG
    {"lnc", Meaning::kNoEffect},
    {"output", Meaning::kNoEffect},
    {"logfile", Meaning::kNoEffect},
    {"verbose", Meaning::kNoEffect},
    {"enable-mixed-precision-accumulation", Meaning::kNoEffectOn},   // always so
    {"disable-mixed-precision-accumulation", Meaning::kNoEffectOn},  // sums stay in fp32
    {"enable-saturate-infinity", Meaning::kNoEffectOn},              // transposes move bits
    {"enable-fast-context-switch", Meaning::kNoEffectOn},
    {"enable-fast-loading-neuron-binaries", Meaning::kNoEffectOn},
    {"cache_dir", Meaning::kNoEffect},
    {"hbm-scratchpad-page-size", Meaning::kNoEffect},
    {"tensorizer-options", Meaning::kNoEffect},
    {"disable-dge", Meaning::kNoEffectOn},  // of kernels by themselves: opentrn/_compiler_flags.py
    {"retry_failed_compilation", Meaning::kNoEffectOn},
};

// Of XLA, beside those that begin with xla_. [doc: xla/pjrt/proto/compile_options.proto]
constexpr std::string_view kXlaOptions[] = {
    "exec_time_optimization_effort",
    "memory_fitting_effort",
    "optimization_level",
    "memory_fitting_level",
};

bool is_xla_option(std::string_view key) {
  return key.starts_with("xla_") || std::ranges::find(kXlaOptions, key) != std::end(kXlaOptions);
}

[[noreturn]] void refuse(FaultKind kind, std::string message, std::string hint) {
  throw Fault(kind, "compiler.flags", std::move(message), std::move(hint));
}

// As a POSIX shell and Python's shlex split them: quotes hold words together, and a backslash takes the
// meaning from the character behind it; between double quotes from " and \ only, between single quotes from
// none.
std::vector<std::string> words_of(std::string_view text, std::string_view source = "NEURON_CC_FLAGS") {
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  bool open = false, escaped = false;
  for (const char c : text) {
    if (escaped) {
      if (quote == '"' && c != '"' && c != '\\') word += '\\';
      word += c;
      escaped = false;
    } else if (c == '\\' && quote != '\'') {
      escaped = open = true;
    } else if (quote != 0 && c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
      open = true;
    } else if (quote == 0 && (c == ' ' || c == '\t' || c == '\r' || c == '\n')) {
      if (open) words.push_back(std::exchange(word, {}));
      open = false;
    } else {
      word += c;
      open = true;
    }
  }
  if (escaped)
    refuse(FaultKind::kInput, fmt::format("{} ends with a backslash: {}", source, text),
           "write the character that it stands before");
  if (quote != 0)
    refuse(FaultKind::kInput, fmt::format("{} ends inside {}: {}", source, quote, text), "close the quote");
  if (open) words.push_back(word);
  return words;
}

std::optional<Flag> find(std::string_view name) {
  for (const OptionRow& row : option_rows())
    if (row.name == name) return Flag{row.name, row.is_switch() ? Meaning::kSwitch : Meaning::kOption};
  const auto* found = std::ranges::find(kFlags, name, &Flag::name);
  return found == std::end(kFlags) ? std::nullopt : std::optional(*found);
}

bool needs_value(Meaning meaning) { return meaning != Meaning::kSwitch && meaning != Meaning::kNoEffectOn; }

void take(CompilerFlags& flags, const Flag& flag, const std::string& value, std::string as_given) {
  switch (flag.meaning) {
    case Meaning::kOption:
    case Meaning::kSwitch: flags.options[std::string(flag.name)] = value; return;
    case Meaning::kTarget: flags.target = value; return;
    case Meaning::kInteger64:
      if (value == "enabled")
        refuse(FaultKind::kNotModelled, "64-bit integers are kept in 32 bits: native-int64 enabled",
               "leave the option out, or use 32-bit integers");
      [[fallthrough]];
    default: flags.without_effect.push_back(std::move(as_given));
  }
}

std::string options_text() {
  std::string text;
  for (const OptionRow& row : option_rows())
    text += fmt::format("{}--{}", text.empty() ? "" : ", ", row.name);
  return text;
}

}  // namespace

std::string cache_dir_of(std::string_view text) {
  constexpr std::string_view kName = "--cache_dir";
  const std::vector<std::string> words = words_of(text);
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with(std::string(kName) + "=")) return words[i].substr(kName.size() + 1);
    if (words[i] == kName) return i + 1 < words.size() ? words[i + 1] : "";
  }
  return "";
}

std::vector<std::string> flag_words(std::string_view text, std::string_view source) {
  return words_of(text, source);
}

bool has_flag(std::string_view text, std::string_view flag) {
  const std::vector<std::string> words = words_of(text);
  return std::ranges::find(words, flag) != words.end();
}

CompilerFlags parse_compiler_flags(std::string_view text) {
  CompilerFlags flags;
  const std::vector<std::string> words = words_of(text);
  for (size_t i = 0; i < words.size(); ++i) {
    std::string word = words[i];
    if (word.starts_with("-O") && word.size() > 2 && word[2] != '=')
      word = "--optlevel=" + word.substr(2);
    else if (word.starts_with("-O"))
      word = "--optlevel" + word.substr(2);
    else if (word.starts_with("-lnc"))
      word = "--lnc" + word.substr(4);
    const size_t equals = word.find('=');
    const std::string name = word.starts_with("--") ? word.substr(2, equals - 2) : "";
    std::optional<std::string> value;
    if (equals != std::string::npos) value = word.substr(equals + 1);
    if (name.starts_with("internal-")) {
      flags.without_effect.push_back(words[i]);
      continue;
    }
    const std::optional<Flag> flag = find(name);
    if (!flag)
      refuse(FaultKind::kInput,
             fmt::format("NEURON_CC_FLAGS has '{}', which is not an option of neuronx-cc", words[i]),
             fmt::format("with effect here: {}", options_text()));
    std::string as_given = words[i];
    if (!value && needs_value(flag->meaning)) {
      if (i + 1 == words.size())
        refuse(FaultKind::kInput, fmt::format("NEURON_CC_FLAGS ends with '{}'", words[i]),
               "give the option a value");
      value = words[++i];
      as_given += " " + *value;
    }
    take(flags, *flag, value.value_or("true"), std::move(as_given));
  }
  return flags;
}

void add_compiler_options(CompilerFlags& flags, const std::map<std::string, std::string>& given) {
  for (const auto& [key, value] : given) {
    std::string name = key;
    while (name.starts_with("-")) name.erase(0, 1);
    if (!find(name)) std::replace(name.begin(), name.end(), '_', '-');
    if (is_xla_option(key) || name.starts_with("internal-")) {
      flags.without_effect.push_back(key);
      continue;
    }
    const std::optional<Flag> flag = find(name);
    if (!flag)
      refuse(FaultKind::kInput, fmt::format("No such compile option: '{}' (in compiler_options)", key),
             fmt::format("with effect here: {}", options_text()));
    take(flags, *flag, value, fmt::format("{}={}", key, value));
  }
}

}  // namespace opentrn::compiler
